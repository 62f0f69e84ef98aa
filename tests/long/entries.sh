#!/bin/bash
# A cache of 100,000 entries: publishing, looking, listing, verifying, gc, clearing.
set -u
STORE_ENTRIES=${STORE_ENTRIES:-100000} "$1/tests/store_large"

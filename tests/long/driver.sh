#!/bin/bash
# Every command that a GPU runs, with more failing calls of the driver than `make test` takes.
set -u
tests/fault/driver.sh "$1" "${POINTS:-1}"

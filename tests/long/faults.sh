#!/bin/bash
# Every command with many more of its faults than `make test` takes: each call of the disk and of
# processes, and a spread of those of memory.
set -u
tests/fault/walk.sh "$1" "${POINTS:-8}"

#!/bin/bash
# start.sh [FOLDER]: how long a second start of the tiny model takes to its first and only token,
# and how much of that is spent outside of the driver. FOLDER holds what `make dist` collected; runs
# in the project's root.
set -u
folder=$(realpath "${1:-build/dist}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LATHE_DEVICE=cuda:0 LATHE_CACHE_DIR=${LATHE_CACHE_DIR:-$work/cache}
CLOCK_DRIVER=$(ldconfig -p | awk '/libcuda\.so\.1 .*x86-64/ { print $NF; exit }')
export CLOCK_DRIVER

start() { "$folder/lathe" run --model tests/tiny --prompt "ROMEO:" -n 1; }

start >/dev/null 2>&1
for _ in 1 2 3; do
    CLOCK_BEGIN=$(date +%s%N) LD_LIBRARY_PATH=$folder/clock start
done

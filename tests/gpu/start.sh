#!/bin/bash
# start.sh [FOLDER]: how long a second start of the tiny model takes to its first token, and how
# much of it is spent outside of the driver. FOLDER holds what `make dist` collected; runs in the
# project's root.
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
    begin=$(date +%s%N)
    LD_LIBRARY_PATH=$folder/clock start >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    whole=$((($(date +%s%N) - begin) / 1000))
    cat "$work/log"
    awk -v whole="$whole" '/^driver: / {
        printf "process: %.1f ms, outside of the driver %.1f ms\n", whole / 1e3, whole / 1e3 - $4
    }' "$work/log"
done

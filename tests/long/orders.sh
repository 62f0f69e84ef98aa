#!/bin/bash
# More orders of threads and blocks, other inputs, and the text of an arch with another tensor-core
# model: every kept variant of every sample, two sweeps at once.
set -u
lathe=$1/lathe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export lathe work

sweep() { # sweep NAME SETTING WORDS..: its last lines where it fails
    local name=$1 setting=$2
    shift 2
    env "$setting" "$lathe" check --all --device cpu "$@" >"$work/$name" 2>&1 && return
    tail -n 5 "$work/$name"
    touch "$work/failed"
}
export -f sweep

printf '%s\n' "two LATHE_CPU_ORDER=202 --seed 2" "three LATHE_CPU_ORDER=303 --seed 3" \
    "four LATHE_CPU_ORDER=404 --seed 4" "left LATHE_CPU_LEFT=on --seed 5" \
    "arch LATHE_CPU_ORDER=0 --arch sm_121a" | xargs -P 2 -L 1 bash -c 'sweep "$0" "$@"'
[ "$(cat "$work"/* | grep -c ' 0 refused, 0 failed$')" = 5 ] && [ ! -f "$work/failed" ]

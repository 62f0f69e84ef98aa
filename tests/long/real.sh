#!/bin/bash
# The model's shapes, full and one rank of three, on the CPU device: every kept variant on sampled
# blocks, two families at once.
set -u
lathe=$1/lathe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export lathe work
"$lathe" families | awk 'NR > 1 { print $1 }' >"$work/families"
# shellcheck disable=SC2016 # the inner shell's arguments
xargs -n 1 -P 2 bash -c '"$lathe" check "$0" --all --real --device cpu >"$work/$0.out" 2>&1 ||
    echo "$0" >>"$work/failed"' <"$work/families"
awk '/ launches, / { v += $5; l += $7 } END { print v " variants, " l " launches" }' "$work"/*.out
if [ -f "$work/failed" ]; then
    while read -r family; do tail -n 5 "$work/$family.out"; done <"$work/failed"
fi
[ -s "$work/families" ] && [ ! -f "$work/failed" ]

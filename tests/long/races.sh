#!/bin/bash
# Every family on the device that checks each access: the default variants of its samples, of the
# sm_121a text too. ALL=--all: every kept variant in three orders of threads; that takes minutes.
set -u
lathe=$(realpath "$1")/lathe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export lathe work ALL=${ALL:-} LATHE_DEVICE=cpu LATHE_CPU_CHECK=on
command -v gcc >/dev/null || exit 77

one() { # one FAMILY
    # shellcheck disable=SC2086 # a word or none
    "$lathe" check "$1" $ALL && "$lathe" check "$1" --arch sm_121a
}
export -f one

"$lathe" families | awk 'NR > 1 { print $1 }' >"$work/families"
# shellcheck disable=SC2016 # the inner shell's arguments
xargs -n 1 -P 2 bash -c 'one "$0" >"$work/$0.out" 2>&1 || echo "$0" >>"$work/failed"' \
    <"$work/families"
awk '/ launches, / { v += $5; l += $7 } END { print v " variants, " l " launches" }' "$work"/*.out
if [ -f "$work/failed" ]; then
    while read -r family; do tail -n 5 "$work/$family.out"; done <"$work/failed"
fi
[ -s "$work/families" ] && [ ! -f "$work/failed" ]

#!/bin/bash
# Default variants compile without a spill: of a sample on every architecture that keeps one, of the
# model's shapes on those of an H200 and a GB10.
set -u
lathe=$(realpath "$1")/lathe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export lathe LATHE_CACHE_DIR=$work/cache LATHE_SPILL=error LATHE_JOBS=1
build() {
    local said
    # shellcheck disable=SC2086 # words
    said=$("$lathe" build $1 2>&1) && echo built && return
    echo "lathe build $1: $(tail -n 2 <<<"$said")"
}
export -f build
lua5.4 tests/long/archs.lua families/*.lua >"$work/jobs" || exit 1
# shellcheck disable=SC2016 # the inner shell's argument
xargs -d '\n' -n 1 -P 2 bash -c 'build "$0"' <"$work/jobs" >"$work/out"
grep -q 'no compiler' "$work/out" && exit 77
grep -v '^built$' "$work/out"
echo "$(grep -c '^built$' "$work/out") of $(wc -l <"$work/jobs") builds"
[ "$(grep -c '^built$' "$work/out")" = "$(wc -l <"$work/jobs")" ]

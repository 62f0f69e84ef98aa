#!/bin/bash
# The default variant of every family's samples compiles for every architecture that keeps it,
# without a spill.
set -u
lathe=$(realpath "$1")/lathe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LATHE_CACHE_DIR=$work/cache LATHE_SPILL=error
jobs=$work/jobs
lua5.4 tests/long/archs.lua families/*.lua >"$jobs" || exit 1
failed=0 count=0
while read -r job; do
    # shellcheck disable=SC2086 # words
    "$lathe" build $job >"$work/out" 2>&1
    status=$?
    grep -q 'no compiler' "$work/out" && exit 77
    count=$((count + 1))
    [ $status = 0 ] && continue
    failed=$((failed + 1))
    echo "lathe build $job: $(tail -n 2 "$work/out")"
done <"$jobs"
echo "$count builds, $failed failed"
[ "$count" -gt 0 ] && [ "$failed" = 0 ]

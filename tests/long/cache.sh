#!/bin/bash
# Processes that build the same kernels together on an empty cache, one of them killed in the
# middle: the others succeed, no reader ever sees an entry that is not whole, each is there once.
set -u
lathe=$(realpath "$1")/lathe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LATHE_CACHE_DIR=$work/a/b/cache
build() { "$lathe" build w8a8_gemv M=2 N=96 K=1552 --arch sm_90a --all; }
fail() { echo "$*"; exit 1; }

build >"$work/first" 2>&1
grep -q 'no compiler' "$work/first" && exit 77
grep -q FAILED "$work/first" && fail "the kernels do not build: $(tail -n 5 "$work/first")"
entries() { find "$LATHE_CACHE_DIR" -regextype posix-extended -regex '.*\.[0-9a-f]{16}' | wc -l; }
kernels=$(entries)
[ "$kernels" -gt 1 ] || fail "there are $kernels kernels"

for round in $(seq 8); do
    rm -rf "$work/a"
    pids=()
    for _ in $(seq 6); do
        build >>"$work/out" 2>&1 &
        pids+=($!)
    done
    sleep "0.$round"
    kill -9 "${pids[$((round % 6))]}" 2>/dev/null
    for i in "${!pids[@]}"; do
        "$lathe" cache verify >"$work/verify" 2>&1 || fail "round $round: $(cat "$work/verify")"
        wait "${pids[$i]}" || [ "$i" = $((round % 6)) ] ||
            fail "round $round: process $i failed: $(tail -n 5 "$work/out")"
    done
    [ "$(entries)" = "$kernels" ] || fail "round $round: $(entries) entries, not $kernels"
done
echo "8 rounds of 6 processes, $kernels kernels"

#!/bin/bash
# Processes that build the same kernels together on an empty cache, one of them killed at a random
# moment: the others succeed, no reader ever sees an entry that is not whole, each is there once.
# In every second round another one empties the cache over and over meanwhile.
# ROUNDS (8) times 16 processes and 20 kernels; SEED chooses whom to kill and when.
set -u
lathe=$(realpath "$1")/lathe
rounds=${ROUNDS:-8} processes=16
RANDOM=${SEED:-1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LATHE_CACHE_DIR=$work/a/b/cache LATHE_JOBS=1
words="build w4a16_gemv M=1 N=8726 K=4096 --arch sm_90a --all"
# shellcheck disable=SC2086 # words
build() { "$lathe" $words; }
fail() { echo "$*"; exit 1; }

start=$(date +%s%N)
build >"$work/first" 2>&1
grep -q 'no compiler' "$work/first" && exit 77
grep -q FAILED "$work/first" && fail "the kernels do not build: $(tail -n 5 "$work/first")"
length=$((($(date +%s%N) - start) / 1000000))
entries() { find "$LATHE_CACHE_DIR" -regextype posix-extended -regex '.*\.[0-9a-f]{16}' | wc -l; }
kernels=$(entries)
: >"$work/removed"
[ "$kernels" -ge 20 ] || fail "there are $kernels kernels"

# Empties the cache until the file `busy` goes; adds what it removed to the file `removed`.
collect() {
    while [ -e "$work/busy" ]; do
        LATHE_CACHE_LIMIT=0 "$lathe" cache gc >>"$work/removed" 2>&1 || echo "gc failed"
    done
}

killed=0 verified=0
for round in $(seq "$rounds"); do
    rm -rf "$work/a"
    pids=()
    if [ $((round % 2)) = 0 ]; then
        : >"$work/busy"
        collect >"$work/collected" &
        collector=$!
    fi
    for _ in $(seq $processes); do
        # shellcheck disable=SC2086 # words
        "$lathe" $words >>"$work/out" 2>&1 &
        pids+=($!)
    done
    victim=$((RANDOM % processes)) at=$((RANDOM % length))
    sleep "$((at / 1000)).$(printf %03d $((at % 1000)))"
    kill -9 "${pids[$victim]}" 2>/dev/null && killed=$((killed + 1))
    for i in "${!pids[@]}"; do
        "$lathe" cache verify >"$work/verify" 2>&1 || fail "round $round: $(cat "$work/verify")"
        verified=$((verified + 1))
        wait "${pids[$i]}" || [ "$i" = $victim ] ||
            fail "round $round: process $i failed: $(tail -n 5 "$work/out")"
    done
    if [ -e "$work/busy" ]; then
        rm "$work/busy"
        wait "$collector"
        [ -s "$work/collected" ] && fail "round $round: $(tail -n 5 "$work/removed")"
        build >"$work/out" 2>&1 || fail "round $round: $(tail -n 5 "$work/out")"
    fi
    [ "$(entries)" = "$kernels" ] || fail "round $round: $(entries) entries, not $kernels"
done
removed=$(awk '{ n += $2 } END { print n + 0 }' "$work/removed")
echo "$rounds rounds of $processes processes and $kernels kernels: $killed killed," \
    "$verified reads, $removed entries removed meanwhile"
[ "$rounds" -lt 2 ] || [ "$removed" -gt 0 ]

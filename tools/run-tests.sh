#!/bin/bash
# run-tests.sh BUILD SUITE..: runs the suites (c, lua, golden, compile, check, faults, fuzz,
# long), prints each one's counts and closes with their sum. 1 where something failed.
set -u
build=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for name in $(env | sed -n 's/^\(LATHE_[A-Z_]*\)=.*/\1/p'); do
    [ "$name" = LATHE_NVRTC ] || unset "$name"
done
mkdir -m 1777 "$scratch/tmp"
chmod 755 "$scratch" # a test may give up its rights
export TMPDIR=$scratch/tmp LATHE_CACHE_DIR=$scratch/cache
export ASAN_OPTIONS=detect_stack_use_after_return=0
passed=0 failed=0 skipped=0

# count NAME STATUS LOG PASSED FAILED SKIPPED: adds a suite's counts and shows what went wrong. The
# sums are passed, failed and skipped: a caller may have none of these as a local.
count() {
    local f=$5
    [ "$2" != 0 ] && [ "$f" = 0 ] && f=1 # it crashed, or ran out of time
    printf '  %-28s %4d passed %3d failed %3d skipped\n' "$1" "$4" "$f" "$6"
    if [ "$f" != 0 ]; then
        echo "  ---- $1 ended with $2 ----"
        tail -n 60 "$3"
        echo "  ----"
    fi
    passed=$((passed + $4)) failed=$((failed + f)) skipped=$((skipped + $6))
}

# total LOG PATTERN: the sum of the numbers in front of or behind the pattern's words.
total() { grep -oE "$2" "$1" | grep -oE '[0-9]+' | awk '{ n += $1 } END { print n + 0 }'; }

run_one() { # run_one PROGRAM LOG
    timeout 300 "$1" >"$2" 2>&1
    echo $? >"$2.status"
}
export -f run_one

run_c() {
    local program log
    for program in "$build"/tests/*; do
        [ -x "$program" ] && [ -f "$program" ] && [ -f "tests/cpu/${program##*/}.c" ] &&
            printf '%s\0%s\0' "$program" "$scratch/${program##*/}.log"
    done | xargs -0 -r -n 2 -P 2 bash -c 'run_one "$@"' run
    for log in "$scratch"/*.log; do
        [ -f "$log.status" ] || continue
        count "$(basename "$log" .log)" "$(cat "$log.status")" "$log" \
            "$(total "$log" '\[  PASSED  \] [0-9]+')" \
            "$(total "$log" '\[  FAILED  \] [0-9]+ test')" \
            "$(total "$log" '\[  SKIPPED \] [0-9]+')"
    done
}

run_lua() {
    local log=$scratch/lua.out
    timeout 1200 lua5.4 tests/lua/run.lua tests/lua >"$log" 2>&1
    local status=$?
    tail -n 2 "$log" >"$log.counts"
    count "lua" $status "$log" "$(total "$log.counts" '[0-9]+ success')" \
        "$(total "$log.counts" '[0-9]+ (failure|error)')" "$(total "$log.counts" '[0-9]+ pending')"
}

run_golden() {
    local log=$scratch/golden.out
    if tools/golden.sh >"$log" 2>&1; then
        count golden 0 "$log" "$(total "$log" '^[0-9]+ texts')" 0 0
    else
        count golden 1 "$log" 0 1 0
    fi
}

# Every golden text compiles for the architectures that keep it, without a spill.
build_one() {
    local said
    # shellcheck disable=SC2086 # words
    said=$("$LATHE" build $1 2>&1)
    local status=$?
    case $said in *"no compiler"*) echo "no compiler" ;; *) [ $status = 0 ] && echo built ;; esac
    [ $status = 0 ] || echo "lathe build $1: $said"
}
export -f build_one

run_compile() {
    local log=$scratch/compile.out words=$scratch/compile.words
    lua5.4 tools/golden.lua "$scratch/texts" few families/*.lua | grep -- --arch >"$words"
    LATHE=$build/lathe LATHE_SPILL=error \
        xargs -d '\n' -n 1 -P 2 bash -c 'build_one "$0"' <"$words" >"$log"
    local all built without
    all=$(wc -l <"$words")
    built=$(grep -c '^built$' "$log")
    without=$(grep -c '^no compiler$' "$log")
    sed -i '/^built$/d' "$log" # what is left is what went wrong
    count compile 0 "$log" "$built" $((all - built - without)) "$without"
}

# Every kept variant of every sample against its reference, in three orders of threads, the last
# one with late copies and an early start.
run_check() {
    local log=$scratch/check.out
    "$build/lathe" check --all --device cpu >"$log" 2>&1
    local status=$? variants wrong
    variants=$(total "$log" '[0-9]+ variants')
    wrong=$(total "$log" '[0-9]+ failed')
    count check $status "$log" $((variants - wrong)) "$wrong" 0
}

walk() { # walk NAME COMMAND..
    local name=$1 log=$scratch/$1.out status runs broke
    shift
    timeout 300 "$@" >"$log" 2>&1
    status=$?
    runs=$(total "$log" '^[0-9]+ runs')
    broke=$(total "$log" '^[0-9]+ broke')
    if [ $status = 77 ]; then
        count "$name" 0 "$log" 0 0 1
    else
        count "$name" $status "$log" $((runs - broke)) "$broke" 0
    fi
}

# A few of the faults that tests/long/faults.sh and tests/long/driver.sh walk through.
run_faults() {
    walk faults tests/fault/walk.sh "$build" 3
    walk driver tests/fault/driver.sh "$build" 1 check bench tune run
}

# Every kept input of the fuzzer once more: each is taken or refused with a sentence.
run_fuzz() {
    local reader inputs fine=0 bad=0
    for reader in tests/fuzz/corpus/*; do
        inputs=$(find "$reader" -type f | wc -l)
        if FUZZ_READER=${reader##*/} timeout 120 "$build/replay" "$reader"/* \
            >/dev/null 2>"$scratch/fuzz.part"; then
            fine=$((fine + inputs))
        else
            bad=$((bad + 1))
            tail -n 5 "$scratch/fuzz.part" >>"$scratch/fuzz.out"
        fi
    done
    count fuzz $((bad > 0)) "$scratch/fuzz.out" $fine $bad 0
}

# A long suite is a script that exits 0; 77 says that something it needs is not here.
run_long() {
    local script name
    for script in tests/long/*.sh; do
        [ -f "$script" ] || continue
        name=$(basename "$script" .sh)
        timeout 1200 "$script" "$build" >"$scratch/$name.out" 2>&1
        case $? in
        0) count "$name" 0 "$scratch/$name.out" 1 0 0 ;;
        77) count "$name" 0 "$scratch/$name.out" 0 0 1 ;;
        *) count "$name" 1 "$scratch/$name.out" 0 1 0 ;;
        esac
    done
}

for suite; do "run_$suite"; done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

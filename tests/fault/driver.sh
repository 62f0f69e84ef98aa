#!/bin/bash
# driver.sh BUILD POINTS [COMMAND..]: whole commands on a GPU that is not there (driver.c), in which
# one call of the driver, or one kernel, fails: POINTS of each call, evenly spread, with an error
# that the context does not survive (700) and with one that it does (2). Each ends with 3 and a
# sentence that names the call, looks in nothing like one that went well, and gives back all that it
# took, of the driver too; where it is a kernel that fails, the sentence names it. Prints the counts
# and what broke a rule.
set -u
build=$(realpath "$1") points=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. tests/fault/rules.sh
export LATHE_DEVICE=cuda:0 LATHE_JOBS=1
tree=$PWD
cp "$build/lathe" "$work/lathe"
lathe=$work/lathe fault=$build/fault.so
seconds=600 # that a command has, to compile what it needs
echo "ROMEO: a text of a few words" >"$work/text"

declare -A commands=(
    [check]="check rms_norm M=2 K=64"
    [check_all]="check rms_norm --all"
    [bench]="bench rms_norm M=2 K=64"
    [tune]="tune rms_norm M=1 K=512"
    [run]="run --model $tree/tests/tiny --prompt a -n 2 --tokens"
    [eval]="eval --model $tree/tests/tiny --file $work/text"
    [bench_model]="bench --model $tree/tests/tiny --contexts 32"
    [worker]="--tune-worker"
)

# Calls whose answer changes nothing: what they end is ended. The first look for a GPU is repeated.
is_ending() {
    case $1 in *Free | *Destroy | *Unload | *Release | CtxSetCurrent | Init | DeviceGetCount) ;;
    *) return 1 ;;
    esac
}

# start FOLDER COMMAND NAME=VALUE..: leaves out, err, log, calls there; its exit status.
start() {
    local folder=$1 command=$2
    shift 2
    rm -rf "$folder"
    mkdir "$folder"
    [ ! -d "$work/warm_$command" ] || cp -r "$work/warm_$command" "$folder/cache"
    # shellcheck disable=SC2086 # a command is words
    (cd "$folder" && timeout "$seconds" env LD_PRELOAD="$fault" FAULT_LOG="$folder/log" \
        LD_LIBRARY_PATH="$build/driver" DRIVER_LOG="$folder/calls" \
        LATHE_CACHE_DIR="$folder/cache" "$@" "$lathe" ${commands[$command]} >out 2>err)
}

judge() { # judge WHERE COMMAND CALL RESULT STATUS
    local folder=${1%% *} command=$2 call=$3 result=$4 status=$5
    local named="cu$call: .*\($result\)"
    [ "$result" = 2 ] || named="cu[A-Z][A-Za-z0-9]*: .*\(700\)" # a later call may tell it
    [ "$call" != Kernel ] || named='raised by (launch|one of launches) .*[a-z0-9]__[a-z0-9_]+__'
    case $status in
    0) is_ending "$call" && plain "$folder/out" | cmp -s - "$work/clean_$command/plain" ||
        ! grep -qs '^fault' "$folder/calls" ||
        { [ "$command" = tune ] && grep -qE "$named" "$folder/err"; } || say "$1" "it succeeds" ;;
    1) case $command in
        tune) ;; # a candidate that fails is a result
        check*) [ "$result" = 2 ] || say "$1" "ended with 1" ;; # so is a kernel that does not load
        *) say "$1" "ended with 1" ;;
        esac ;;
    3) ;;
    124) say "$1" "it hangs" ;;
    *) say "$1" "ended with $status" ;;
    esac
    [ "$status" = 0 ] || grep -qE "^lathe: .*$named" "$folder/err" ||
        say "$1" "no sentence names it"
    [ "$status" = 0 ] || ! grep -qE '[0-9] tok/s on|, 0 failed$' "$folder/out" "$folder/err" ||
        say "$1" "it looks healthy"
    [ "$result" = 2 ] || ! grep -q 'compile-failed' "$folder/err" ||
        say "$1" "it blames the candidate's text"
    grep -qE 'stack traceback|a bug of the program|\(null\)' "$folder/err" && say "$1" "a bug"
    [ "$command" != tune ] || check_left "$1"
    check_given_back "$1" "$command"
    grep -qs '^left objects [1-9]' "$folder/calls" && say "$1" "objects of the driver are left"
}

# worker NUMBER: every second line of the list "command call n result".
worker() {
    local folder=$work/w$1 command call n result status met
    while read -r command call n result; do
        if [ "$call" = Kernel ]; then
            start "$folder" "$command" DRIVER_KERNEL="$n"
        else
            start "$folder" "$command" DRIVER_CALL="$call" DRIVER_AT="$n" DRIVER_RESULT="$result"
        fi
        status=$?
        met=$status
        [ "$call" = Kernel ] || met=$(grep -cs '^fault' "$folder/calls")
        echo "$command $result $status ${met:-0}" >>"$work/done$1"
        judge "$folder $command $call $n $result" "$command" "$call" "$result" $status
    done < <(awk "NR % 2 == $1" "$work/list")
}

# The faults of a command, from the calls that its process makes where nothing fails.
list() {
    local command=$1 call count step n folder=$work/clean_$1
    start "$folder" "$command" || { echo "$command fails: $(cat "$folder/err")" >&2; exit 1; }
    is_clean "$folder/log" 14 >&2 || exit 1 # the loader keeps some of a library
    plain "$folder/out" >"$folder/plain"
    if [ "$command" = tune ]; then # its workers are killed, and say nothing of calls and of leaks
        printf 'open\tcuda:0\n' | start "$work/like" worker
        cat "$work/like/log" >>"$folder/log"
        start "$work/like" check
        cp "$work/like/calls" "$folder"
    fi
    awk '$1 == "count" && $3 > n[$2] { n[$2] = $3 } END { for (k in n) print k, n[k] }' \
        "$folder/calls" | sort | while read -r call count; do
        step=$(((count + points - 1) / points))
        for ((n = (step + 1) / 2; n <= count; n += step)); do
            echo "$command $call $n 700"
            [ "$call" = Kernel ] || echo "$command $call $n 2"
        done
    done
}

[ $# -gt 0 ] || set -- check check_all bench tune run eval bench_model
for command in check "$@"; do # what it compiles is there from the beginning
    start "$work/fill" "$command"
    grep -q 'no compiler' "$work/fill/err" && exit 77
    rm -rf "$work/fill/cache/tuned" "$work/warm_$command"
    mv "$work/fill/cache" "$work/warm_$command"
done
seconds=20
for command; do list "$command" || exit 1; done >"$work/list"
: >"$work/faults"
worker 0 &
worker 1 &
wait
finish

#!/bin/bash
# walk.sh BUILD POINTS [COMMAND..]: whole commands in which the n-th call of one kind fails, once
# and from then on: n = 1.. to the last call, or POINTS of them, evenly spread. Each must end with
# 0..3 and one sentence that names something; 0 with what it prints where nothing fails. What it
# leaves is whole: entries, records, files; and it gives back what it took. Prints the counts and
# what broke a rule.
set -u
build=$(realpath "$1") points=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. tests/fault/rules.sh
export LATHE_DEVICE=cpu LATHE_JOBS=1
tree=$PWD
cp "$build/lathe" "$work/lathe" # far from the checkout: the files inside the program
lathe=$work/lathe fault=$build/fault.so
mkdir "$work/empty" "$work/warm"

# Words of each command; its name chooses what it begins with: warm ones have entries and records.
declare -A commands=(
    [gen]="gen w8a8_gemv M=1 N=64 K=64"
    [gen_checkout]="gen rms_norm M=1 K=64"
    [families]="families rms_norm"
    [config]="config"
    [check]="check rms_norm M=2 K=64"
    [check_out]="check rms_norm M=2 K=64 --out out.safetensors"
    [build]="build rms_norm M=1 K=64 --arch sm_90a"
    [build_warm]="build rms_norm M=1 K=64 --arch sm_90a"
    [build_dump]="build rms_norm M=1 K=64 --arch sm_90a"
    [tune]="tune rms_norm M=1 K=64"
    [tune_warm]="tune rms_norm M=1 K=64"
    [merge_warm]="tune --merge given.tuned"
    [list_warm]="cache list"
    [verify_warm]="cache verify"
    [clear_warm]="cache clear"
    [why_warm]="why rms_norm__m1_k64__w1 --arch sm_90a"
    [plan]="plan --model $tree/tests/tiny --mode decode --rows 1"
    [run]="run --model $tree/tests/tiny --prompt a -n 1 --tokens"
)
# A run takes a second, the others some hundredths.
most_of() { # most_of COMMAND
    case $1 in run) echo $((points / 12 + 1)) ;; *) echo "$points" ;; esac
}

begin() { # begin FOLDER COMMAND: an own folder with what the command begins with
    rm -rf "$1"
    case $2 in *_warm) cp -r "$work/warm" "$1" ;; *) cp -r "$work/empty" "$1" ;; esac
}

# start FOLDER COMMAND NAME=VALUE..: leaves out, err, log there; its exit status.
start() {
    local folder=$1 command=$2
    shift 2
    case $command in
    gen_checkout) set -- "$@" "LATHE_ROOT=$tree" ;;
    build_dump) set -- "$@" "LATHE_DUMP=$folder/dump" ;;
    esac
    # shellcheck disable=SC2086 # a command is words
    (cd "$folder" && timeout 20 env LD_PRELOAD="$fault" FAULT_LOG="$folder/log" \
        LATHE_CACHE_DIR="$folder/cache" "$@" "$lathe" ${commands[$command]} >out 2>err)
}

judge() { # judge WHERE COMMAND STATUS
    local folder=${1%% *} command=$2 status=$3
    case $status in
    0) plain "$folder/out" | cmp -s - "$work/clean_$command/plain" || # what changes it is said
        grep -q '^lathe: ' "$folder/err" || say "$1" "it succeeds with another output" ;;
    1) cat "$folder/out" "$folder/err" | grep -q . || say "$1" "it says nothing" ;;
    2 | 3) [ "$(grep -cE '^lathe: [^:]+:.*[a-z]' "$folder/err")" -ge 1 ] ||
        say "$1" "no sentence with $status" ;;
    124) say "$1" "it hangs" ;;
    *) say "$1" "ended with $status" ;;
    esac
    grep -qE 'stack traceback|a bug of the program|\(null\)' "$folder/err" && say "$1" "a bug"
    check_left "$1"
    check_given_back "$1" "$command"
}

# The blocks of a command's settings: one each, and the home's cache folder.
settings_of() { # settings_of COMMAND
    local count
    count=$(env LATHE_CACHE_DIR=x sh -c 'env | grep -c ^LATHE_')
    case $1 in gen_checkout | build_dump | tune*) count=$((count + 1)) ;; esac
    echo $((count + 1))
}

# "kind count" of the calls that a command makes in its process that makes most of them.
clean() { # clean COMMAND
    local folder=$work/clean_$1
    begin "$folder" "$1"
    start "$folder" "$1" || return 1
    is_clean "$folder/log" "$(settings_of "$1")" >&2 || return 1
    plain "$folder/out" >"$folder/plain"
    awk '$1 == "count" && $3 > n[$2] { n[$2] = $3 } END { for (k in n) print k, n[k] }' \
        "$folder/log" | sort
}

# worker NUMBER: every second line of the list "command kind n on".
worker() {
    local folder=$work/w$1 command kind n on status
    while read -r command kind n on; do
        begin "$folder" "$command"
        start "$folder" "$command" FAULT_KIND="$kind" FAULT_AT="$n" FAULT_ON="$on"
        status=$?
        echo "$command $kind $status $(grep -c '^fault' "$folder/log" 2>/dev/null)" >>"$work/done$1"
        judge "$folder $command $kind $n on=$on" "$command" $status
    done < <(awk "NR % 2 == $1" "$work/list")
}

# warm: what commands begin with that find something: an entry, records, a file to merge.
fill() {
    local folder=$work/fill
    begin "$folder" tune
    start "$folder" tune || return 1
    mkdir -p "$work/warm/cache"
    cp "$folder/cache/tuned/cpu.tuned" "$work/warm/given.tuned"
    start "$folder" build || [ "$has_compiler" = 0 ] || return 1
    cp -r "$folder/cache" "$work/warm/"
    sed -i '$d' "$work/warm/cache/tuned/cpu.tuned" # so that there is something to merge
}

# Faults that once broke a rule, wherever the spread falls.
known() { # known COMMAND..
    local command n
    for command; do
        case $command in
        check) for n in $(seq 20); do echo "check map $n 0"; done ;; # libtcc's own mprotect
        tune) for n in 1 2 3 5; do echo "tune write $n 0"; done && echo "tune read 1 0" ;;
        tune_warm) echo "tune_warm open 1 0" ;;
        gen) echo "gen alloc 20000 1" ;;
        esac
    done
}

# "command kind n on" of all faults: each call once, and with all later ones.
list() {
    local command kind count most step on n
    for command in "$@"; do
        clean "$command" >"$work/counts" || { echo "$command fails without a fault" >&2; exit 1; }
        while read -r kind count; do
            most=$(most_of "$command")
            step=$(((count + most - 1) / most))
            for on in 0 1; do
                for ((n = 1 + on * (step / 2); n <= count; n += step)); do
                    echo "$command $kind $n $on"
                done
            done
        done <"$work/counts"
    done
}

has_compiler=1
"$lathe" build rms_norm M=1 K=64 --arch sm_90a 2>&1 | grep -q 'no compiler' && has_compiler=0
fill || { echo "nothing to begin with: $(cat "$work/fill/err")"; exit 1; }
[ $# -gt 0 ] || set -- "${!commands[@]}"
for command; do
    case $command in build*) [ $has_compiler = 1 ] || continue ;; esac
    walked+=("$command")
done
{ list "${walked[@]}" && known "${walked[@]}"; } >"$work/list" || exit 1
: >"$work/faults"
worker 0 &
worker 1 &
wait
finish

#!/bin/bash
# trials.sh [FOLDER [FILE [GPU]]]: changed texts beside those of before, in one run. A line of FILE
# (stdin) is a folder for LATHE_ROOT, relative to the current one (-: none, the embedded files),
# and the words of a `lathe bench` of one shape, such as
#   trials/ahead w4a16_gemv M=1 N=4096 K=4096 --all
# Prints us of each kernel and their ratio to the first line that has a kernel of this name; one
# that is wrong has no time. Ends with 1 where a line has none. FOLDER holds the lathe of
# `make dist` (default: where this script lies). With a GPU, such as sm_90a:132 (multiprocessors),
# it only compiles for that one, into LATHE_CACHE_DIR, which another machine may be given.
set -u
. "$(dirname "$0")/turns.sh"
folder=$(realpath "${1:-$(dirname "$0")}")
mapfile -t lines < <(grep -vE '^ *(#|$)' "${2:-/dev/stdin}")
gpu=${3:-} here=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LATHE_CACHE_DIR=${LATHE_CACHE_DIR:-$work/cache}
LATHE_CACHE_DIR=$(realpath -m "$LATHE_CACHE_DIR")
cd "$work" || exit 1 # the embedded files, not a checkout's

# lathe COMMAND LINE OPTION..: with the line's root and words.
lathe() {
    local command=$1 root words
    read -r root words <<<"$2"
    [ "$root" = - ] && root= || root=$(realpath "$here/$root")
    # shellcheck disable=SC2086
    LATHE_ROOT=$root "$folder/lathe" "$command" $words "${@:3}"
}
export -f lathe
export folder here

compile() { # compile OPTION..: every line, at once
    printf '%s\n' "${lines[@]}" |
        xargs -P "$(nproc)" -d '\n' -I{} bash -c 'lathe build "$@" >/dev/null' sh {} "$@"
}

start() { lathe bench "${lines[$1]}" --wait; }

finish() {
    awk -v root="${lines[$1]%% *}" '
        FILENAME == "first" { first[$1] = $2; next }
        $1 ~ /__/ && $2 > 0 {
            timed = 1
            if (!($1 in first)) { print $1, $2 >>"first" }
            printf "| %s | %s | %s | %s | %s |\n", root, $1, $2, $3,
                $1 in first ? sprintf("%.3f", $2 / first[$1]) : ""
        }
        END { exit !timed }' first "bench.$1" || echo "no time: ${lines[$1]}" | tee -a untimed >&2
}

if [ -n "$gpu" ]; then
    compile --arch "${gpu%:*}" --sms "${gpu#*:}"
    exit
fi
compile 2>/dev/null # the bench says what is wrong
: >first
echo "| root | kernel | us | +-% | us / first |"
echo "|---|---|---|---|---|"
in_turn "${#lines[@]}" start finish
[ ! -e untimed ]

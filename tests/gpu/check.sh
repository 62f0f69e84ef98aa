#!/bin/bash
# check.sh [FOLDER [TOOL]]: what only a GPU can tell, with the programs that `make dist` put into
# FOLDER (default: where this script lies): each test program, then every family against its
# reference and against the CPU device. TOOL: memcheck, racecheck, initcheck, synccheck.
set -u
folder=$(realpath "${1:-$(dirname "$0")}")
tool=${2:-}
under=()
[ -z "$tool" ] || under=(compute-sanitizer --tool "$tool" --error-exitcode 9 -q)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LATHE_DEVICE=${LATHE_DEVICE:-cuda:0} LATHE_CACHE_DIR=${LATHE_CACHE_DIR:-$scratch/cache}
passed=0 failed=0

# check NAME COMMAND..: one that closes with 'N passed, N failed' counts so, another one as one.
check() {
    local name=$1 log=$scratch/log status counts p=0 f=0
    shift
    "${under[@]}" "$@" >"$log" 2>&1
    status=$?
    counts=$(tail -n 1 "$log" | grep -oE '^[0-9]+ passed, [0-9]+ failed')
    if [ -n "$counts" ]; then
        read -r p _ f _ <<<"${counts/,/}"
    elif [ $status = 0 ]; then
        p=1
    fi
    [ $status != 0 ] && [ "$f" = 0 ] && f=1
    printf '  %-28s %4d passed %3d failed\n' "$name" "$p" "$f"
    [ "$f" = 0 ] || { echo "  ---- $name ended with $status ----"; tail -n 40 "$log"; }
    passed=$((passed + p)) failed=$((failed + f))
}

[ -x "$folder/lathe" ] || { echo "$folder holds no lathe (run make dist)"; exit 1; }
cd "$scratch" || exit 1 # the embedded files, not a checkout's
for program in "$folder"/*; do
    case $program in *.sh | */lathe) continue ;; esac
    [ -f "$program" ] && [ -x "$program" ] && check "$(basename "$program")" "$program"
done
check "lathe check --all" "$folder/lathe" check --all
check "lathe check --bits" "$folder/lathe" check --bits
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

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

# sweep OPTION PROCESSES: `lathe check FAMILY OPTION` for every family, so many at once. Each family
# counts as one; the last line of its log has the counts of what was compared.
sweep() {
    local logs=$scratch/logs$1 family p=0 f=0
    mkdir "$logs"
    "$folder/lathe" families --json | grep -oE '"family":"[^"]*"' | cut -d'"' -f4 | sort -u |
        UNDER="${under[*]}" xargs -P "$2" -I{} \
            sh -c '$UNDER "$0" check "$1" "$2" >"$3/$1" 2>&1 || : >"$3/$1.failed"' \
            "$folder/lathe" {} "$1" "$logs"
    for family in "$logs"/*; do
        case $family in *.failed) continue ;; esac
        [ -e "$family.failed" ] || { p=$((p + 1)); continue; }
        f=$((f + 1))
        echo "  ---- check $(basename "$family") $1 ----"
        tail -n 10 "$family"
    done
    printf '  %-28s %4d passed %3d failed: %s elements compared\n' "lathe check $1" "$p" "$f" \
        "$(cat "$logs"/* | awk '/ elements compared/ { for (i = 2; i <= NF; i++)
            if ($i == "elements") n += $(i - 1) } END { print n + 0 }')"
    passed=$((passed + p)) failed=$((failed + f))
    [ "$p" -gt 0 ] || failed=$((failed + 1))
}

[ -x "$folder/lathe" ] || { echo "$folder holds no lathe (run make dist)"; exit 1; }
cd "$scratch" || exit 1 # the embedded files, not a checkout's
for program in "$folder"/*; do
    case $program in *.sh | */lathe) continue ;; esac
    [ -f "$program" ] && [ -x "$program" ] && check "$(basename "$program")" "$program"
done
sweep --all 12
sweep --bits 15
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

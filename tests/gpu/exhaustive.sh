#!/bin/bash
# exhaustive.sh [FOLDER ["FAMILY K=V.."..]]: is what the tuner chooses within 3 % of the best of all
# kept variants? Each shape is tuned with an empty cache; then every variant is timed in one run,
# and the chosen one and the best of that run once more in turn, twice. FOLDER holds the lathe of
# `make dist` (default: where this script lies). Ends with 1 where a shape has no such winner.
set -u
folder=$(realpath "${1:-$(dirname "$0")}")
shift
shapes=("$@")
[ $# -gt 0 ] || shapes=(
    "w8a8_gemv M=1 N=4096 K=11264"
    "w4a16_gemv M=1 N=8726 K=4096"
    "w4a4_moe.gate_up M=1 TOPK=8 EXPERTS=96 N=1408 K=4096"
    "bf16_gemv_f32 M=1 N=51648 K=4096"
    "dsa_topk M=1 K=512 POOLS=32768"
)
most=1.03
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1 # the embedded files, not a checkout's

# bench SHAPE OPTION..: knobs and microseconds of each variant, as lines.
bench() {
    local shape=$1
    shift
    # shellcheck disable=SC2086
    "$folder/lathe" bench $shape "$@" --json | tr ',{}' '\n' | awk -F'"' '
        $2 == "kernel" { knobs = $4; sub(/.*__/, "", knobs) }
        $2 == "us" { print knobs, substr($3, 2) }'
}

# least NAME FILE: the least microseconds of its lines there.
least() { awk -v name="$1" '$1 == name' "$2" | sort -k2g | head -n 1 | cut -d' ' -f2; }

# compare SHAPE: a row of the table.
compare() {
    local shape=$1 winner best knobs
    export LATHE_CACHE_DIR=$work/cache.${shape//[ =]/_}
    # shellcheck disable=SC2086
    winner=$("$folder/lathe" tune $shape --again --json | sed -n 's/.*"best":"\([^"]*\)".*/\1/p')
    bench "$shape" --all | sort -k2g >all
    best=$(head -n 1 all | cut -d' ' -f1)
    [ -n "$(least "$winner" all)" ] || { echo "$shape: the tuner chose nothing"; return 1; }
    cp all again
    if [ "$winner" != "$best" ]; then
        for knobs in "$winner" "$best" "$winner" "$best"; do
            bench "$shape" --knobs "$knobs"
        done >again
    fi
    awk -v shape="$shape" -v variants="$(wc -l <all)" -v winner="$winner" -v best="$best" \
        -v w="$(least "$winner" all)" -v b="$(least "$best" all)" -v most=$most \
        -v w2="$(least "$winner" again)" -v b2="$(least "$best" again)" 'BEGIN {
            printf "| %s | %d | %s | %.4g | %s | %.4g | %.3f | %.4g | %.4g | %.3f |\n",
                shape, variants, winner, w, best, b, w / b, w2, b2, w2 / b2
            exit !(b2 > 0 && w2 / b2 <= most) }'
}

echo "| shape | variants | tuner's | us | best | us | ratio | in turn: us | us | ratio |"
echo "|---|---|---|---|---|---|---|---|---|---|"
failed=0
for shape in "${shapes[@]}"; do compare "$shape" || failed=1; done
exit $failed

#!/bin/bash
# The tiny model against golden values of other code, on the CPU device: logits and selections of
# the golden prompt, greedy text, eval, and the same bits in chunks of any size. Both recipes at
# once. `reference` may have twice the error of the same model in bf16, `card` twice that of an
# evaluation in double precision with its roundings. Of the 8 windows of eval it reads WINDOWS (2:
# a window takes a minute), whose loss may be off twice as far as that of all 8 (0.002, 1 %).
set -u
lathe=$1/lathe
windows=${WINDOWS:-2}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LATHE_DEVICE=cpu
mkdir -p "$work/tree/lua"
cp tests/lua/inside_model.lua "$work/tree/lua/cli.lua"

inside() { LATHE_ROOT=$work/tree "$lathe" "$@"; }

measure() { # measure RECIPE
    inside golden "$1" &&
        "$lathe" eval --model tests/tiny --ids "$work/windows" --recipe "$1" &&
        inside bits "$1" 100 1 3 16 >"$work/$1.bits"
}

inside windows "$windows" >"$work/windows" || exit 1
loss=$(inside loss "$windows") || exit 1
pids=
for recipe in reference card; do
    measure "$recipe" >"$work/$recipe" 2>&1 &
    pids="$pids $!"
done
failed=0
for pid in $pids; do wait "$pid" || failed=1; done

number() { awk -v key="$2" '$1 == key { print $2 }' "$work/$1"; } # number RECIPE KEY
nats() { awk '/ nats per token/ { print $1 }' "$work/$1"; }

# holds RECIPE NAME VALUE CONDITION: says so and counts where an awk condition on x does not hold.
holds() {
    awk -v x="$3" "BEGIN { exit !(x != \"\" && $4) }" && return
    echo "$1: $2 is '$3', which must hold: $4"
    failed=1
}

for recipe in reference card; do
    echo "---- $recipe"
    cat "$work/$recipe"
    distinct=$(head -n 3 "$work/$recipe.bits" | sort -u | wc -l)
    holds $recipe "lines of hashes that differ" "$distinct" "x == 1"
    holds $recipe "rows hashed" "$(head -n 1 "$work/$recipe.bits" | wc -w)" "x == 100"
done
holds reference "rms error of the logits" "$(number reference rms)" "x <= 0.066"
holds reference "selections that agree" "$(number reference selections)" "x >= 320"
holds reference "margin where another token was best" "$(number reference margin)" "x < 0.06"
holds reference "nats per token" "$(nats reference)" "x - $loss <= 0.004 && $loss - x <= 0.004"
holds card "rms error of the logits" "$(number card rms)" "x <= 0.244"
holds card "nats per token" "$(nats card)" "x <= 1.02 * $loss"
exit $failed

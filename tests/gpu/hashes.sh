#!/bin/bash
# hashes.sh [FOLDER [COUNT]]: is what every launch of the tiny model writes the same, bit for bit,
# on cuda:0 and on the CPU device that plays it? Over the golden prompt of 200 tokens and COUNT (64)
# tokens behind it, both recipes. FOLDER holds the lathe of `make dist`; runs in the project's root.
set -u
folder=$(realpath "${1:-build/dist}")
count=${2:-64}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LATHE_CACHE_DIR=${LATHE_CACHE_DIR:-$work/cache}
mkdir -p "$work/tree/lua"
cp tests/lua/inside_model.lua "$work/tree/lua/cli.lua"

inside() { LATHE_ROOT=$work/tree "$folder/lathe" "$@"; }

failed=0
for recipe in reference card; do
    played=$(LATHE_DEVICE=cuda:0 inside hashes $recipe "$work/$recipe.gpu" "$count") || failed=1
    # shellcheck disable=SC2086
    LATHE_DEVICE=cpu inside hashes $recipe "$work/$recipe.cpu" "$count" $played >/dev/null &
done
wait
for recipe in reference card; do
    lines=$(wc -l <"$work/$recipe.gpu")
    differ=$(diff "$work/$recipe.cpu" "$work/$recipe.gpu" | grep -c '^>')
    echo "$recipe: $lines launches, $differ differ"
    diff "$work/$recipe.cpu" "$work/$recipe.gpu" | head -n 6
    [ "$lines" -gt 0 ] && [ "$differ" = 0 ] || failed=1
done
exit $failed

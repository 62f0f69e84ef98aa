#!/bin/bash
# The same description gives the same bytes in every process: all kept variants of all samples, in
# fresh processes with other environments and from another folder.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
first=
for i in $(seq 20); do
    mkdir "$work/$i"
    env "LATHE_PAD=$(head -c $((i * 97)) /dev/zero | tr '\0' x)" \
        lua5.4 tools/golden.lua "$work/$i" all families/*.lua >"$work/said"
    sum=$(cd "$work/$i" && find . -type f | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum)
    [ -n "$first" ] || first=$sum
    if [ "$sum" != "$first" ]; then
        diff -r "$work/1" "$work/$i" | head -n 20
        exit 1
    fi
    [ "$i" = 1 ] || rm -rf "${work:?}/$i"
done
cat "$work/said"
grep -q '^[1-9]' "$work/said"

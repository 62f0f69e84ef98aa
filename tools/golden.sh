#!/bin/bash
# golden.sh [+]: shows how the generated texts differ from tests/golden, and the list of families
# from the one in docs/family.md; 1 where they do. + rewrites both.
set -eu
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
lua5.4 tools/golden.lua "$fresh/texts" few families/*.lua >"$fresh/said"
lua5.4 tools/family_list.lua families/*.lua >"$fresh/list"
sed -n '1,/^<!-- families -->$/p' docs/family.md >"$fresh/family.md"
cat "$fresh/list" >>"$fresh/family.md"
sed -n '/^<!-- end of families -->$/,$p' docs/family.md >>"$fresh/family.md"
if [ "${1:-}" = + ]; then
    rm -rf tests/golden
    cp -r "$fresh/texts" tests/golden
    cp "$fresh/family.md" docs/family.md
    exit 0
fi
tail -n 1 "$fresh/said"
diff -ru tests/golden "$fresh/texts" && diff -u docs/family.md "$fresh/family.md" ||
    { echo "make golden+ takes these as the new ones"; exit 1; }

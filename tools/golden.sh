#!/bin/bash
# golden.sh [+]: shows how the generated texts differ from tests/golden, 1 where they do; + rewrites
# tests/golden.
set -eu
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
lua5.4 tools/golden.lua "$fresh" few families/*.lua
if [ "${1:-}" = + ]; then
    rm -rf tests/golden
    cp -r "$fresh" tests/golden
    exit 0
fi
diff -ru tests/golden "$fresh" || { echo "make golden+ takes these texts as the new ones"; exit 1; }

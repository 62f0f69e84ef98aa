#!/bin/bash
# replay.sh REF: renders every kept variant of every family's samples from the commit REF and from
# the working tree, and shows what differs. A refactoring differs in nothing.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" "$work/before" "$work/now"
git archive "$1" | tar -x -C "$work/tree"
(cd "$work/tree" && lua5.4 tools/golden.lua "$work/before" all families/*.lua)
lua5.4 tools/golden.lua "$work/now" all families/*.lua
cd "$work"
diff -rq before now >differing || true
diff -ru before now >text || true
head -n 200 text
echo "$(wc -l <differing) texts differ from $1"
[ ! -s differing ]

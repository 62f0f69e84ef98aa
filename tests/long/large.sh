#!/bin/bash
# Kernels over arrays of more than 2^31 elements, as far as memory is free: the last expert, block
# or slot gives the bits of the only one of a small array.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tree/lua"
cp tests/lua/inside_large.lua "$work/tree/lua/cli.lua"
LATHE_ROOT=$work/tree "$1/lathe"

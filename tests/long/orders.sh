#!/bin/bash
# More orders of threads and blocks, other inputs, and the text of an arch with another tensor-core
# model: every kept variant of every sample.
set -u
for seed in 2 3 4; do
    LATHE_CPU_ORDER=$((seed * 101)) "$1/lathe" check --all --device cpu --seed $seed || exit 1
done
LATHE_CPU_LEFT=on "$1/lathe" check --all --device cpu --seed 5 || exit 1
"$1/lathe" check --all --device cpu --arch sm_121a

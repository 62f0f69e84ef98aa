#!/bin/sh
# demo.sh: generates, compiles and runs kernels of both GEMV families and of the quantiser on the
# default device, compares them with their references and prints a table; the tiny model writes.
set -e
out=$(mktemp)
trap 'rm -f "$out"' EXIT
./lathe check w8a8_act_quant M=2 K=4096 >>"$out"
./lathe check w8a8_gemv M=2 N=704 K=4096 >>"$out"
./lathe check w8a8_gemv M=8 N=288 K=22 >>"$out"
./lathe check w4a16_gemv M=1 N=8726 K=128 >>"$out"
./lathe check w4a16_gemv M=5 N=22 K=704 >>"$out"
awk -F '  +' '
    NF < 5 || ($1 == "kernel" && n++) { next }
    { printf "%-46s %6s %12s %9s  %s\n", $1, $2, $3, $4, $5 }' "$out"
echo
./lathe run --model tests/tiny --prompt "ROMEO:" -n 120

#!/bin/sh
# demo.sh: one kernel on the CPU device, from its description to its check.
set -e
export LATHE_DEVICE=cpu
say() { printf '\n$ %s\n' "$*"; }
say ./lathe families w8a8_gemv
./lathe families w8a8_gemv
say './lathe gen w8a8_gemv M=2 N=64 K=512 --arch cpu   # the end of the text'
./lathe gen w8a8_gemv M=2 N=64 K=512 --arch cpu | tail -n 45
say ./lathe check w8a8_gemv M=2 N=64 K=512
./lathe check w8a8_gemv M=2 N=64 K=512

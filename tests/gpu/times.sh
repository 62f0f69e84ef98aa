#!/bin/bash
# times.sh [FOLDER [ROWS..]]: times the default variant of the GEMVs at the shapes of
# GLM-5.3-Flash, whole (TP=1) and on rank 0 of three (TP=3), beside the limit for one row.
set -u
folder=$(realpath "${1:-$(dirname "$0")}")
shift
rows=("${@:-1}")
cd / || exit 1
export LATHE_CACHE_DIR=${LATHE_CACHE_DIR:-$(mktemp -d)}

# family, N, K, limit in us for one row, where
shapes="w4a16_gemv 8726 4096 7.5 TP=3
w4a16_gemv 4096 2816 4.0 TP=3
w4a16_gemv 1536 4096 3.0 TP=3
w4a16_gemv 4096 768 3.0 TP=3
w4a16_gemv 24896 4096 16 TP=1
w4a16_gemv 4096 8192 7.0 TP=1
w4a16_gemv 4096 4096 4.1 TP=1
w4a16_gemv 4096 2048 2.9 TP=1
w8a8_gemv 4096 11264 13.5 TP=3
w8a8_gemv 11264 1536 6.3 TP=3
w8a8_gemv 2304 4096 4.5 both
w8a8_gemv 5632 128 2.3 TP=3
w8a8_gemv 4096 32768 32.9 TP=1
w8a8_gemv 32768 1536 13.7 TP=1
w8a8_gemv 16384 128 2.3 TP=1"

printf '%-44s %-5s %8s %8s %7s %9s %9s\n' kernel where us limit ratio '% floor' +-%
while read -r family n k limit where; do
    for m in "${rows[@]}"; do
        "$folder/lathe" bench "$family" M="$m" N="$n" K="$k" |
            awk -v limit="$limit" -v where="$where" '$1 ~ /__/ {
                printf "%-44s %-5s %8s %8s %7.2f %9s %9s\n",
                    $1, where, $2, limit, $2 / limit, $NF, $3 }'
    done
done <<<"$shapes"

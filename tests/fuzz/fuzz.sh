#!/bin/bash
# fuzz.sh FOLDER SECONDS [READER..]: mutates the inputs of each reader, two readers at once. What
# it finds stays in FOLDER/READER, a crash or hang in FOLDER/READER.crash-*. Prints how many inputs
# each reader got; 1 where one of them failed.
set -u
folder=$1 seconds=$2
shift 2
[ $# -gt 0 ] || set -- tests/fuzz/corpus/*
one() { # one FOLDER SECONDS READER
    local out=$1/$3
    mkdir -p "$out"
    FUZZ_READER=$3 LATHE_CACHE_DIR=$1/cache ASAN_OPTIONS=detect_stack_use_after_return=0 \
        "$1/fuzz" -max_total_time="$2" -timeout=10 -rss_limit_mb=4096 -max_len=65536 \
        -close_fd_mask=1 -print_final_stats=1 -artifact_prefix="$out." "$out" \
        "tests/fuzz/corpus/$3" >"$out.log" 2>&1
    local status=$?
    echo "$3: $(sed -n 's/.*number_of_executed_units: *//p' "$out.log") inputs, ended with $status"
    return $status
}
export -f one
printf '%s\n' "${@##*/}" | xargs -P 2 -I{} bash -c 'one "$@"' one "$folder" "$seconds" {}

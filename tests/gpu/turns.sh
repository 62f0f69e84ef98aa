#!/bin/bash
# turns.sh (sourced): benches whose references are computed ahead, on other cores, while the GPU
# has one of them at a time.

# in_turn COUNT START FINISH: for each number from 0, in order: START NUMBER, a bench with --wait,
# writes to the file bench.NUMBER of this folder, and is told to begin when the one before has
# ended; then FINISH NUMBER. As many as a quarter of the cores wait for their turn. They end when
# this shell has gone.
in_turn() {
    local count=$1 start=$2 finish=$3 next=0 i turn benches=() turns=()
    for ((i = 0; i < count; i++)); do
        for (( ; next < count && next <= i + $(nproc) / 4; next++)); do
            mkfifo "go.$next"
            exec {turn}<>"go.$next"
            "$start" "$next" <"go.$next" >"bench.$next" {turn}>&- &
            benches[next]=$! turns[next]=$turn
        done
        turn=${turns[i]}
        echo >&"$turn"
        wait "${benches[i]}"
        exec {turn}>&-
        "$finish" "$i"
    done
}

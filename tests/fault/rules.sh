# rules.sh: what holds after each run of walk.sh and driver.sh, and how they end. Sourced by them:
# they set work and lathe, and a WHERE begins with the run's folder.
# shellcheck shell=bash disable=SC2154

# What a command prints without what differs from run to run.
plain() { sed -E "s#$work/[a-z0-9_]*##g; s/[0-9]+(\.[0-9]+)?/N/g; s/  +/ /g; s/--+/-/g" "$1"; }

say() { # say WHERE SENTENCE
    echo "$1: $2: $(tr '\n' '|' <"${1%% *}/err" | cut -c1-300)" >>"$work/faults"
}

# Is what was left whole?
check_left() { # check_left WHERE
    local folder=${1%% *} file
    for file in "$folder"/cache/.*.private "$folder"/cache/tuned/.*.private "$folder"/*.part; do
        [ -e "$file" ] && say "$1" "left ${file##*/}"
    done
    if [ -d "$folder/cache" ]; then
        LATHE_CACHE_DIR=$folder/cache "$lathe" cache verify >"$folder/verify" 2>&1 ||
            say "$1" "damaged entries: $(head -n 3 "$folder/verify")"
    fi
    for file in "$folder"/cache/tuned/*.tuned; do
        [ -s "$file" ] || continue
        LATHE_CACHE_DIR=$folder/other "$lathe" tune --merge "$file" >"$folder/merge" 2>&1
        grep -q 'torn or foreign' "$folder/merge" && say "$1" "a torn line in ${file##*/}"
    done
    if [ -e "$folder/out.safetensors" ]; then
        cmp -s "$folder/out.safetensors" "$work/clean_check_out/out.safetensors" ||
            say "$1" "out.safetensors is not whole"
    fi
}

# Where nothing fails a process leaves its settings, of which there are few, and nothing else.
is_clean() { # is_clean LOG BLOCKS
    ! awk -v most="$2" '$1 == "left" && $3 > ($2 == "blocks" ? most : 0)' "$1" | grep .
}

# Nothing leaks: no process leaves more than it does where nothing fails, and none stays.
check_given_back() { # check_given_back WHERE COMMAND
    local folder=${1%% *} left
    # libtcc ends the process, or drops what its parser has: tcc_new, tcc_compile_string and
    # tcc_delete alone leave as much.
    grep -qE 'memory full \((m|re)alloc\)' "$folder/err" && return
    left=$(awk '$1 != "left" { next }
        NR == FNR { if ($3 > n[$2]) n[$2] = $3; next }
        $3 > n[$2] { printf "%s %s, ", $3, $2 }' "$work/clean_$2/log" "$folder/log" 2>&1)
    [ -z "$left" ] || say "$1" "it leaks: $left"
    for _ in $(seq 50); do # a worker ends when its parent has, which takes it a moment
        find /proc -maxdepth 2 -name cwd -lname "$folder" 2>/dev/null | grep -q . || return
        sleep 0.1
    done
    say "$1" "a process stays"
}

# One line of counts of the files done? (COMMAND KIND STATUS MET), then what broke a rule; 1 if any.
finish() {
    cat "$work"/done? | awk '
        { of[$2]++; ended[$3]++; hit += $4 > 0 }
        END {
            printf "%d runs, %d met their fault;", NR, hit
            for (s in ended) printf " %d ended with %s", ended[s], s
            printf ";"
            for (k in of) printf " %s %d", k, of[k]
            print ""
        }'
    sort "$work/faults" | sed "s#^$work/w[01] ##" >"$work/sorted"
    head -n 60 "$work/sorted"
    [ ! -s "$work/sorted" ] || { echo "$(wc -l <"$work/sorted") broke a rule"; return 1; }
}

#!/bin/bash
# lint-layers.sh: who may include or require whom (docs/tour.md), and what each room must not
# do. Prints each line that breaks a rule; 1 where there is one.
set -u
bad=0

# refuse SENTENCE: lines on stdin are "file:line:text"; any is a fault.
refuse() {
    local line
    while IFS= read -r line; do
        echo "$line" | cut -c1-140
        echo "    $1"
        bad=1
    done
}

# in_files PATTERN FILE..: grep that is quiet about files that are not there.
in_files() { grep -nEH "$@" 2>/dev/null; }

# requires FOLDER.. : "file:line:module" of each require in the Lua files there.
requires() {
    find "$@" -name '*.lua' -exec grep -noHE "require\(?[\"' ]+[a-zA-Z0-9_.]+" {} + |
        sed -E "s/require\(?[\"' ]+//"
}

# Lua: gen <- families, lua
refuse "gen requires only gen" < <(requires gen | grep -vE ':gen\.')
refuse "a family requires only gen" < <(requires families | grep -vE ':gen\.')
refuse "lua requires gen, lua, lathe, cjson, argparse" \
    < <(requires lua | grep -vE ':(gen\.|lua\.|lathe$|cjson$|argparse$)')
refuse "gen and families are pure: no os, io, random numbers, clock" \
    < <(in_files '(^|[^a-zA-Z_.])(os|io)\.[a-z]|math\.random' gen/*.lua families/*.lua)
refuse "pairs has no order (say '-- order does not reach output' where that is true)" \
    < <(in_files '(^|[^i_a-zA-Z])pairs\(' gen/*.lua families/*.lua |
        grep -v 'order does not reach output')

# C: runtime, cache never see Lua; the border alone sees both
refuse "runtime, cache and references never include Lua's headers" \
    < <(in_files '#include.*(lua|lauxlib|lualib)\.h' runtime/*.[ch] runtime/*/*.[ch] cache/*.[ch] \
        families/*.c)
for file in lua/*.c; do
    case $file in lua/bind*.c) continue ;; esac
    grep -qsE '#include.*(lua|lauxlib)\.h' "$file" || continue
    refuse "only lua/bind*.c includes both lua.h and lathe.h" \
        < <(in_files '#include.*lathe\.h' "$file")
done
refuse "cache knows bytes and names, nothing of devices" \
    < <(in_files '#include.*(cuda/|cpu/|device\.h)' cache/*.[ch])
refuse "the CPU device knows nothing of CUDA" < <(in_files '#include.*cuda/' runtime/cpu/*.[ch])
refuse "CUDA knows nothing of the CPU device" < <(in_files '#include.*cpu/' runtime/cuda/*.[ch])
refuse "devices know nothing of the cache" \
    < <(in_files '#include.*(cache/|store\.h)' runtime/cpu/*.[ch] runtime/cuda/*.[ch])
refuse "the environment is read in runtime/config.c alone" \
    < <(in_files '(^|[^a-z_])(secure_)?getenv\(|os\.getenv' runtime/*.[ch] runtime/*/*.[ch] \
        cache/*.[ch] families/*.c lua/*.c lua/*.lua lua/*/*.lua | grep -v '^runtime/config\.c:')
refuse "nothing exits below lua/main.c (a child process ends with _exit)" \
    < <(in_files '(^|[^a-z_])(exit|abort)\(' runtime/*.[ch] runtime/*/*.[ch] cache/*.[ch] \
        families/*.c)
refuse "CUDA's own headers are not needed" \
    < <(in_files '#include *<(cuda|nvrtc|nccl)[a-z_]*\.h' runtime/*.[ch] runtime/*/*.[ch] \
        templates/*/* templates/*.cut)

exit $bad

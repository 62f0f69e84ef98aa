#!/bin/bash
# lint.sh: format, warnings, layering, luacheck, widths. Prints what breaks a rule; 1 where
# something does.
set -u
bad=0

# check NAME COMMAND..: a fault's output is shown under its name.
check() {
    local name=$1 out
    shift
    if ! out=$("$@" 2>&1); then
        printf '%s:\n%s\n' "$name" "$(printf '%s' "$out" | head -n 40)"
        bad=1
    fi
}

c_files() { find runtime cache families lua tests -name '*.[ch]' -not -path '*/fixtures/*' |
    LC_ALL=C sort; }
lua_files() { find gen families lua tests tools -name '*.lua' -not -path '*/fixtures/*' \
    -not -path 'tests/reject/*' | LC_ALL=C sort; }

wide() { # wide COLUMNS FILE..
    local columns=$1
    shift
    ! awk -v most="$columns" '
        length($0) > most {
            printf "%s:%d: %d columns, at most %d\n", FILENAME, FNR, length($0), most
        }
    ' "$@" | grep .
}

no_tabs() { ! grep -nP '\t' "$@" | cut -c1-120 | grep .; }

# A folder of one machine has no place in the repository.
no_machine_paths() { ! grep -rnIE '/(work|root|home/[a-z]+)/' "$@" | cut -c1-120 | grep .; }

mapfile -t c < <(c_files)
mapfile -t l < <(lua_files)
mapfile -t t < <(find templates -type f | LC_ALL=C sort)
mapfile -t s < <(find tools tests .ci -name '*.sh' -o -path .ci/run)
mapfile -t p < <(find tests/gpu -name '*.py' | LC_ALL=C sort)

check "clang-format" clang-format --dry-run -Werror "${c[@]}"
check "warnings" make --no-print-directory -s OUT=build/lint WERROR=-Werror CFLAGS=-O2 objects \
    test-objects
check "rooms" tools/lint-layers.sh
check "luacheck" luacheck -q --no-color "${l[@]}"
check "width" wide 100 "${c[@]}" "${s[@]}" "${p[@]}" Makefile
check "width of templates" wide 120 "${t[@]}"
check "tabs" no_tabs "${c[@]}" "${l[@]}" "${t[@]}" "${s[@]}" "${p[@]}"
check "machine paths" no_machine_paths Makefile ./*.md .ci cache docs families gen lua runtime \
    templates tests/*/*.[chl]* tools
if command -v shellcheck >/dev/null; then check "shellcheck" shellcheck -S warning "${s[@]}"; fi
if command -v python3 >/dev/null; then
    check "python" python3 -c 'import ast, sys; [ast.parse(open(p).read()) for p in sys.argv[1:]]' \
        "${p[@]}"
fi

wc -l "${c[@]}" "${l[@]}" "${t[@]}" | awk '$2 != "total" && $1 > 600 {
    printf "warning: %s has %d lines: is it one job?\n", $2, $1 }'
exit $bad

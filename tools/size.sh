#!/bin/bash
# size.sh: bytes of the program, lines of each room, and what is longer than a reader likes: files
# over 600 lines, C functions over 60.
set -eu
ls -l lathe | awk '{ printf "%8d bytes  lathe\n", $5 }'
for room in families gen lua runtime cache templates tests tools; do
    find $room -type f \( -name '*.[chS]' -o -name '*.lua' -o -name '*.cut' -o -name '*.sh' \) \
        -not -path 'tests/golden/*' -exec cat {} + | wc -l |
        awk -v room=$room '{ printf "%8d lines  %s\n", $1, room }'
done
find families gen lua runtime cache templates tests tools -type f \
    \( -name '*.[chS]' -o -name '*.lua' -o -name '*.cut' \) -exec wc -l {} + |
    awk '$2 != "total" && $1 > 600 { printf "%8d lines  %s: is it one job?\n", $1, $2 }'
# A function's body begins with { in the first column and ends with } there.
find runtime cache families lua -name '*.c' -exec awk '
    /^[a-z].*\(/ { head = $0 }
    /^{/ { from = FNR }
    /^}/ { if (from && FNR - from > 60) printf "%8d lines  %s: %s\n", FNR - from, FILENAME, head
           from = 0 }' {} +

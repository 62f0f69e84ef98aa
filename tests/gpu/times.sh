#!/bin/bash
# times.sh [FOLDER [ROWS..]]: times each shape of times.txt beside its limit, its floor, the card's
# share of its own floor and the fastest peer, for so many rows (1); a table in Markdown, then what
# is above its limit or behind its peer. Limits are those of one row; more rows have how many
# percent they take more than one, where that is timed too (first). FOLDER holds the lathe of
# `make dist` (default: where this script lies); TABLE stands for times.txt. The variants are those
# that plans take; those that were never measured at their shape are named.
set -u
. "$(dirname "$0")/turns.sh"
folder=$(realpath "${1:-$(dirname "$0")}")
table=$(realpath "${TABLE:-$(dirname "$0")/times.txt}")
shift
rows=("${@:-1}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1 # the embedded files, not a checkout's
export LATHE_CACHE_DIR=${LATHE_CACHE_DIR:-$work/cache}

# launches: rows, TP, target, limit, card, peers, family and sizes of each launch, as lines.
launches() {
    local m line
    grep -v '^#' "$table" | tr -s ' ' | while read -r line; do
        for m in "${rows[@]}"; do echo "$m ${line//@/$m}"; done
    done
}

# row ONE M TP TARGET LIMIT CARD PEERS: a row of the table from the table of `lathe bench`; ONE: the
# us of one row at this shape, 0 where they are not known.
row() {
    awk -v one="$1" -v m="$2" -v tp="$3" -v target="$4" -v limit="$5" -v card="$6" -v peers="$7" '
        function peer(  list, i, part, name) {
            for (i = split(peers, list, ","); i > 0; i--) figure[i] = list[i]
            for (i = 1; i in figure; i++) {
                if (split(figure[i], part, ":") == 2) { name = part[1]; figure[i] = part[2] }
                if (2 ^ (i - 1) == m && figure[i] > 0) { best = figure[i]; by = name " " }
            }
        }
        $1 ~ /__/ && $2 > 0 {
            us = $2
            if ($8 != "exact") print $1 >>"unmeasured"
            if (m > 1) limit = "-"
            if (m > 4) target = "-"
            if (limit > 0) of_limit = sprintf("%.2f", us / limit)
            peer()
            if (best > 0) of_peer = sprintf("%.2f", us / best)
            if (m > 1 && one > 0) more = sprintf("%+.0f", 100 * (us / one - 1))
            printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", $1, tp,
                us, $3, limit, of_limit, target, more, $6, $7, card, by best, of_peer
            if (more != "") print m, us <= one * (m > 8 ? 1.2 : m > 4 ? 1.1 : 1.05) >>"grown"
        }' | sed 's/| - /|  /g'
}

! command -v nvidia-smi >/dev/null || nvidia-smi --format=csv,noheader \
    --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu
echo "$(date -u +%F), seed 1, rows ${rows[*]}"
echo
# Compilers run at once, and before anything is timed.
launches | cut -d' ' -f7- | xargs -P "$(nproc)" -d '\n' -I{} \
    sh -c '"$0" build $1 --planned >/dev/null 2>&1' "$folder/lathe" {}

# shellcheck disable=SC2086
start() { "$folder/lathe" bench ${shapes[$1]} --planned --wait; }

one= # us of one row at the shape whose turn it is
finish() {
    local m tp target limit card peers
    read -r m tp target limit card peers <<<"${about[$1]}"
    [ $(($1 % ${#rows[@]})) != 0 ] || one= # another shape
    [ "$m" != 1 ] || one=$(awk '$1 ~ /__m1_/ { print $2 }' "bench.$1")
    row "${one:-0}" "$m" "$tp" "$target" "$limit" "$card" "$peers" <"bench.$1"
}

mapfile -t about < <(launches | cut -d' ' -f1-6)
mapfile -t shapes < <(launches | cut -d' ' -f7-)
: >unmeasured
: >grown
echo "| kernel | TP | us | +-% | limit | us / limit | target | % over one row |" \
    "floor us | % of floor | card's % | best peer us | us / peer |"
echo "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
in_turn "${#shapes[@]}" start finish | tee timed
rows_timed=$(wc -l <timed)
echo
echo "$rows_timed of $(launches | wc -l) rows"
echo "$(wc -l <unmeasured) in variants that were not measured at their shape (lathe tune)"
sed 's/^/  /' unmeasured
awk -F' *[|] *' '$6 > 0 && $4 > $6 { n++ } END { print n + 0, "above their limit" }' timed
awk -F' *[|] *' '$2 ~ /^w(4a16|8a8)_gemv/ && $8 > 0 && $4 > $8 { n++ }
    END { print n + 0, "W4A16 and W8A8 products of up to 4 rows above their target" }' timed
awk -F' *[|] *' '(k = split($13, peer, " ")) && $4 > peer[k] { n++ }
    END { print n + 0, "behind their peer" }' timed
# The performance notes' rule: 5 % over one row for 2 and 4 rows, 10 for 8, 20 for 16.
for m in $(cut -d' ' -f1 grown | sort -nu); do
    awk -v m="$m" '$1 == m { n++; kept += $2 }
        END { print kept, "of", n, "shapes within the rule for", m, "rows" }' grown
done
[ "$rows_timed" = "$(launches | wc -l)" ]

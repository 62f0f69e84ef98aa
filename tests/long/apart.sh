#!/bin/bash
# Two checkouts in other folders, run by two users with another home, locale, time zone and umask:
# the same plans and digests, the same texts and keys of all their kernels, the same bits of every
# launch of the tiny model.
set -u
built=$1/lathe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

checkout() { # checkout FOLDER
    mkdir -p "$1/tests" "$1/cache" "$1/out" "$1/home"
    cp -r gen lua families templates "$1"
    cp -r cache/tuned "$1/cache"
    cp -r tests/tiny "$1/tests"
    cp "$built" "$1/lathe"
    chmod -R a+rwX "$1"
}

# What a checkout says, into its folder out; run inside it.
# shellcheck disable=SC2016 # the inner shell's
say='
for recipe in card reference; do
    for arch in sm_90a sm_121a; do
        for mode in decode prefill; do
            ./lathe plan --model tests/tiny --mode $mode --recipe $recipe --arch $arch \
                >out/$recipe.$arch.$mode || exit 1
        done
        cat out/$recipe.$arch.* | awk "\$3 ~ /__/ { print \$3 }" | LC_ALL=C sort -u >kernels
        while read -r kernel; do
            ./lathe why $kernel --arch $arch --json | grep -oE "\"key\":\"[0-9a-f]*\"" |
                sed "s/^/$kernel $arch /"
        done <kernels >>out/keys
    done
    ./lathe run --model tests/tiny --device cpu --recipe $recipe --prompt ROMEO: -n 2 \
        --hashes out/$recipe.hashes >out/$recipe.text 2>/dev/null || exit 1
done'

first=$work/one second="$work/the second checkout"
checkout "$first"
checkout "$second"
localedef -i de_DE -f UTF-8 "$work/de_DE.UTF-8" >/dev/null 2>&1
other=()
if [ "$(id -u)" = 0 ]; then other=(setpriv --reuid 65534 --regid 65534 --clear-groups); fi
(cd "$first" && env -i PATH="$PATH" HOME="$first/home" LC_ALL=C bash -c "$say") || exit 1
(cd "$second" && umask 077 && "${other[@]}" env -i PATH="$PATH" HOME="$second/home" TZ=Asia/Tokyo \
    LOCPATH="$work" LC_ALL=de_DE.UTF-8 bash -c "$say") || exit 1
diff -r "$first/out" "$second/out" | cut -c 1-200 | head -n 20
[ "${PIPESTATUS[0]}" = 0 ] || exit 1
keys=$(wc -l <"$first/out/keys") launches=$(cat "$first"/out/*.hashes | wc -l)
echo "$keys keys, 8 plans, $launches launches"
[ "$keys" -gt 100 ] && [ "$launches" -gt 1000 ]

#!/bin/bash
# Two checkouts in other folders, run by two users with another home, locale, time zone and umask,
# the second one on a machine of another name with one core, as far as this one can play that: the
# same plans and digests, the same texts of all families' samples, the same keys of all the plans'
# kernels, the same bits of every launch of the tiny model. Between machines that are two:
# tests/gpu/hashes.sh.
set -u
built=$1/lathe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

checkout() { # checkout FOLDER
    mkdir -p "$1/tests" "$1/cache" "$1/out" "$1/home"
    cp -r gen lua families templates tools "$1"
    cp -r cache/tuned "$1/cache"
    cp -r tests/tiny "$1/tests"
    cp "$built" "$1/lathe"
    chmod -R a+rwX "$1"
}

# What a checkout says, into its folder out; run inside it.
# shellcheck disable=SC2016 # the inner shell's
say='
lua5.4 tools/golden.lua out/texts few families/*.lua >/dev/null || exit 1
./lathe families >out/families || exit 1
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
if [ "$(LOCPATH=$work LC_ALL=de_DE.UTF-8 locale decimal_point)" != , ]; then
    echo "there is no locale de_DE to be made here"
    exit 77
fi
other=()
if taskset -c 0 true 2>/dev/null; then other+=(taskset -c 0); fi
if unshare --uts hostname other 2>/dev/null; then
    # shellcheck disable=SC2016 # the inner shell's
    other+=(unshare --uts bash -c 'hostname other && exec "$@"' bash)
fi
if [ "$(id -u)" = 0 ]; then other+=(setpriv --reuid 65534 --regid 65534 --clear-groups); fi
(cd "$first" && env -i PATH="$PATH" HOME="$first/home" LC_ALL=C bash -c "$say") || exit 1
(cd "$second" && umask 077 && "${other[@]}" env -i PATH="$PATH" HOME="$second/home" TZ=Asia/Tokyo \
    LOCPATH="$work" LC_ALL=de_DE.UTF-8 bash -c "$say") || exit 1
diff -r "$first/out" "$second/out" | cut -c 1-200 | head -n 20
[ "${PIPESTATUS[0]}" = 0 ] || exit 1
texts=$(find "$first/out/texts" -type f | wc -l) keys=$(wc -l <"$first/out/keys")
launches=$(cat "$first"/out/*.hashes | wc -l)
echo "$texts texts, $keys keys, 8 plans, $launches launches"
[ "$texts" -gt 100 ] && [ "$keys" -gt 100 ] && [ "$launches" -gt 1000 ]

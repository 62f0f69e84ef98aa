#!/bin/sh
# Finds what the build and the tests need; installs what is missing where that is allowed, else
# prints the one line that does. Quick when nothing is missing.
set -u

missing=
need() { # need PACKAGE FILE..: one of the files must be there
    package=$1
    shift
    for file; do
        case $file in
        /*) [ -e "$file" ] && return ;;
        *) command -v "$file" >/dev/null && return ;;
        esac
    done
    missing="$missing $package"
}

lib=/usr/lib/$(uname -m)-linux-gnu
need gcc gcc
need libc6-dev /usr/include/stdio.h
need libtcc-dev /usr/include/libtcc.h
need tcc tcc
need liblua5.4-dev "$lib/liblua5.4.a"
need lua5.4 lua5.4
need lua-cjson-dev "$lib/liblua5.4-cjson.a"
need libmd-dev "$lib/libmd.a"
need libpcre2-dev "$lib/libpcre2-8.a"
need lua-argparse /usr/share/lua/5.4/argparse.lua
need libcmocka-dev /usr/include/cmocka.h
need lua-busted /usr/share/lua/5.4/busted/core.lua
need lua-check luacheck
need clang-format clang-format

[ -z "$missing" ] && exit 0
install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" = 0 ]; then
    sudo=
elif sudo -n true 2>/dev/null; then
    sudo=sudo
else
    echo "missing:$missing. Run: sudo apt-get update && sudo $install" >&2
    exit 1
fi
echo "installing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # $sudo is a word or none, $install a list of words
install() {
    $sudo apt-get update && $sudo env DEBIAN_FRONTEND=noninteractive $install
}
if ! install >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "not installed:$missing. Run: ${sudo:+sudo }$install" >&2
    exit 1
fi

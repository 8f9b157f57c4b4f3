#!/bin/sh
# bench.sh BENCH_ENCODE: time the encoder against PyPI's tokenizers, in a
# throw-away virtual environment, on the Korean and English texts of Debian's
# installation guide. BN_SHARED/inputs has the tokenizers.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bench=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
inputs=${BN_SHARED:-$here/../../../../shared}/inputs/tokenizers
if ! test -d "$inputs"; then
    echo "bench-text: no $inputs (set BN_SHARED)" >&2
    exit 1
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip -q install tokenizers
guide=/usr/share/doc/installation-guide-amd64
if ! test -d "$guide/ko"; then
    apt-get -qq download installation-guide-amd64
    dpkg-deb -x installation-guide-amd64_*.deb guide
    guide=$tmp/guide$guide
fi
venv/bin/python "$here/bench.py" "$bench" "$inputs" "$guide"

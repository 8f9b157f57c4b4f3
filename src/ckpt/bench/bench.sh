#!/bin/sh
# bench.sh BENCH_CKPT BURNISH_TRAIN [MIB]: bench.py with the Python of
# BN_PEERS_VENV, where torch is, or with any. In BENCH_DIR, by default the
# current folder.
set -eu
python=${BN_PEERS_VENV:+$BN_PEERS_VENV/bin/python}
tmp=$(mktemp -d "${BENCH_DIR:-.}/bench-ckpt.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
"${python:-python3}" "$(dirname "$0")/bench.py" "$1" "$2" "$tmp" "${3:-512}"

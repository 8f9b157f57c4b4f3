#!/bin/sh
# generate.sh BURNISH_GENERATE: answers of 8 rows at a time against
# transformers' generate on the CPU, in a throw-away virtual environment
# (BN_PEERS_VENV keeps it).
set -eu
. "$BN_SRCDIR/t/peers/venv.sh"
peers_venv torch numpy transformers safetensors ||
    peers_skip PYPI "no PyTorch and transformers"
"$python" "$BN_SRCDIR/src/train/bench/generate.py" "$@"

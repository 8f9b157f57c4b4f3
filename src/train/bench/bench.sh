#!/bin/sh
# bench.sh BENCH_STEP [NAME...]: time training steps against the newest
# PyTorch of PyPI, in a throw-away virtual environment (BN_PEERS_VENV keeps
# it), or Debian's where that cannot be had. NAMEs choose figures by how they
# begin: sft-28m-fp32, sft-28m-bf16, sft-135m-..., second-core, orpo.
# BENCH_WAIT: seconds to wait for a quiet machine before a figure (60);
# BENCH_COMPILE=0 leaves torch.compile out, which takes minutes.
set -eu
. "$BN_SRCDIR/t/peers/venv.sh"
if ! peers_venv torch numpy setuptools; then
    python=/usr/bin/python3
    "$python" -c 'import torch, numpy' ||
        peers_skip PYPI "no PyTorch (Debian: python3-torch)"
    echo "# no PyTorch from PyPI: this is Debian's"
fi
"$python" "$BN_SRCDIR/src/train/bench/bench.py" "$@"

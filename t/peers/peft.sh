#!/bin/sh
# Adapters against the newest torch, transformers and peft of PyPI: lora.py.
set -eu
. "$(dirname "$0")/venv.sh"
inputs=${BN_SHARED:-$BN_SRCDIR/../shared}/inputs
test -d "$inputs" || peers_skip SHARED "no $inputs (set BN_SHARED)"
peers_venv torch transformers peft ||
    peers_skip PYPI "torch, transformers and peft cannot be had"
export HF_HUB_OFFLINE=1 HF_HOME="$tmp/hf" PYTHONWARNINGS=ignore
"$python" "$BN_SRCDIR/t/peers/lora.py" "$BN_BUILDDIR" "$inputs" "$tmp"

#!/bin/sh
# What a run writes to be looked at: its event files as TensorBoard itself
# reads them, its learning rates beside the schedules of transformers.
set -eu
. "$(dirname "$0")/venv.sh"
peers_venv torch transformers tensorboard ||
    peers_skip PYPI "torch, transformers and tensorboard cannot be had"
export BURNISH_CACHE="$tmp/cache" HF_HUB_OFFLINE=1 HF_HOME="$tmp/hf"
export PYTHONWARNINGS=ignore
"$python" "$BN_SRCDIR/t/peers/curves.py" "$BN_BUILDDIR/burnish-train" \
    "$BN_SRCDIR/jobs/quickstart/tokenizer" "$tmp"

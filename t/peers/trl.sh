#!/bin/sh
# Training and scoring against the newest torch, transformers and TRL of
# PyPI: orpo_steps.py compares 20 ORPO steps with TRL's own trainer, runs.py
# whole runs of SFT and ORPO with random options (BN_PEERS_RUNS: how many,
# BN_PEERS_SEED: the seed of the first), scores.py log-probabilities and
# written folders with transformers, models.py the same and training of models
# of random shape (BN_PEERS_MODELS: how many), masks.py what is learnt of
# conversations.
set -eu
. "$(dirname "$0")/venv.sh"
inputs=${BN_SHARED:-$BN_SRCDIR/../shared}/inputs
test -d "$inputs" || peers_skip SHARED "no $inputs (set BN_SHARED)"
peers_venv torch transformers trl ||
    peers_skip PYPI "torch, transformers and trl cannot be had"
export BURNISH_CACHE="$tmp/cache" HF_HUB_OFFLINE=1 HF_HOME="$tmp/hf"
export TRL_EXPERIMENTAL_SILENCE=1 PYTHONWARNINGS=ignore
rc=0
"$python" "$BN_SRCDIR/t/peers/orpo_steps.py" "$BN_BUILDDIR" "$inputs" "$tmp" || rc=1
"$python" "$BN_SRCDIR/t/peers/runs.py" "$BN_BUILDDIR" "$tmp" \
    "${BN_PEERS_RUNS:-30}" "${BN_PEERS_SEED:-1}" || rc=1
"$python" "$BN_SRCDIR/t/peers/scores.py" "$BN_BUILDDIR" "$inputs" \
    "$BN_SRCDIR/t/data/arch-variants" "$tmp" || rc=1
"$python" "$BN_SRCDIR/t/peers/models.py" "$BN_BUILDDIR" "$tmp" \
    "${BN_PEERS_MODELS:-24}" || rc=1
"$python" "$BN_SRCDIR/t/peers/masks.py" "$BN_BUILDDIR/burnish" "$inputs" ||
    rc=1
exit $rc

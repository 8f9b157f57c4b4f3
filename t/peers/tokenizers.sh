#!/bin/sh
# Ids and texts against PyPI's tokenizers: all text of the inputs and random
# Unicode, see compare_ids.py.
set -eu
. "$(dirname "$0")/venv.sh"
inputs=${BN_SHARED:-$BN_SRCDIR/../shared}/inputs
test -d "$inputs" || peers_skip SHARED "no $inputs (set BN_SHARED)"
peers_venv tokenizers
"$python" "$BN_SRCDIR/t/peers/compare_ids.py" "$BN_BUILDDIR/burnish" "$inputs"

#!/bin/sh
# Ids and texts against PyPI's tokenizers, in a throw-away virtual
# environment: all text of the inputs and random Unicode, see compare_ids.py.
set -eu
: "${BN_SRCDIR:?is not set: run with make check-peers}"
: "${BN_BUILDDIR:?is not set: run with make check-peers}"
inputs=${BN_SHARED:-$BN_SRCDIR/../shared}/inputs
if ! test -d "$inputs"; then
    echo "1..0 # SKIP no $inputs (set BN_SHARED)"
    case " ${BURNISH_TEST_REQUIRE:-} " in *" SHARED "*) exit 1 ;; esac
    exit 0
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" -q install tokenizers
"$tmp/venv/bin/python" "$BN_SRCDIR/t/peers/compare_ids.py" \
    "$BN_BUILDDIR/burnish" "$inputs"

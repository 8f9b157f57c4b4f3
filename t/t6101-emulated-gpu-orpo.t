#!/bin/sh
test_description='ORPO on an emulated GPU equals the float64 trajectories, and is near them in bf16'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/emu.sh"
bn_emu_runs orpo
bn_emu_bf16 orpo 3
test_done

#!/bin/sh
test_description='ORPO on an emulated GPU equals the float64 trajectories'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/emu.sh"
bn_emu_runs orpo
test_done

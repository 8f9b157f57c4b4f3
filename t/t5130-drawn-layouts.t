#!/bin/sh
test_description='models, runs and layouts as chance has them come to what one rank does'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/mpi.sh"
bn_mpi
bn_require_runs
BURNISH_CACHE=$PWD/cache
export BURNISH_CACHE

# BN_LAYOUTS: how many; BN_LAYOUTS_SEED: the first one's
test_expect_success 'layouts that were drawn' '
    python3 "$BN_SRCDIR/t/ranks/layouts.py" . "${BN_LAYOUTS:-8}" \
        "${BN_LAYOUTS_SEED:-1}"
'
test_done

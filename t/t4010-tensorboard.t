#!/bin/sh
test_description='TensorBoard event files, read by a reader of their own'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require PYTHON 'no python3' command -v python3

# shellcheck disable=SC2034
write=$BN_BUILDDIR/src/train/test/tb-write
read_events() {
    python3 "$BN_SRCDIR/t/tb-read.py" "$@"
}

test_expect_success 'values come back' '
    cat >want <<-EOT &&
	1 train/loss 1
	1 train/rewards/chosen -0.5
	2 train/loss 0.5
	2 train/rewards/chosen -1
	3 train/loss 0.333333
	3 train/rewards/chosen -1.5
	EOT
    "$write" a/b 0 && read_events a/b/events.out.tfevents.* >got &&
    test_cmp want got
'
test_expect_success 'a resumed run says from where' '
    "$write" c 2 && read_events c/* >got && head -n 1 got >first &&
    echo "3 start" >want && test_cmp want first
'
test_expect_success 'the reader sees a flipped bit and a cut' '
    f=$(ls a/b/*) &&
    { head -c 100 "$f" && printf x && tail -c +102 "$f"; } >flipped &&
    head -c 250 "$f" >cut &&
    test_must_fail read_events flipped 2>err && grep AssertionError err &&
    test_must_fail read_events cut 2>err && grep AssertionError err
'
test_done

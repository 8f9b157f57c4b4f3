# shellcheck shell=sh disable=SC2034,SC1091
# What every end-to-end test sources first, after it set test_description:
#
#     test_description='what is shown'
#     . "$BN_SRCDIR/t/tlib.sh"
#
# Sharness verbs, in a scratch folder under the build's t/. Programs of the
# build come first on PATH. Standard error of the commands goes into the log.
: "${BN_SRCDIR:?is not set: run tests with make check}"
: "${BN_BUILDDIR:?is not set: run tests with make check}"
: "${BN_SHARED:=$BN_SRCDIR/../shared}"
export BN_SRCDIR BN_BUILDDIR BN_SHARED

SHARNESS_TEST_DIRECTORY=$BN_BUILDDIR/t
SHARNESS_TEST_SRCDIR=$BN_SRCDIR/t
SHARNESS_BUILD_DIRECTORY=$BN_BUILDDIR
HARNESS_ACTIVE=t
mkdir -p "$SHARNESS_TEST_DIRECTORY"
. /usr/share/sharness/sharness.sh
exec 4>&2

# bn_missing WORD REASON: this test cannot run here. It is skipped and says
# why, or fails if BURNISH_TEST_REQUIRE has WORD.
bn_missing()
{
    case " $BURNISH_TEST_REQUIRE " in
    *" $1 "*)
        echo "1..1"
        echo "not ok 1 - $1 is required: $2"
        EXIT_OK=t
        exit 1
        ;;
    esac
    skip_all=$2
    test_done
}

# bn_require WORD REASON COMMAND...: bn_missing unless COMMAND succeeds.
bn_require()
{
    bn_word=$1 bn_reason=$2
    shift 2
    "$@" >/dev/null 2>&1 || bn_missing "$bn_word" "$bn_reason"
}

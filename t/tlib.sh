# shellcheck shell=sh disable=SC2034,SC1091
# What every end-to-end test sources first, after it set test_description:
#
#     test_description='what is shown'
#     . "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
#
# Sharness verbs, in a scratch folder under the build's t/. Programs of the
# build come first on PATH. Standard error of the commands goes into the log.
# By hand, from the folder of the build: ../t/tNNNN-name.t -v
: "${BN_SRCDIR:=$(cd "$(dirname "$0")/.." && pwd)}"
: "${BN_BUILDDIR:=$PWD}"
: "${BN_SHARED:=$BN_SRCDIR/../shared}"
export BN_SRCDIR BN_BUILDDIR BN_SHARED
# Tests share the machine: threads that spin while they wait would cost more
# than they gain.
: "${OMP_WAIT_POLICY:=passive}"
export OMP_WAIT_POLICY

SHARNESS_TEST_DIRECTORY=$BN_BUILDDIR/t
SHARNESS_TEST_SRCDIR=$BN_SRCDIR/t
SHARNESS_BUILD_DIRECTORY=$BN_BUILDDIR
HARNESS_ACTIVE=t
mkdir -p "$SHARNESS_TEST_DIRECTORY"
if ! test -r /usr/share/sharness/sharness.sh; then
    case " $BURNISH_TEST_REQUIRE " in
    *" SHARNESS "*) echo "Bail out! no sharness (Debian: sharness)"; exit 1 ;;
    esac
    echo "1..0 # SKIP no sharness (Debian: sharness)"
    exit 0
fi
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

# bn_require_runs: whole runs of small models, with a token cache of their own.
bn_require_runs()
{
    bn_require TRAIN "burnish-train was not built" burnish-train --version
    bn_require PYTHON "no python3" python3 -c ""
    BURNISH_CACHE=$PWD/cache PYTHONDONTWRITEBYTECODE=1
    export BURNISH_CACHE PYTHONDONTWRITEBYTECODE
}

# bn_prereq WORD REASON COMMAND...: the same for single tests, which begin
# with test_expect_success WORD '...'.
bn_prereq()
{
    bn_word=$1 bn_reason=$2
    shift 2
    if "$@" >/dev/null 2>&1; then
        test_set_prereq "$bn_word"
        return
    fi
    case " $BURNISH_TEST_REQUIRE " in
    *" $bn_word "*) bn_missing "$bn_word" "$bn_reason" ;;
    esac
    say "# $bn_word: $bn_reason"
}

# The inputs that are not part of the tree.
bn_require_shared()
{
    bn_require SHARED "no shared inputs (set BN_SHARED)" \
        test -d "$BN_SHARED/golden"
}

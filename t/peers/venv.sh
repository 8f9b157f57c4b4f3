# shellcheck shell=sh
# For scripts that compare with Python packages: sets 'python' to that of a
# virtual environment with the packages given. It is thrown away at the end
# together with the folder 'tmp', unless BN_PEERS_VENV names one to keep:
# PyTorch takes minutes to install.
: "${BN_SRCDIR:?is not set: run by make}"
: "${BN_BUILDDIR:?is not set: run by make}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
peers_venv()
{
    venv=${BN_PEERS_VENV:-$tmp/venv}
    test -x "$venv/bin/python" || python3 -m venv "$venv"
    "$venv/bin/pip" -q install "$@"
    python=$venv/bin/python
}

# skip WORD REASON: there is nothing to compare with; BURNISH_TEST_REQUIRE
# may make that a failure.
peers_skip()
{
    case " ${BURNISH_TEST_REQUIRE:-} " in
    *" $1 "*) echo "not ok - $1 is required: $2"; exit 1 ;;
    esac
    echo "1..0 # SKIP $2"
    exit 0
}

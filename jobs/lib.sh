# shellcheck shell=sh
# Functions for the scripts of this folder, which set 'top' first.
# shellcheck disable=SC2034,SC2154

# Debian packages: to build and train, and to run every test.
bn_build_packages="build-essential autoconf automake pkg-config libyaml-dev
libjansson-dev libpcre2-dev libutf8proc-dev libxxhash-dev zlib1g-dev
libzstd-dev libprotobuf-c-dev protobuf-c-compiler libdnnl-dev
libpmix-dev libopenmpi-dev openmpi-bin"
bn_text_packages="wordnet-base iso-codes"
bn_slurm_packages="slurm-wlm slurm-client slurmd slurmctld munge
libslurm-dev"
bn_test_packages="$bn_slurm_packages libcmocka-dev sharness python3
python3-jinja2 shellcheck mandoc clang
libclang-rt-14-dev procps python3-venv iproute2 gnuplot-nox jq perl bc xz-utils zstd
util-linux"
bn_page_packages="chromium" # to look at the page of a report

bn_say()
{
    printf '%s\n' "$*" >&2
}

bn_die()
{
    bn_say "error: $*"
    exit 1
}

# bn_install PACKAGE...: install those that are missing, as root or by sudo,
# after saying which.
bn_install()
{
    missing=
    for p in "$@"; do
        dpkg-query -W -f '${Status}\n' "$p" 2>/dev/null |
            grep -q '^install ok installed' || missing="$missing $p"
    done
    test -n "$missing" || return 0
    bn_say "Debian packages to install:$missing"
    as=
    if test "$(id -u)" -ne 0; then
        command -v sudo >/dev/null ||
            bn_die "not root and no sudo: apt-get install$missing"
        as=sudo
    fi
    $as apt-get update -qq || bn_die "apt-get update failed"
    # shellcheck disable=SC2086 # a list of words
    $as env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        --no-install-recommends $missing >/dev/null ||
        bn_die "apt-get could not install:$missing"
}

# bn_build DIR [CONFIGURE OPTION...]: configure and build $bn_targets (default:
# all) in DIR, quietly; the end of the log is shown when it fails.
bn_targets=all
bn_build()
{
    dir=$1
    shift
    mkdir -p "$dir"
    if ! test -x "$top/configure" &&
        ! "$top/autogen.sh" >"$dir/autogen.out" 2>&1; then
        tail -n 20 "$dir/autogen.out" >&2
        bn_die "autogen.sh failed"
    fi
    (
        cd "$dir" || exit 1
        if ! test -f Makefile &&
            ! "$top/configure" "$@" >configure.out 2>&1; then
            tail -n 20 configure.out >&2
            bn_die "configure failed, see $dir/config.log"
        fi
        # shellcheck disable=SC2086 # a list of words
        if ! { make built && make -j"$(nproc)" $bn_targets; } \
            >make.out 2>&1; then
            grep -E 'error|warning|\*\*\*' make.out | head -n 40 >&2
            bn_die "make failed, see $dir/make.out"
        fi
    ) || exit 1
}

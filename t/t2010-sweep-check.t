#!/bin/sh
# Each fault is planted; the check has to name it before anything is written.
test_description='burnish sweep check: data, memory, disk, paths, ports'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
bn_require JQ "no jq" command -v jq
PATH=$BN_BUILDDIR:$PATH
BURNISH_TEMPLATES=$BN_SRCDIR/templates
export PATH BURNISH_TEMPLATES

# sweep NAME [KEYS]: NAME.yaml, two points; KEYS of the sweep before the base
sweep()
{
    { printf '%s\n' "output_dir: out" "launch: local" "tokenize: no" "$2"
      bn_base
      echo "grid: {beta: [0.1, 0.2]}"; } >"$1.yaml"
}
# in_base FILE LINE: one more key of the base
in_base() { sed -i "s|^  task: orpo|&\n  $2|" "$1.yaml"; }
# refused FILE PATTERN: once, for both points, and nothing is written
refused()
{
    test_expect_code 64 burnish sweep submit "$1.yaml" 2>err && cat err >&2 &&
    test "$(grep -c -- "$2" err)" = 1 && ! test -e out
}

test_expect_success 'nothing is wrong with what the others are made of' '
    sweep good && burnish sweep check good.yaml 2>err >out.txt && cat err >&2 &&
    ! test -s err && grep "2 points, all well" out.txt
'

test_expect_success 'too many bad rows: file and line of the first' '
    { bn_pairs 3; echo "{\"prompt\": \"x"; bn_pairs 3; } >torn.jsonl &&
    sweep torn && sed -i "s/pairs.jsonl/torn.jsonl/" torn.yaml &&
    refused torn "1 of 7 rows dropped.*first: torn.jsonl:4: "
'

test_expect_success 'few bad rows are noted by file and line' '
    { bn_pairs 50; echo "{\"prompt\": \"x"; bn_pairs 50; } >few.jsonl &&
    sweep few && sed -i "s/pairs.jsonl/few.jsonl/" few.yaml &&
    burnish sweep check few.yaml 2>err && cat err >&2 &&
    test $(grep -c "^few.jsonl:51: " err) = 1
'

test_expect_success 'rows of no known shape' '
    echo "{\"question\": \"a\", \"answer\": \"b\"}" >shape.jsonl &&
    sweep shape && sed -i "s/pairs.jsonl/shape.jsonl/" shape.yaml &&
    refused shape "shape.jsonl:1: no preference shape has the columns .question., .answer."
'

test_expect_success 'evaluation data are opened too, each set once' '
    echo "no json" >eval.jsonl &&
    sweep eval && in_base eval "eval_file: eval.jsonl" &&
    refused eval "eval.yaml:[0-9]*:3: .*eval.jsonl:1" &&
    line=$(grep -n eval_file eval.yaml | cut -d: -f1) && grep "^eval.yaml:$line:3: " err
'

test_expect_success 'files that are not there: each once, at the line that names it' '
    cat >absent.yaml <<-\EOT &&
	output_dir: out
	launch: local
	base:
	  task: sft
	  model_name_or_path: no-model
	  train_file: no-train.jsonl
	  eval_file: no-*.jsonl
	grid:
	  seed: [1, 2]
	list:
	  - {name: other, train_file: no-other.jsonl}
	EOT
    test_expect_code 64 burnish sweep check absent.yaml 2>err &&
    grep -o "^absent.yaml:[0-9:]*\|no-[a-z*.]*" err | paste -d " " - - >got &&
    cat >want <<-\EOT &&
	absent.yaml:5:3: no-model
	absent.yaml:6:3: no-train.jsonl
	absent.yaml:7:3: no-*.jsonl
	absent.yaml:11:31: no-other.jsonl
	EOT
    test_cmp want got && grep "error: 4 problems" err
'

test_expect_success 'a share held out that leaves nothing' '
    bn_pairs 1 >one.jsonl &&
    sweep split && sed -i "s/pairs.jsonl/one.jsonl/" split.yaml &&
    in_base split "eval_split: 0.5" &&
    refused split "eval_split 0.5 holds out all 1 examples"
'

test_expect_success 'a tokenizer with more ids than the model has rows' '
    cp -r tiny small && chmod -R u+w small &&
    jq ".vocab_size = 50" tiny/config.json >small/config.json &&
    sweep vocab && sed -i "s/config_name: tiny/config_name: small/" vocab.yaml &&
    refused vocab "tokenizer .tiny. has [0-9]* ids but the model.s vocab_size is 50"
'

test_expect_success 'a GPU that the plan does not fit in, to the KiB' '
    sweep run && burnish sweep check run.yaml &&
    { sed -n "/^base:/,/^grid/p" run.yaml | sed "1d; /^grid/d; s/^  //"
      echo "output_dir: x"; } >one.yaml &&
    BURNISH_CACHE=$PWD/cache burnish plan --json --ranks 1 one.yaml >plan.json &&
    bytes=$(jq ".state + .activations + .gpu_scratch" plan.json) &&
    sweep fits "gpus_per_node: 1
gpu_memory: $(((bytes + 1023) / 1024))K" && burnish sweep check fits.yaml &&
    sweep over "gpus_per_node: 1
gpu_memory: $((bytes / 1024 - 1))K" &&
    refused over "memory: the run needs .* on a GPU of .*weights .*gradients .*optimizer .*activations .*scratch 64.0 MiB.*(point beta=0.1 and 1 more)"
'

test_expect_success 'ranks that share a GPU take it together' '
    sweep shared "gpus_per_node: 1
tasks_per_node: 2
gpu_memory: $(((bytes + 1023) / 1024))K" &&
    refused shared "memory: the run needs .* on a GPU of"
'

# 8 layers of 16384: some hundred GiB of state
test -d tiny || bn_tiny
jq ".hidden_size = 16384 | .intermediate_size = 65536 | .num_hidden_layers = 8
    | .num_attention_heads = 128 | .num_key_value_heads = 128
    | del(.head_dim)" tiny/config.json >huge.json

test_expect_success 'the name of a type says how much a GPU has' '
    for gpu in "--gres=gpu:t4:1" "--gpus-per-node=1g.10gb:1"; do
        sweep type "gpus_per_node: 1
sbatch: [\"$gpu\"]" && sed -i "s/config_name: tiny/config_name: huge.json/" type.yaml &&
        refused type "memory: the run needs .* on a GPU of 1[06]" || return 1
    done &&
    sweep noname "gpus_per_node: 1
sbatch: [\"--gres=gpu:mystery:1\"]" &&
    burnish sweep check noname.yaml 2>err &&
    grep "the memory of a GPU is not known of type mystery: say gpu_memory" err
'

test_expect_success 'a run on CPUs is held against mem' '
    sweep mem "mem: 50M" && sed -i "s/config_name: tiny/config_name: huge.json/" mem.yaml &&
    refused mem "memory: the run needs .* on a node with 50.* (mem); a rank: weights"
'

test_expect_success 'only rows that were not read could be too long: a note' '
    bn_pairs 9000 >many.jsonl &&
    sweep long "gpus_per_node: 1
gpu_memory: 300M" && sed -i "s/pairs.jsonl/many.jsonl/" long.yaml &&
    in_base long "max_length: 262144" &&
    burnish sweep check long.yaml 2>err && cat err >&2 &&
    test $(grep -c "memory: with examples of max_length the run would need .* no row that was read is so long" err) = 1
'

test_expect_success 'ranks that the layout does not come to' '
    sweep mesh "tasks_per_node: 4" && in_base mesh "tensor_parallel_size: 3" &&
    refused mesh "dp 1 x tp 3 x pp 1 x cp 1 is not 4 ranks (nodes 1 x tasks_per_node 4)"
'

test_expect_success 'checkpoints that the disk has no room for' '
    sweep disk && in_base disk "save_total_limit: 1000000000" &&
    refused disk "the checkpoints of all points need .* has room for .*: set save_total_limit"
'

test_expect_success 'paths that would be too long' '
    long=$(printf "%0200d/" 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20) &&
    sweep path && sed -i "s|^output_dir: out|output_dir: $long|" path.yaml &&
    refused path "output_dir is [0-9]* characters long"
'

test_expect_success 'a socket whose path would be too long' '
    dir=$(printf "/tmp/%080d" 0) &&
    sweep socket "template: mps
environment: {TMPDIR: $dir}" &&
    refused socket "TMPDIR .* is 85 characters long: the socket of the MPS daemon" &&
    sweep socket "template: mps
environment: {TMPDIR: /tmp}" && burnish sweep check socket.yaml
'

test_expect_success 'a port that two runs would fight over' '
    sweep port "environment: {MASTER_PORT: 29500}" &&
    refused port "environment: MASTER_PORT has no effect"
'

test_expect_success 'sizes that are none' '
    sweep size "mem: lots
gpus_per_node: 1
gpu_memory: 80X" &&
    refused size "size.yaml:[0-9]*:[0-9]*: mem .lots. is no size" &&
    refused size "gpu_memory .80X. is no size"
'

test_expect_success 'all of it in one list' '
    sweep all "environment: {MASTER_PORT: 29500}
mem: 50M
tasks_per_node: 4" && in_base all "tensor_parallel_size: 3" &&
    in_base all "save_total_limit: 1000000000" &&
    sed -i "s/pairs.jsonl/torn.jsonl/; s/beta: .*/beta: [0.1, x]}/" all.yaml &&
    test_expect_code 64 burnish sweep submit all.yaml 2>err && cat err >&2 &&
    grep MASTER_PORT err && grep torn.jsonl:4 err && grep "checkpoints of all" err &&
    grep "beta: expected a number" err &&
    grep "4 problems: nothing is submitted" err && ! test -e out
'

test_done

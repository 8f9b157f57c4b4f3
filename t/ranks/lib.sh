# shellcheck shell=sh
# Small runs on several ranks: source after tlib.sh. Needs the shared inputs.
#
#     bn_small_runs            # data, two models, sft.yaml and orpo.yaml;
#                              # names of keys: $tp $pp $cp $batch $accum
#     bn_saving RUN FILE       # a copy of RUN.yaml that saves every 4 steps
#     bn_train N NAME RUN SETS...   # RUN.yaml on N ranks into folder NAME
#     $compare A B [STEPS]     # records of two runs; --bits: to the bit
#     bn_from A STEP B         # folder B as run A was when STEP was saved
#     bn_same A B WHAT         # the same last checkpoint and the same WHAT,
#                              # a file below both, byte for byte
#
# 44 rows are 5.5 steps of 8: in the last step of an epoch ranks lack data.
. "$BN_SRCDIR/t/mpi.sh"

# shellcheck disable=SC2034 # for those who source this
bn_small_runs()
{
    bn_mpi
    bn_require_shared
    tp=tensor_parallel_size pp=pipeline_parallel_size
    cp=context_parallel_size batch=per_device_train_batch_size
    accum=gradient_accumulation_steps
    bn_require PYTHON "no python3" python3 --version
    BURNISH_CACHE=$PWD/cache
    export BURNISH_CACHE
    compare="python3 $BN_SRCDIR/t/ranks/compare.py"
    bn_model=$BN_SHARED/inputs/models/stories260K-hf
    for bn_task in sft orpo; do
        python3 "$BN_SRCDIR/t/golden/trajectory.py" data \
            "$BN_SHARED/golden/$bn_task-stories260K.json" all.jsonl &&
        head -n 44 all.jsonl >$bn_task.jsonl &&
        tail -n 7 all.jsonl >$bn_task-eval.jsonl || return 1
    done
    # heads that are normed, few KV heads, one matrix for both ends
    mkdir -p qwen3 qwen2
    cat >qwen3/config.json <<EOF
{"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"],
 "vocab_size": 512, "hidden_size": 64, "intermediate_size": 96,
 "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2,
 "head_dim": 16, "max_position_embeddings": 512, "rms_norm_eps": 1e-06,
 "rope_theta": 10000.0, "tie_word_embeddings": true, "hidden_act": "silu",
 "attention_bias": false, "initializer_range": 0.06, "bos_token_id": 1,
 "eos_token_id": 2, "torch_dtype": "float32"}
EOF
    # biases, a matrix of its own at each end
    cat >qwen2/config.json <<EOF
{"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"],
 "vocab_size": 512, "hidden_size": 64, "intermediate_size": 96,
 "num_hidden_layers": 9, "num_attention_heads": 8, "num_key_value_heads": 8,
 "max_position_embeddings": 512, "rms_norm_eps": 1e-06,
 "rope_theta": 10000.0, "tie_word_embeddings": false, "hidden_act": "silu",
 "initializer_range": 0.06, "bos_token_id": 1, "eos_token_id": 2,
 "use_sliding_window": true, "sliding_window": 24, "max_window_layers": 4,
 "torch_dtype": "float32"}
EOF
    bn_small_yaml sft qwen3 >sft.yaml
    bn_small_yaml orpo qwen2 >orpo.yaml
}

bn_small_yaml()
{
    cat <<EOF
task: $1
init: random
config_name: $2
tokenizer_name_or_path: $bn_model
train_file: $1.jsonl
eval_file: $1-eval.jsonl
output_dir: unset
max_length: 160
max_steps: 10
per_device_train_batch_size: 4
gradient_accumulation_steps: 2
per_device_eval_batch_size: 3
learning_rate: 2.0e-3
warmup_steps: 2
eval_strategy: steps
eval_steps: 5
logging_steps: 1
save_strategy: "no"
num_threads: 1
dtype: float32
EOF
    test "$1" = sft || printf 'beta: 0.2\nmax_prompt_length: 100\n'
}

bn_saving()
{
    sed 's/^save_strategy.*/save_strategy: steps/; s/^logging_steps.*/logging_steps: 3/' \
        "$1.yaml" >"$2.yaml" && echo 'save_steps: 4' >>"$2.yaml"
}

bn_from()
{
    rm -rf "$3" && mkdir "$3" && cp -r "$1/checkpoint-$2" "$3/" &&
    cp "$1/metrics.jsonl" "$3/"
}

bn_same()
{
    (cd "$1/checkpoint-10" && cat state-*) >a.bin &&
    (cd "$2/checkpoint-10" && cat state-*) >b.bin && cmp a.bin b.bin &&
    cmp "$1/$3" "$2/$3"
}

bn_train()
{
    bn_n=$1 bn_name=$2 bn_run=$3
    shift 3
    for bn_set in "$@"; do
        shift
        set -- "$@" --set "$bn_set"
    done
    bn_ranks "$bn_n" "${bn_trainer:-burnish-train}" \
        --set "output_dir=$bn_name" "$@" "$bn_run.yaml" 2>"$bn_name.err"
}

#!/bin/sh
# shellcheck disable=SC2034,SC2154
test_description='steps as CUDA graphs on an emulated GPU: the same bits'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/emu.sh"
model=$BN_SHARED/inputs/models/stories260K-hf
export model

# run NAME SETS...: $task.yaml on the emulated GPU into folder NAME
run()
{
    name=$1
    shift
    for set in "$@"; do
        shift
        set -- "$@" --set "$set"
    done
    $train --set device=cuda --set output_dir="$name" "$@" "$task.yaml" \
        2>"$name.err"
}
# same A B FILE: the same losses, norms and weights, to the bit
same()
{
    python3 "$BN_SRCDIR/t/ranks/compare.py" --bits "$1" "$2" &&
    cmp "$1/$3" "$2/$3"
}

# Rows are cut to one length, so that every step has the same shapes and other
# tokens; and pairs of several lengths, which come again in the next epoch.
test_expect_success 'rows of one length, and pairs of several' '
    $traj data "$BN_SHARED/golden/sft-stories260K.json" sft.jsonl &&
    python3 - <<-\EOF >both &&
	import json
	for line in list(open("sft.jsonl"))[:15]:
	    text = "".join(json.loads(line)["completion"])
	    print(json.dumps({"text": text + " once upon a time there was a" * 3}))
	EOF
    head -n 12 both >rows.jsonl && tail -n 3 both >eval.jsonl &&
    $traj data "$BN_SHARED/golden/orpo-stories260K.json" all.jsonl &&
    head -n 4 all.jsonl >pairs.jsonl &&
    cat >sft.yaml <<-EOF &&
	task: sft
	model_name_or_path: $model
	train_file: rows.jsonl
	max_length: 20
	per_device_train_batch_size: 2
	gradient_accumulation_steps: 2
	max_steps: 5
	learning_rate: 0.001
	warmup_steps: 2
	logging_steps: 1
	save_strategy: no
	dtype: float32
	EOF
    sed "s/^task.*/task: orpo/; s/rows.jsonl/pairs.jsonl/; s/20/64/
         s/^gradient_acc.*/gradient_accumulation_steps: 1/" sft.yaml >orpo.yaml &&
    cat >>orpo.yaml <<-EOF
	max_prompt_length: 24
	shuffle: false
	lora_r: 4
	lora_dropout: 0.2
	EOF
'
test_expect_success 'sft: steps of one shape are launches of one graph' '
    task=sft run plain && task=sft run graph cuda_graph=true &&
    ! grep graphs: plain.err &&
    grep "graphs: 4 of 5 steps were launches of one, 1 recorded" graph.err &&
    same plain graph model/model.safetensors
'
test_expect_success 'in bf16, evaluating in between' '
    sets="eval_file=eval.jsonl eval_strategy=steps eval_steps=2 dtype=bfloat16" &&
    task=sft run plain16 $sets && task=sft run graph16 $sets cuda_graph=true &&
    grep "graphs: 4 of 5 steps" graph16.err &&
    same plain16 graph16 model/model.safetensors
'
test_expect_success 'orpo with an adapter and dropout: a graph a shape' '
    task=orpo run lora && task=orpo run lora-graph cuda_graph=true &&
    grep "graphs: 3 of 5 steps were launches of one, 2 recorded" \
        lora-graph.err &&
    same lora lora-graph adapter/adapter_model.safetensors
'
test_expect_success 'a NaN is found at the end of a launch, and is not saved' '
    test_expect_code 71 env task=sft sh -c "
        \$train --set device=cuda --set output_dir=nan --set cuda_graph=true \
            --set learning_rate=10 --set weight_decay=10 --set max_steps=40 \
            --set max_grad_norm=0 --set warmup_steps=0 sft.yaml 2>nan.err" &&
    grep "error: step [0-9]*.* (rows.jsonl:.* is -*\(nan\|inf\)" nan.err &&
    grep "graphs: [1-9]" nan.err && ! test -e nan/model
'
test_expect_success 'what cannot be captured is refused by name' '
    test_expect_code 64 $train --set device=cpu --set cuda_graph=true \
        --set output_dir=cpu sft.yaml 2>cpu.err &&
    grep "cuda_graph is for one GPU" cpu.err &&
    test_expect_code 64 env BURNISH_CUDA_HOST=rope $train --set device=cuda \
        --set cuda_graph=true --set output_dir=rope sft.yaml 2>rope.err &&
    grep "rope (F32 .*) has no kernel .* cuda_graph: true excludes the CPU" \
        rope.err
'
test_done

#!/bin/sh
test_description='SFT on an emulated GPU equals the float64 trajectories, and is near them in bf16'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/emu.sh"
short='--set max_steps=1 --set warmup_steps=0'
export short

bn_emu_runs sft
bn_emu_bf16 sft 4
test_expect_success 'what is sent to the CPU is counted at the end' '
    BURNISH_CUDA_HOST="attn rope" $train --set device=cuda \
        --set output_dir=host $short sft0.yaml 2>host.err &&
    grep "ran on the CPU instead of device 0 .*: rope [0-9]*, attn [0-9]*" \
        host.err
'
test_expect_success 'and named once, with shapes and caller, at debug' '
    BURNISH_LOG=debug BURNISH_CUDA_HOST="attn" $train --set device=cuda \
        --set output_dir=debug $short sft0.yaml 2>debug.err &&
    grep -c "debug: attn (F32 .*heads of 8) runs on the CPU, called from" \
        debug.err >count && test "$(cat count)" = 1
'
test_expect_success 'and an error under strict_device' '
    test_expect_code 64 env BURNISH_CUDA_HOST="swiglu" $train \
        --set device=cuda --set strict_device=true --set output_dir=strict \
        $short sft0.yaml 2>strict.err &&
    grep "swiglu (F32 .*) has no kernel on rank 0, device 0" strict.err
'
test_expect_success 'memory of the device is what burnish plan says' '
    burnish plan --json --set device=cuda sft0.yaml >plan.json &&
    python3 - plan.json sft0/metrics.jsonl <<-\EOF
	import json, sys
	plan = json.load(open(sys.argv[1]))
	end = [json.loads(line) for line in open(sys.argv[2])][-1]
	for k in ("weights", "gradients", "tables", "optimizer", "activations",
	          "gpu_scratch"):
	    for what in "planned", "allocated", "touched", "peak":
	        assert end[f"memory/{k}/{what}"] == plan[k], (k, what)
	EOF
'
# Whatever else the device gave would be a second line; and what a step took, a
# difference between runs of one and of three steps.
test_expect_success 'it is one allocation, before the steps' '
    echo "{\"prompt\": \"Once\", \"completion\": \" there was a cat.\"}" \
        >eval.jsonl &&
    for n in 1 3; do
        BURNISH_EMU_ALLOCATIONS=$PWD/took$n.list $train --set device=cuda \
            --set output_dir=took $short --set max_steps=$n \
            --set eval_file=eval.jsonl --set eval_strategy=steps \
            --set eval_steps=1 sft0.yaml 2>took.err && rm -r took || return 1
    done &&
    test_cmp took1.list took3.list &&
    python3 - plan.json <<-\EOF >want &&
	import json, sys
	plan = json.load(open(sys.argv[1]))
	print("device", plan["state"] + plan["activations"] + plan["gpu_scratch"])
	EOF
    grep "^device " took1.list >got && test_cmp want got
'
test_expect_success 'memory of the device and of the host are told apart' '
    grep "^  weights *device " host.err && grep "^  copy *host " host.err &&
    grep "^  staging *pinned " host.err &&
    grep "^  rounding *host " host.err &&
    grep "^  in all *host *[1-9]" host.err &&
    grep "^  in all *device *[1-9]" host.err
'
test_done

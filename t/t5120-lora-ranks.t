#!/bin/sh
test_description='adapters on ranks: every layout trains alike, and goes on from another'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/ranks/lib.sh"
bn_small_runs


# Models to adapt; then the same runs with adapters. One has normed heads and
# few KV heads, the other biases; dropout, saved modules, both scales.
for t in sft orpo; do
    bn_train 1 base-$t $t max_steps=1 warmup_steps=0 || exit 1
    sed -e '/^init:/d' -e "s#^config_name.*#model_name_or_path: base-$t/model#" \
        -e 's/^learning_rate.*/learning_rate: 2.0e-2/' $t.yaml >lora-$t.yaml
    printf 'lora_r: 4\nlora_alpha: 8\nlora_dropout: 0.2\n' >>lora-$t.yaml
done
echo 'modules_to_save: [norm]' >>lora-sft.yaml
printf 'use_rslora: true\nmodules_to_save: [embed_tokens, lm_head]\n' >>lora-orpo.yaml
for t in sft orpo; do
    bn_saving lora-$t save-$t
done

# alike N NAME SETS...: both tasks on N ranks as on one
alike() {
    n=$1 name=$2
    shift 2
    for task in sft orpo; do
        bn_train $n $task-$name lora-$task "$@" &&
        $compare $task-1 $task-$name 10 || return 1
    done
}
test_expect_success 'one rank' '
    for task in sft orpo; do
        bn_train 1 $task-1 lora-$task || return 1
    done
'
while read -r n name sets; do
    test_expect_success "$n ranks: $name" 'alike $n $name $sets'
done <<EOT
1 one-by-one $batch=1 $accum=8 activation_recompute=full
2 dp2 $batch=2
2 tp2 $tp=2
2 pp2 $pp=2
2 cp2 $cp=2
4 dp4 $batch=1
4 tp4 $tp=4
4 pp4 $pp=4 $batch=1 $accum=8
4 tp2-pp2 $tp=2 $pp=2
4 dp2-tp2 $tp=2 $batch=2 activation_recompute=attention
4 tp2-cp2 $tp=2 $cp=2
2 tp2-sequence $tp=2 sequence_parallel=true
4 dp2-pp2-zero2 $batch=2 $pp=2 zero_stage=2
EOT
test_expect_success 'sums of adapters beside the backward pass give the same bits' '
    bn_train 2 on lora-sft $batch=2 reduce_bucket_size=1 &&
    bn_train 2 off lora-sft $batch=2 overlap_grad_reduce=false \
        overlap_param_gather=false &&
    $compare --bits on off 10
'
test_expect_success 'adapters of some layers: a stage may have none' '
    few="modules_to_save=[]"
    some="lora_target_modules=[layers.7.mlp.up_proj, layers.6.self_attn.k_proj]"
    bn_train 1 few-1 lora-sft $few "$some" &&
    bn_train 2 few-2 lora-sft $few "$some" $pp=2 && $compare few-1 few-2 10 &&
    bn_train 4 few-4 lora-sft $few "$some" $pp=2 $batch=2 zero_stage=2 &&
    $compare few-1 few-4 10
'
test_expect_success 'every layout writes the same adapter, to rounding' '
    for d in sft-tp4 sft-pp4 sft-dp2-tp2; do
        python3 - sft-1 $d "$BN_SRCDIR/t" <<-\EOF || return 1
	import sys
	sys.path.insert(0, sys.argv[3])
	import lora, tiny
	a, b = (sorted(tiny.read_tensors(d + "/adapter/adapter_model.safetensors"))
	        for d in sys.argv[1:3])
	assert [t[:3] for t in a] == [t[:3] for t in b]
	worst = max(abs(x - y) for t, u in zip(a, b)
	            for x, y in zip(lora.floats(t[1], t[3]), lora.floats(u[1], u[3])))
	print(sys.argv[2], worst)
	assert worst < 2e-3, worst
	EOF
    done
'
while read -r n run sets; do
    test_expect_success "planned is allocated: $n ranks, $run $sets" '
        plan_sets= && for s in $sets; do plan_sets="$plan_sets --set $s"; done &&
        burnish plan --json --ranks $n --set output_dir=out $plan_sets \
            $run.yaml >plan.json &&
        BURNISH_LOG=debug bn_ranks $n burnish-train --check \
            --set output_dir=out $plan_sets $run.yaml 2>check.err &&
        python3 - $n <<-\EOF
	import json, re, sys
	plan = [json.loads(l) for l in open("plan.json")]
	want = sorted((p["state"], p["activations"]) for p in plan)
	got = sorted({(int(m[1]), int(m[2])) for m in re.finditer(
	    r"arena: (\d+) bytes of state, (\d+) of", open("check.err").read())})
	assert got == sorted(set(want)), (got, want)
	EOF
    '
done <<EOT
4 lora-sft $tp=2 $batch=2
4 lora-orpo $pp=2 $batch=2 dtype=bfloat16
4 lora-sft $pp=2 $batch=2 zero_stage=2
EOT

test_expect_success 'generation beside an adapter is that of one rank' '
    for n in 1 2; do
        bn_ranks $n burnish-generate --model base-sft/model --adapter sft-1/adapter \
            --dtype float32 --max-new-tokens 24 --tensor-parallel-size $n --threads 1 \
            "Once upon" "A dog" >gen-$n || return 1
    done && test_cmp gen-1 gen-2 &&
    burnish-generate --model base-sft/model --dtype float32 --max-new-tokens 24 \
        "Once upon" "A dog" >gen-0 && ! cmp gen-0 gen-1
'

# --- Checkpoints -------------------------------------------------------------

same() {
    bn_same "$1" "$2" adapter/adapter_model.safetensors
}
test_expect_success 'checkpoints hold the adapter alone, and name the model' '
    bn_train 1 one save-sft && bn_train 4 four save-sft $tp=2 $batch=2 &&
    bn_train 4 pair save-orpo $pp=2 $cp=2 &&
    python3 - "$BN_SRCDIR/t" <<-\EOF
	import json, math, os, sys
	sys.path.insert(0, sys.argv[1])
	import tiny
	base = set()
	for d, n in (("one", 1), ("four", 4), ("pair", 4)):
	    m = json.load(open(d + "/checkpoint-10/manifest.json"))
	    assert m["version"] == 4 and m["adapter"]["r"] == 4 and len(m["shards"]) == n
	    own = sum(math.prod(t[2]) for t in tiny.read_tensors(d + "/adapter/adapter_model.safetensors"))
	    held = sum(s["count"] for s in m["shards"])
	    size = sum(os.path.getsize(d + "/checkpoint-10/" + s["file"]) for s in m["shards"])
	    assert size == 12 * held and own <= held < 2 * own + 64000, (d, own, held)
	    base.add(m["base"])
	assert len(base) == 2, base  # two models, whatever the ranks
	EOF
'
for step in 4 8; do
    test_expect_success "at the same layout, from step $step: the same bits" '
        bn_from one $step one-r && bn_train 1 one-r save-sft &&
        grep "resumed from .one-r/checkpoint-$step. after step $step" one-r.err &&
        same one one-r && $compare --bits one one-r &&
        bn_from four $step four-r && bn_train 4 four-r save-sft $tp=2 $batch=2 &&
        same four four-r && $compare --bits four four-r &&
        bn_from pair $step pair-r && bn_train 4 pair-r save-orpo $pp=2 $cp=2 &&
        same pair pair-r && $compare --bits pair pair-r
    '
done
while read -r run step task n sets; do
    test_expect_success "$run at $step goes on alike: $n ranks, $sets" '
        bn_from $run $step other && bn_train $n other save-$task $sets &&
        grep "after step $step" other.err && $compare $run other
    '
done <<EOT
one 4 sft 4 $tp=2 $pp=2
four 8 sft 1
four 4 sft 2 $pp=2
pair 8 orpo 4 $tp=2 $batch=2
EOT
test_expect_success 'an export of any layout is the adapter' '
    burnish ckpt verify four/checkpoint-10 pair/checkpoint-10 &&
    for d in four pair; do
        burnish ckpt export $d/checkpoint-10 out-$d &&
        cmp out-$d/adapter_model.safetensors $d/adapter/adapter_model.safetensors &&
        cmp out-$d/adapter_config.json $d/adapter/adapter_config.json || return 1
    done
'
test_expect_success 'refused: another model, a whole one, another rank' '
    bn_from one 8 bad && cp -r base-sft/model changed && python3 - "$BN_SRCDIR/t" <<-\EOF &&
	import sys
	sys.path.insert(0, sys.argv[1])
	import tiny
	p = "changed/model.safetensors"
	t = tiny.read_tensors(p)
	t[0] = t[0][:3] + (t[0][3][:-4] + b"\0\0\0\0",)
	tiny.write_tensors(p, t)
	EOF
    test_must_fail bn_train 1 bad save-sft model_name_or_path=changed &&
    grep "cannot go on from .bad/checkpoint-8.*the model beside the adapter has changed" bad.err &&
    test_must_fail bn_train 1 bad save-sft lora_r=8 &&
    grep "lora_r was 4 and is 8" bad.err &&
    sed "/^lora_/d; /^modules_to_save/d" save-sft.yaml >whole.yaml &&
    test_must_fail bn_train 1 bad whole && grep "lora_r was 4 and is 0" bad.err
'

# A fault planted by the linker: the comparison must see it.
bn_trainer=$BN_BUILDDIR/src/train/test/mutant
test_expect_success 'planted: a rank left out of the sum of gradients' '
    BN_MUTANT=sum bn_train 2 sum lora-sft $tp=2 &&
    test_must_fail $compare sft-1 sum
'
test_done

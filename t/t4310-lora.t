#!/bin/sh
test_description='adapters: trained, scored, merged, gone on from; and what is refused'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require TRAIN "burnish-train was not built" burnish-train --version
bn_require PYTHON "no python3" python3 -c ""

BURNISH_CACHE=$PWD/cache
PYTHONDONTWRITEBYTECODE=1
export BURNISH_CACHE PYTHONDONTWRITEBYTECODE
lora="python3 $BN_SRCDIR/t/lora.py"
python3 "$BN_SRCDIR/t/tiny.py" .
cat >>run.yaml <<EOT
device: cpu
lora_r: 4
lora_alpha: 8
EOT
sed -i -e 's/^max_steps.*/max_steps: 30/' -e 's/^learning_rate.*/learning_rate: 0.01/' \
    run.yaml
sed -e 's/^task.*/task: orpo/' -e 's/sft.jsonl/pairs.jsonl/' run.yaml >orpo.yaml
# Without the keys of an adapter: for whole models, and for `adapter`.
sed '/^lora_/d' run.yaml >whole.yaml
sed '/^lora_/d' orpo.yaml >whole-orpo.yaml

# falls DIR: the last loss is below 0.8 of the first
falls() {
    python3 - "$1" <<-\EOF
	import json, sys
	loss = [r["loss"] for r in map(json.loads, open(sys.argv[1] + "/metrics.jsonl"))
	        if r["kind"] == "train"]
	print(loss[0], loss[-1])
	sys.exit(not loss[-1] < 0.8 * loss[0])
	EOF
}
sha() {
    sha256sum model/model.safetensors
}

test_expect_success 'SFT and ORPO train adapters beside a model that stays as it is' '
    sha >before &&
    burnish-train --set output_dir=sft --set lora_dropout=0.1 run.yaml 2>err &&
    grep "adapter: rank 4, 0.0. M parameters trained" err &&
    burnish-train --set output_dir=orpo --set use_rslora=true orpo.yaml &&
    falls sft && falls orpo && sha >after && test_cmp before after &&
    test -d sft/adapter && ! test -e sft/model
'
test_expect_success 'bf16 weights, recomputed activations, chosen modules' '
    burnish-train --set output_dir=chosen --set dtype=bfloat16 \
        --set activation_recompute=full --set lora_dropout=0.2 \
        --set "lora_target_modules=[v_proj, layers.1.mlp.down_proj]" \
        --set "modules_to_save=[lm_head, norm]" run.yaml && falls chosen &&
    $lora names chosen/adapter >got && cat >want <<-\EOF &&
	base_model.model.lm_head.weight F32 97 64
	base_model.model.model.layers.0.input_layernorm.weight F32 64
	base_model.model.model.layers.0.post_attention_layernorm.weight F32 64
	base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight F32 4 64
	base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight F32 16 4
	base_model.model.model.layers.1.input_layernorm.weight F32 64
	base_model.model.model.layers.1.mlp.down_proj.lora_A.weight F32 4 40
	base_model.model.model.layers.1.mlp.down_proj.lora_B.weight F32 64 4
	base_model.model.model.layers.1.post_attention_layernorm.weight F32 64
	base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight F32 4 64
	base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight F32 16 4
	base_model.model.model.norm.weight F32 64
	EOF
    test_cmp want got
'

# What is planned is what is allocated; frozen weights have two bytes (bf16)
# and nothing else.
test_expect_success 'memory: neither gradients nor optimizer for frozen weights' '
    for y in run whole; do
        burnish plan --json --set dtype=bfloat16 $y.yaml >$y.json &&
        BURNISH_LOG=debug burnish-train --check --set output_dir=check \
            --set dtype=bfloat16 $y.yaml 2>$y.err || return 1
    done &&
    python3 - <<-\EOF
	import json, re
	plan = {y: json.load(open(y + ".json")) for y in ("run", "whole")}
	for y, p in plan.items():
	    m = re.search(r"arena: (\d+) bytes of state, (\d+) of", open(y + ".err").read())
	    assert (int(m[1]), int(m[2])) == (p["state"], p["activations"]), (y, p)
	lora, whole = plan["run"], plan["whole"]
	base = whole["weights"] // 2
	mine = lora["weights"] // 2 - base
	assert 0 < mine < base // 2, (mine, base)
	assert whole["gradients"] == 4 * base
	assert lora["gradients"] == 4 * mine, lora
	assert abs(lora["optimizer"] - 12 * mine) <= 1024, lora
	assert lora["copy"] == 12 * mine, lora
	EOF
'

test_expect_success 'and the report at the end of a run has what was planned' '
    burnish plan --json --set lora_dropout=0.1 run.yaml >plan.json &&
    python3 "$BN_SRCDIR/t/observe.py" plan sft/metrics.jsonl plan.json
'
test_expect_success 'on an emulated GPU every operation has a kernel, and trains alike' '
    set -- --set lora_dropout=0.2 --set "modules_to_save=[norm]" --set max_steps=3 &&
    burnish-train --set output_dir=cpu "$@" run.yaml &&
    "$BN_BUILDDIR/src/cmd/burnish-train-emu" --set device=cuda --strict-device \
        --set output_dir=gpu "$@" run.yaml &&
    python3 - <<-\EOF
	import json
	a, b = ([r for r in map(json.loads, open(d + "/metrics.jsonl")) if r["kind"] == "train"]
	        for d in ("cpu", "gpu"))
	assert len(a) == len(b) == 3
	for x, y in zip(a, b):
	    assert abs(x["loss"] - y["loss"]) <= 5e-6 * x["loss"], (x, y)
	    assert abs(x["grad_norm"] - y["grad_norm"]) <= 5e-5 * x["grad_norm"], (x, y)
	EOF
'
test_expect_success 'scores and evaluation with an adapter are those of the merged model' '
    head -n 6 sft.jsonl | sed "s/\"prompt\": \"\(.*\)\", \"completion\": \"/\"text\": \"\1/" >texts.jsonl &&
    for a in sft orpo chosen; do
        rm -rf merged-$a && burnish lora merge --dtype float32 model $a/adapter merged-$a &&
        burnish-train --score texts.jsonl --set adapter=$a/adapter whole.yaml >a.jsonl &&
        burnish-train --score texts.jsonl --set model_name_or_path=merged-$a \
            whole.yaml >b.jsonl &&
        $lora scores a.jsonl b.jsonl 2e-5 &&
        burnish-train --score texts.jsonl whole.yaml >c.jsonl &&
        test_must_fail $lora scores a.jsonl c.jsonl 1e-2 || return 1
    done &&
    for a in sft orpo; do
        t=$(test $a = sft && echo whole || echo whole-orpo) &&
        burnish-train --eval-only --set eval_split=0.3 --set adapter=$a/adapter \
            $t.yaml >a.json &&
        burnish-train --eval-only --set eval_split=0.3 \
            --set model_name_or_path=merged-$a $t.yaml >b.json &&
        python3 -c "
import json
a, b = json.load(open(\"a.json\")), json.load(open(\"b.json\"))
assert a.keys() == b.keys()
assert all(abs(a[k] - b[k]) <= 1e-5 * (1 + abs(b[k])) for k in a), (a, b)" || return 1
    done
'
test_expect_success 'generation with an adapter is that of the merged model' '
    burnish-generate --model model --adapter sft/adapter --max-new-tokens 20 \
        --dtype float32 "red: " "dog sings: " >a.txt &&
    burnish-generate --model merged-sft --max-new-tokens 20 --dtype float32 \
        "red: " "dog sings: " >b.txt &&
    burnish-generate --model model --max-new-tokens 20 --dtype float32 \
        "red: " "dog sings: " >c.txt &&
    test_cmp b.txt a.txt && ! cmp a.txt c.txt
'
test_expect_success 'merged and unmerged is the model again, to rounding' '
    burnish lora unmerge --dtype float32 merged-sft sft/adapter again &&
    $lora near model again 3e-7 && test_must_fail $lora near model merged-sft 1e-3 &&
    burnish lora merge model sft/adapter own-type && ls again own-type &&
    test_expect_code 64 burnish lora unmerge merged-chosen chosen/adapter no 2>err &&
    grep "modules_to_save replaced .lm_head. of the base" err && ! test -e no
'
test_expect_success 'training goes on from an adapter' '
    burnish-train --set output_dir=more --set adapter=sft/adapter \
        --set max_steps=10 whole.yaml &&
    python3 - <<-\EOF &&
	import json
	def loss(d):
	    return [r["loss"] for r in map(json.loads, open(d + "/metrics.jsonl")) if r["kind"] == "train"]
	# where the first run ended, not where it began
	assert loss("more")[0] < 1.15 * min(loss("sft")[-6:]), loss("more")
	EOF
    $lora names more/adapter >got && $lora names sft/adapter >want && test_cmp want got &&
    grep -A9 use_rslora orpo/adapter/adapter_config.json | grep true
'

# A step with a learning rate of almost nothing: the adapter comes back as it
# was read, tensor for tensor.
test_expect_success 'an adapter is written as it was read' '
    burnish-train --set output_dir=same --set adapter=chosen/adapter \
        --set max_steps=1 --set learning_rate=1e-30 whole.yaml &&
    cmp chosen/adapter/adapter_model.safetensors same/adapter/adapter_model.safetensors &&
    cmp chosen/adapter/adapter_config.json same/adapter/adapter_config.json
'

# refused CODE TEXT WHAT
while IFS='|' read -r what text; do
    test_expect_success "refused: $what" '
        $lora break sft/adapter bad "$what" &&
        test_expect_code 65 burnish-train --check --set adapter=bad \
            --set output_dir=no whole.yaml 2>err && cat err &&
        grep -F -e "$text" err &&
        test_expect_code 65 burnish lora merge model bad no 2>err2 &&
        grep -F -e "$text" err2 && ! test -e no
    '
done <<'EOT'
missing|bad/adapter_model.safetensors does not hold the tensors of its config: 1 missing (base_model.model.model.layers.0
extra|does not hold the tensors of its config: 1 extra (base_model.model.model.layers.0
misshapen|does not hold the tensors of its config: 1 misshapen (base_model.model.model.layers.0
nan|is not finite as F32
no-weights|cannot open 'bad/adapter_model.safetensors': No such file or directory
use_dora=true|bad/adapter_config.json: use_dora: true is not supported
bias="all"|bad/adapter_config.json: bias: all is not supported: none is
fan_in_fan_out=true|bad/adapter_config.json: fan_in_fan_out: true is not supported
layers_pattern="h"|bad/adapter_config.json: layers_pattern: "h" is not supported
layers_to_transform=[0]|bad/adapter_config.json: layers_to_transform: [0] is not supported
rank_pattern={"q_proj": 2}|bad/adapter_config.json: rank_pattern: {"q_proj":2} is not supported
exclude_modules=["o_proj"]|bad/adapter_config.json: exclude_modules: ["o_proj"] is not supported
lora_bias=true|bad/adapter_config.json: lora_bias: true is not supported
peft_type="IA3"|bad/adapter_config.json: peft_type: IA3 is not supported: LORA is
init_lora_weights="pissa"|init_lora_weights: pissa is not supported: it changes the base model, too
target_modules=".*_proj"|target_modules: '.*_proj' is a regular expression, which is not supported: list the names
r=0|bad/adapter_config.json: r is 0, not 1 to 65536
r=2|misshapen (base_model.model.model.layers.0
lora_alpha=0|bad/adapter_config.json: lora_alpha is 0, not above 0
lora_dropout=1|bad/adapter_config.json: lora_dropout is 1, not in [0, 1)
EOT
test_expect_success 'keys that clash, modules that are not there' '
    test_expect_code 64 burnish-train --check --set adapter=sft/adapter run.yaml 2>err &&
    grep "lora_r makes a new adapter and adapter goes on from one" err &&
    test_expect_code 64 burnish-train --check --set "lora_target_modules=[c_attn]" \
        run.yaml 2>err &&
    grep "lora_r: target_modules: the model has no module .c_attn." err &&
    test_expect_code 64 burnish plan --longest 9 --set "lora_target_modules=lm_head" \
        run.yaml 2>err &&
    grep "target_modules: .lm_head. cannot have an adapter" err &&
    test_expect_code 64 burnish-train --check --set adapter=sft/adapter \
        --set lora_dropout=0.5 whole.yaml 2>err &&
    grep "adapter says rank, alpha, dropout and modules itself" err
'
test_done

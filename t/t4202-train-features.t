#!/bin/sh
test_description='what training does, by numbers computed another way'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require TRAIN "burnish-train was not built" burnish-train --version
bn_require PYTHON "no python3" python3 -c ""

BURNISH_CACHE=$PWD/cache
PYTHONDONTWRITEBYTECODE=1
export BURNISH_CACHE PYTHONDONTWRITEBYTECODE
features="python3 $BN_SRCDIR/t/features.py"
python3 "$BN_SRCDIR/t/tiny.py" .
sed -e 's/^task.*/task: orpo/' -e 's/sft.jsonl/pairs.jsonl/' run.yaml \
    >orpo.yaml

# train OUT ARG...: the SFT run with other keys
train() {
    train_out=$1
    shift
    burnish-train --set save_strategy=no --set output_dir="$train_out" "$@" \
        run.yaml
}
# orpo OUT ARG...
orpo() {
    orpo_out=$1
    shift
    burnish-train --set save_strategy=no --set output_dir="$orpo_out" "$@" \
        orpo.yaml
}

# schedule NAME 'KEY=VALUE...' ARGUMENTS of features.py
schedule() {
    schedule_out=lr-$1 schedule_sets= schedule_keys=$2
    shift 2
    for kv in $schedule_keys; do
        schedule_sets="$schedule_sets --set $kv"
    done
    # shellcheck disable=SC2086
    train "$schedule_out" --set max_steps=20 --set learning_rate=1e-3 \
        $schedule_sets && $features schedule "$schedule_out" "$@"
}
test_expect_success 'learning rates of every schedule' '
    schedule a lr_scheduler_type=linear linear 1e-3 20 0 &&
    schedule b "lr_scheduler_type=linear warmup_steps=5" linear 1e-3 20 5 &&
    schedule c "lr_scheduler_type=linear warmup_ratio=0.22 min_lr_ratio=0.1" \
        linear 1e-3 20 5 zero 0.1 &&
    schedule d "lr_scheduler_type=cosine warmup_steps=4 warmup_first=one" \
        cosine 1e-3 20 4 one &&
    schedule e "lr_scheduler_type=cosine min_lr_ratio=0.25" \
        cosine 1e-3 20 0 zero 0.25 &&
    schedule f lr_scheduler_type=constant constant 1e-3 20 0 &&
    schedule g "lr_scheduler_type=constant_with_warmup warmup_steps=7" \
        constant 1e-3 20 7 &&
    schedule h "lr_scheduler_type=warmup_stable_decay warmup_steps=3 lr_decay_steps=6" \
        wsd 1e-3 20 3 zero 0 6 &&
    schedule i "lr_scheduler_type=warmup_stable_decay lr_decay_ratio=0.31 lr_decay_type=linear min_lr_ratio=0.2" \
        wsd 1e-3 20 0 zero 0.2 7 linear &&
    test_must_fail $features schedule lr-i wsd 1e-3 20 0 zero 0.2 6 linear
'
test_expect_success 'label smoothing is that of transformers' '
    $features smoothing run.yaml 0.1
'
test_expect_success 'rows packed together are rows alone' '
    for n in 1 5 24; do
        $features packed_sft run.yaml $n || return 1
    done
'
test_expect_success 'pairs packed together are pairs alone' '
    for n in 1 7; do
        $features packed_orpo orpo.yaml $n || return 1
    done
'
test_expect_success 'a shared prompt is a repeated one' '
    $features shared_prompt orpo.yaml
'

still="--set learning_rate=1e-12 --set weight_decay=0 --set per_device_train_batch_size=1"
test_expect_success 'shuffle false: rows in their order, each epoch' '
    train plain $still --set max_steps=48 --set shuffle=false &&
    $features order run.yaml plain no
'
test_expect_success 'shuffle: every row once an epoch, each time otherwise' '
    train mixed $still --set max_steps=48 &&
    $features order run.yaml mixed yes
'
test_expect_success 'one seed, one result; another, another' '
    train s1 && train s2 && train s3 --set seed=7 && train s4 --set data_seed=7 &&
    cmp s1/model/model.safetensors s2/model/model.safetensors &&
    $features equal s1 s2 && $features differ s1 s3 && $features equal s3 s4
'
test_expect_success 'random weights: of the seed' '
    sed -e "s/^model_name.*/init: random/" run.yaml >random.yaml &&
    printf "config_name: model\ntokenizer_name_or_path: model\n" >>random.yaml &&
    for n in 1 2; do
        burnish-train --set output_dir=r$n random.yaml || return 1
    done &&
    burnish-train --set output_dir=r3 --set seed=7 --set data_seed=42 \
        random.yaml &&
    cmp r1/model/model.safetensors r2/model/model.safetensors &&
    $features differ r1 r3
'
test_expect_success 'evaluation by steps, at the start, by epoch, at the end' '
    sed "s/\"completion\": \"/&An /" sft.jsonl >eval.jsonl &&
    ! cmp sft.jsonl eval.jsonl && echo "{\"prompt\": \"a\", \"completion\": \"b\"}" \
        >>eval.jsonl &&
    train e1 --set eval_file=eval.jsonl --set eval_strategy=steps \
        --set eval_steps=3 --set max_steps=8 --set eval_on_start=true &&
    $features evaluations e1 0 3 6 8 &&
    train e2 --set eval_file=eval.jsonl --set eval_strategy=epoch \
        --set max_steps=14 && $features evaluations e2 6 12 14
'
test_expect_success 'evaluation does not change the run' '
    train e3 --set max_steps=14 &&
    cmp e2/model/model.safetensors e3/model/model.safetensors
'
test_expect_success 'ORPO: the keys of TRL' '
    orpo keys --set eval_split=0.25 --set eval_strategy=steps \
        --set eval_steps=2 && $features orpo_keys keys
'
test_expect_success 'eval_split: the share is held out, the rest trained on' '
    train split --set eval_split=0.22 --set eval_strategy=epoch \
        --set max_steps=-1 --set num_train_epochs=1 &&
    grep "\"kind\":\"end\"" split/metrics.jsonl | grep "\"num_examples\":18[,}]" &&
    burnish-train --eval-only --set eval_split=0.22 run.yaml >out &&
    grep "\"eval_examples\":6," out
'
test_expect_success 'bfloat16 is near float32' '
    train f32 --set max_steps=12 && train bf16 --set max_steps=12 \
        --set dtype=bfloat16 && test_must_fail $features equal bf16 f32 1e-5 &&
    python3 - <<-EOT &&
	import json
	def losses(out):
	    return [json.loads(x).get("loss") for x in open(out + "/metrics.jsonl")]
	for a, b in zip(losses("f32"), losses("bf16")):
	    assert a is b is None or abs(a - b) < 0.02 * a, (a, b)
	EOT
    orpo obf16 --set dtype=bfloat16 --set learning_rate=1e-3
'
test_expect_success 'two threads are one, to rounding' '
    train t2 --set max_steps=12 --set num_threads=2 &&
    $features equal t2 f32 2e-5
'
test_expect_success 'accumulation: the batch is what counts' '
    train b8 --set per_device_train_batch_size=8 --set max_steps=9 &&
    train b4 --set per_device_train_batch_size=4 --set max_steps=9 \
        --set gradient_accumulation_steps=2 &&
    train b1 --set per_device_train_batch_size=1 --set max_steps=9 \
        --set gradient_accumulation_steps=8 &&
    $features equal b4 b8 2e-5 && $features equal b1 b8 2e-5
'
test_expect_success 'recomputed activations are the same' '
    for how in attention full; do
        train re-$how --set max_steps=12 --set activation_recompute=$how &&
        $features equal re-$how f32 2e-5 || return 1
    done
'
test_expect_success 'loss_reduction: the mean of means, or of the whole' '
    orpo m1 --set per_device_train_batch_size=2 --set learning_rate=1e-12 \
        --set shuffle=false --set max_steps=12 &&
    for how in trl exact; do
        orpo m-$how --set per_device_train_batch_size=2 \
            --set gradient_accumulation_steps=3 --set learning_rate=1e-12 \
            --set shuffle=false --set max_steps=4 \
            --set loss_reduction=$how &&
        $features micro_means m1 m-$how 3 $how || return 1
    done
'
test_expect_success 'logging_steps: means since the last record' '
    train l1 --set max_steps=10 && train l4 --set max_steps=10 \
        --set logging_steps=4 && $features averages l1 l4 4
'
test_expect_success 'the learning rate 0 of a warm-up changes nothing' '
    train w0 --set max_steps=1 --set warmup_steps=1 &&
    python3 - "$BN_SRCDIR/t" <<-EOT
	import sys
	sys.path.insert(0, sys.argv[1])
	import tiny
	a, b = (dict((t[0], t[1:]) for t in tiny.read_tensors(x + "/model.safetensors"))
	        for x in ("model", "w0/model"))
	assert a == b
	EOT
'
test_expect_success 'TensorBoard files hold what metrics.jsonl holds' '
    train tb --set report_to=tensorboard --set eval_split=0.25 \
        --set eval_strategy=steps --set eval_steps=2 --set eval_on_start=true &&
    python3 "$BN_SRCDIR/t/tb-read.py" $(find tb -name "events*") >listing &&
    $features tensorboard tb listing
'
test_expect_success '--check leaves nothing, and says what it would do' '
    mkdir checked && cp -R model sft.jsonl run.yaml checked/ &&
    (cd checked && sed -i "/^token_cache_dir/d" run.yaml &&
     find . | sort >../before &&
     burnish-train --check run.yaml >../out 2>../err &&
     find . | sort >../after) &&
    test_cmp before after && test_must_be_empty out &&
    grep "^model: llama, 2 layers, hidden 64, vocabulary 97" err &&
    grep "^steps: 4 of 4 examples in all, 6 an epoch" err &&
    grep "^memory: " err
'
test_expect_success '--print-config: what somebody set is a run file of the same run' '
    burnish-train --print-config --set beta=0.2 --set output_dir=p0 \
        orpo.yaml >all.yaml && test "$(wc -l <all.yaml)" -gt 90 &&
    grep "^learning_rate: 0.001 .*# orpo.yaml:7" all.yaml &&
    grep -v -e "# default" -e "^columns:" all.yaml >printed.yaml &&
    grep "^beta: 0.2 .*# --set" printed.yaml && test ! -e p0 &&
    orpo p1 --set beta=0.2 && burnish-train --set output_dir=p2 \
        --set save_strategy=no printed.yaml &&
    $features equal p1 p2 && cmp p1/model/model.safetensors \
        p2/model/model.safetensors
'
test_expect_success 'NaN: class 71, batch and rows, what was saved stays whole' '
    test_expect_code 71 burnish-train --set learning_rate=10 \
        --set weight_decay=10 --set max_grad_norm=0 --set max_steps=200 \
        --set save_steps=1 --set output_dir=nan run.yaml 2>err &&
    tail -n 1 err &&
    step=$(sed -n "s/^error: step \([0-9]*\), micro-batch 1 (sft.jsonl:[0-9]*, .*/\1/p" err) &&
    test "$step" -gt 1 && test -d nan/checkpoint-$((step - 1)) &&
    test_must_fail test -e nan/checkpoint-$step &&
    test_must_fail test -e nan/model && test "$(cat nan/exit-class)" = 71 &&
    ls nan | test_must_fail grep tmp
'
test_expect_success 'rows longer than the model was made for: a warning' '
    cp -R model short && for n in 48 49; do
        sed -i "s/\"max_position_embeddings\": [0-9]*/\"max_position_embeddings\": $n/" \
            short/config.json &&
        burnish-train --check --set output_dir=c \
            --set model_name_or_path=short run.yaml 2>err.$n || return 1
    done &&
    grep "^warn: rows have up to 49 tokens, and the model.s max_position_embeddings is 48: lower max_length" err.48 &&
    test_must_fail grep "^warn" err.49 &&
    sed -i "s/\"max_position_embeddings\": 49/\"max_position_embeddings\": 16/
        s/\"rope_scaling\": null/\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}/" \
        short/config.json && grep dynamic short/config.json &&
    burnish-train --check --set output_dir=c --set model_name_or_path=short \
        run.yaml 2>err &&
    test_must_fail grep "^warn" err
'
test_expect_success 'a perplexity beyond all numbers leaves JSON behind' '
    train lost --set learning_rate=10 --set max_grad_norm=0 \
        --set max_steps=2 &&
    burnish-train --eval-only --set model_name_or_path=lost/model \
        --set eval_file=sft.jsonl run.yaml >lost.json &&
    python3 - <<-EOT
	import json
	def no(word):
	    raise ValueError(word)
	o = json.loads(open("lost.json").read(), parse_constant=no)
	assert o["eval_nll_loss"] > 710 and o["eval_examples"] == 24, o
	assert o["nonfinite"] == ["eval_perplexity"], o
	EOT
'
test_expect_success 'NaN: the reason and all rows are told however many there are' '
    test_expect_code 71 burnish-train --set learning_rate=10 \
        --set weight_decay=10 --set max_grad_norm=0 --set max_steps=200 \
        --set per_device_train_batch_size=24 --set save_strategy=no \
        --set output_dir=rows run.yaml 2>err && tail -n 1 err >last &&
    grep "^error: step [0-9]*, micro-batch 1 (sft.jsonl:[0-9]*, .* and [0-9]* more, above): .* is -\{0,1\}\(nan\|inf\)$" last &&
    what=$(sed "s/^error: \(.*\) (.*/\1/" last) &&
    sed -n "s/^rows of $what: //p" err | tr -s ", " "\n" | sort -u >told &&
    test $(wc -l <told) -eq 24
'
test_done

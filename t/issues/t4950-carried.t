#!/bin/sh
test_description='what goes with the final model is read when the run begins'
. "${BN_SRCDIR:-$(dirname "$0")/../..}/t/tlib.sh"
bn_require_runs
python3 "$BN_SRCDIR/t/tiny.py" .
printf '{"max_new_tokens": 5}\n' >model/generation_config.json
printf '{{ messages[0].content }}' >model/chat_template.jinja
printf '{"eos_token": "</s>"}' >model/special_tokens_map.json
printf 'pieces' >model/tokenizer.model
cp -R model was

# without OUT ARG...: the model's folder is replaced while the run is in its
# steps, and comes back after it
without() {
    without_out=$1
    shift
    burnish-train --set output_dir="$without_out" --set max_steps=600 \
        --set save_strategy=no "$@" run.yaml & pid=$!
    n=0
    until grep -s -q "\"phase\":\"step\"" "$without_out/phase.0"; do
        sleep 0.01
        n=$((n + 1))
        test $n -lt 1000 || break
    done
    mv model away && mkdir model && echo "{}" >model/tokenizer.json
    grep -q "\"phase\":\"step\"" "$without_out/phase.0"
    in_time=$?
    wait $pid
    rc=$?
    rm -R model && mv away model
    test $rc -eq 0 && test $in_time -eq 0
}

test_expect_success 'a folder that is another by the end: files of the beginning' '
    without out &&
    for f in tokenizer.json tokenizer_config.json tokenizer.model \
        special_tokens_map.json chat_template.jinja generation_config.json; do
        cmp was/$f out/model/$f || return 1
    done &&
    grep "\"rms_norm_eps\"" out/model/config.json
'
test_expect_success 'an adapter, too: the tokenizer without the configs' '
    without lora --set lora_r=2 &&
    cmp was/tokenizer.json lora/adapter/tokenizer.json &&
    cmp was/chat_template.jinja lora/adapter/chat_template.jinja &&
    test ! -e lora/adapter/generation_config.json
'
test_expect_success 'a file that cannot be read is known before the first step' '
    cp -R was odd && rm odd/generation_config.json &&
    mkdir odd/generation_config.json &&
    for how in --check --set=seed=1; do
        test_expect_code 65 burnish-train $how --set output_dir=none \
            --set model_name_or_path=odd run.yaml 2>err &&
        grep "^error: .odd/generation_config.json. is not a regular file$" err &&
        ! grep "^train" err || return 1
    done &&
    burnish-train --eval-only --set eval_file=sft.jsonl \
        --set model_name_or_path=odd run.yaml
'
test_done

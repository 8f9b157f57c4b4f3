#!/bin/sh
test_description='a run that was stopped ends with the bytes of one that was not'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require TRAIN "burnish-train was not built" burnish-train --version
bn_require PYTHON "no python3" python3 -c ""

BURNISH_CACHE=$PWD/cache
PYTHONDONTWRITEBYTECODE=1
export BURNISH_CACHE PYTHONDONTWRITEBYTECODE
resume="python3 $BN_SRCDIR/t/resume.py"
python3 "$BN_SRCDIR/t/tiny.py" .

# Records, evaluations and checkpoints fall on different steps, so that a
# stop finds the loop in many states.
cat >>run.yaml <<EOT
eval_file: eval.jsonl
eval_strategy: steps
eval_steps: 4
save_steps: 3
save_total_limit: 2
gradient_accumulation_steps: 2
lr_scheduler_type: cosine
warmup_ratio: 0.1
EOT
sed -i -e 's/^max_steps.*/max_steps: 30/' -e '/^logging_steps/d' run.yaml
echo 'logging_steps: 5' >>run.yaml
sed -e 's/^task.*/task: orpo/' -e 's/sft.jsonl/pairs.jsonl/' \
    -e 's/^eval_file.*/eval_file: eval-pairs.jsonl/' run.yaml >orpo.yaml
python3 - "$BN_SRCDIR/t" <<EOT
import sys
sys.path.insert(0, sys.argv[1])
import tiny
tiny.jsonl("eval.jsonl", tiny.sft_rows(80)[60:])
tiny.jsonl("eval-pairs.jsonl", tiny.pair_rows(80)[60:])
tiny.jsonl("eval-long.jsonl", tiny.sft_rows(3000)[60:])
EOT

# whole FILE NAME ARG...: the run that nobody stops
whole() {
    whole_file=$1 whole_out=$2
    shift 2
    burnish-train --set output_dir="$whole_out" "$@" "$whole_file"
}

# stopped SIGNAL FILE NAME ARG...: the same, stopped after 2, 4, 5, 7, 9 and
# 11 of its records. At least three of these must have hit.
stopped() {
    sig=$1 file=$2 out=$3 hits=0
    shift 3
    for n in 2 4 5 7 9 11; do
        $resume stop "$sig" records:$n "$out" --set output_dir="$out" "$@" \
            "$file"
        rc=$?
        case $sig/$rc in
        */0) ;;
        KILL/137) hits=$((hits + 1)) ;;
        TERM/75 | USR1/75)
            hits=$((hits + 1)) &&
            test "$(cat "$out/exit-class")" = 75 || return 1 ;;
        *) echo "status $rc"; return 1 ;;
        esac
    done
    echo "stopped $hits times" && test $hits -ge 3 &&
    burnish-train --set output_dir="$out" "$@" "$file"
}

for kind in sft orpo; do
    for dtype in float32 bfloat16; do
        file=run.yaml
        test $kind = sft || file=orpo.yaml
        name=$kind-$dtype
        test_expect_success "$name: never stopped" '
            whole $file $name --set dtype=$dtype &&
            test -f $name/model/model.safetensors
        '
        for sig in TERM KILL; do
            test_expect_success "$name: SIG$sig, again and again" '
                stopped $sig $file $name-$sig --set dtype=$dtype &&
                $resume same $name $name-$sig
            '
        done
    done
done
test_expect_success 'SIGUSR1, two threads, averages over seven steps' '
    set -- --set num_threads=2 --set logging_steps=7 --set eval_steps=3 &&
    whole run.yaml usr1-whole "$@" &&
    stopped USR1 run.yaml usr1 "$@" && $resume same usr1-whole usr1
'

test_expect_success 'a signal in evaluation: made up for after it' '
    set -- --set eval_file=eval-long.jsonl --set eval_steps=9 \
        --set eval_on_start=true --set per_device_eval_batch_size=1 &&
    whole run.yaml long "$@" &&
    for n in 1 2 3; do
        test_expect_code 75 $resume stop TERM records:$n eval \
            --set output_dir=eval "$@" run.yaml &&
        test_expect_code 75 $resume stop TERM phase:eval eval \
            --set output_dir=eval "$@" run.yaml || return 1
    done &&
    burnish-train --set output_dir=eval "$@" run.yaml &&
    $resume same long eval
'
test_expect_success 'SIGKILL in evaluation, too' '
    for n in 1 2; do
        test_expect_code 137 $resume stop KILL phase:eval evalk \
            --set output_dir=evalk --set eval_file=eval-long.jsonl \
            --set eval_steps=9 --set eval_on_start=true \
            --set per_device_eval_batch_size=1 run.yaml || return 1
    done &&
    burnish-train --set output_dir=evalk --set eval_file=eval-long.jsonl \
        --set eval_steps=9 --set eval_on_start=true \
        --set per_device_eval_batch_size=1 run.yaml &&
    $resume same long evalk
'
test_expect_success 'a signal in the evaluation at the end, the only one' '
    set -- --set eval_file=eval-long.jsonl --set eval_steps=9 \
        --set max_steps=2 --set per_device_eval_batch_size=1 &&
    whole run.yaml last "$@" &&
    for n in 1 2; do
        test_expect_code 75 $resume stop TERM phase:eval end \
            --set output_dir=end "$@" run.yaml || return 1
    done &&
    burnish-train --set output_dir=end "$@" run.yaml &&
    $resume same last end
'
test_expect_success 'SIGKILL while a checkpoint or the model is written' '
    for what in tmp.checkpoint-3 tmp.checkpoint-12/state\* tmp.checkpoint-21 \
        tmp.checkpoint-30/manifest\* tmp.model\*; do
        $resume stop KILL "file:$what" saving --set output_dir=saving \
            run.yaml || : "137 if it was hit, 0 if that was too fast"
    done &&
    burnish-train --set output_dir=saving run.yaml &&
    $resume same sft-float32 saving
'
test_expect_success 'what a killed run left half done is removed, the rest not' '
    cp -R saving dirty && rm -R dirty/checkpoint-30 dirty/model &&
    mkdir dirty/tmp.checkpoint-7 dirty/tmp.gone-2 dirty/tmp.model.tmp.12 \
        dirty/mine dirty/checkpoint-27.old dirty/checkpoint-x.old &&
    burnish-train --set output_dir=dirty run.yaml 2>err &&
    grep "removing .dirty/tmp.checkpoint-7., which an interrupted" err &&
    ls dirty >left &&
    printf "%s\n" checkpoint-27 checkpoint-30 checkpoint-x.old metrics.jsonl \
        mine model phase.0 >want &&
    test_cmp want left
'
test_expect_success 'a run that is done is done' '
    cp -R sft-float32 done && burnish-train --set output_dir=done run.yaml &&
    $resume same sft-float32 done
'
test_expect_success 'the newest checkpoint torn: an older one, and a warning' '
    for tear in cut flip; do
        rm -rf torn && cp -R sft-float32 torn &&
        state=torn/checkpoint-30/state-pp0-tp0-dp0.bin &&
        if test $tear = cut; then
            truncate -s 1000 $state && why="has 1000 bytes"
        else
            printf x | dd of=$state bs=1 seek=5000 conv=notrunc 2>/dev/null &&
            why="checksum differs"
        fi &&
        burnish-train --set output_dir=torn run.yaml 2>err &&
        grep "^warn: checkpoint .torn/checkpoint-30. cannot be used.*$why" \
            err &&
        grep "^resumed from .torn/checkpoint-27. after step 27" err &&
        $resume same sft-float32 torn || return 1
    done
'
test_expect_success 'a checkpoint without manifest is none' '
    rm -rf torn && cp -R sft-float32 torn &&
    rm torn/checkpoint-30/manifest.json &&
    burnish-train --set output_dir=torn run.yaml 2>err &&
    grep "^resumed from .torn/checkpoint-27. after step 27" err &&
    $resume same sft-float32 torn
'
test_expect_success 'resume: a named checkpoint' '
    cp -R sft-float32 named &&
    burnish-train --set output_dir=named --set resume=named/checkpoint-27 \
        run.yaml 2>err &&
    grep "^resumed from .named/checkpoint-27. after step 27" err &&
    $resume same sft-float32 named
'
test_expect_success 'resume: never refuses what is not new' '
    test_expect_code 64 burnish-train --set output_dir=done \
        --set resume=never run.yaml &&
    burnish-train --set output_dir=fresh --set resume=never run.yaml &&
    $resume same sft-float32 fresh
'
test_expect_success 'save_total_limit: the newest stay' '
    ls sft-float32 >left &&
    printf "%s\n" checkpoint-27 checkpoint-30 metrics.jsonl model phase.0 \
        >want && test_cmp want left
'
test_expect_success 'save_on_signal false: nothing is saved, class 75' '
    test_expect_code 75 $resume stop TERM phase:step nosave \
        --set output_dir=nosave --set save_on_signal=false \
        --set save_steps=100000 --set max_steps=100000 run.yaml &&
    ls nosave | test_must_fail grep checkpoint &&
    test "$(cat nosave/exit-class)" = 75
'
test_expect_success 'phase and exit-class files' '
    grep "^{\"rank\":0,\"size\":1,\"phase\":\"failed\",.*\"class\":75,\"error\":\"stopped by signal 15 after step [0-9]*\"}$" \
        nosave/phase.0 &&
    grep "^{\"rank\":0,\"size\":1,\"phase\":\"done\",\"step\":30,\"time\":[0-9.]*,\"pid\":[0-9]*,\"launch\":\"alone/[0-9]*\"}$" \
        fresh/phase.0 &&
    test_must_fail test -e fresh/exit-class &&
    echo 75 >fresh/exit-class && burnish-train --set output_dir=fresh run.yaml &&
    test_must_fail test -e fresh/exit-class
'

# 24 rows learnt by heart: evaluation gets worse after step 18.
best="--set learning_rate=0.005 --set lr_scheduler_type=constant --set warmup_ratio=0 \
    --set eval_steps=2 --set save_steps=2 --set logging_steps=2"
# the step of the lowest eval_loss in DIR
best_step() {
    python3 - "$1/metrics.jsonl" <<-EOT
	import json, sys
	e = [r for r in map(json.loads, open(sys.argv[1])) if r["kind"] == "eval"]
	print(min(e, key=lambda r: r["eval_loss"])["step"])
	EOT
}
test_expect_success 'load_best_model_at_end: the model of the best step' '
    whole run.yaml best $best --set load_best_model_at_end=true \
        --set save_total_limit=1 &&
    step=$(best_step best) && echo "best: $step" && test "$step" -lt 30 &&
    ls best >left &&
    printf "%s\n" checkpoint-$step checkpoint-30 metrics.jsonl model phase.0 |
        sort >want && sort left | test_cmp want - &&
    whole run.yaml short $best --set max_steps=$step &&
    cmp best/model/model.safetensors short/model/model.safetensors
'
test_expect_success 'the best one survives stops, too' '
    stopped KILL run.yaml best-KILL $best --set load_best_model_at_end=true \
        --set save_total_limit=1 &&
    $resume same best best-KILL
'
test_expect_success 'early stopping: after so many without a better one' '
    whole run.yaml early $best --set early_stopping_patience=3 2>err &&
    step=$(best_step early) && end=$((step + 6)) &&
    grep "^step $end: loss has not improved for 3 evaluations: stopping" err &&
    tail -n 1 early/metrics.jsonl | grep "\"step\":$end,.*\"kind\":\"end\"" &&
    test -d early/checkpoint-$end && test -f early/model/config.json
'
test_expect_success 'a run that stopped early does not train on' '
    cp -R early early2 &&
    burnish-train $best --set output_dir=early2 \
        --set early_stopping_patience=3 run.yaml &&
    $resume same early early2
'
test_expect_success 'early stopping and a stop by signal' '
    stopped TERM run.yaml early-TERM $best --set early_stopping_patience=3 &&
    $resume same early early-TERM
'
test_done

#!/bin/sh
test_description='a run goes on from a checkpoint: same layout same bits, other layouts alike'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/ranks/lib.sh"
bn_small_runs

for t in sft orpo; do
    bn_saving $t $t-save
done

same() {
    bn_same "$1" "$2" model/model.safetensors
}
test_expect_success 'runs that nobody interrupts' '
    bn_train 1 one sft-save && bn_train 4 four sft-save $tp=2 $batch=2 &&
    bn_train 4 pair orpo-save $pp=2 $cp=2 &&
    ls one | grep checkpoint- | sort >got &&
    printf "checkpoint-%s\n" 10 4 8 >want && test_cmp want got &&
    ls four/checkpoint-4 | sort >got &&
    printf "%s\n" config.json manifest.json state-pp0-tp0-dp0.bin \
        state-pp0-tp0-dp1.bin state-pp0-tp1-dp0.bin \
        state-pp0-tp1-dp1.bin >want && test_cmp want got
'
for step in 4 8; do
    test_expect_success "at the same layout, from step $step: the same bits" '
        bn_from one $step one-r && bn_train 1 one-r sft-save &&
        grep "resumed from .one-r/checkpoint-$step. after step $step" \
            one-r.err &&
        same one one-r && $compare --bits one one-r &&
        bn_from four $step four-r && bn_train 4 four-r sft-save $tp=2 $batch=2 &&
        same four four-r && $compare --bits four four-r &&
        bn_from pair $step pair-r && bn_train 4 pair-r orpo-save $pp=2 $cp=2 &&
        same pair pair-r && $compare --bits pair pair-r
    '
done
while read -r run step task n sets; do
    test_expect_success "$run at $step goes on alike: $n ranks, $sets" '
        bn_from $run $step other && bn_train $n other $task-save $sets &&
        grep "after step $step" other.err && $compare $run other
    '
done <<EOT
one 4 sft 2 $batch=2
one 4 sft 8 $tp=2 $pp=2 $batch=2
four 4 sft 1
four 8 sft 4 $tp=4
four 4 sft 2 $pp=2
pair 4 orpo 1
pair 4 orpo 4 $tp=2 $batch=2
pair 8 orpo 8 $batch=1 $accum=1
EOT

# refuses NAME TEXT: step 8 is bad, is named with TEXT, and 4 is used
refuses() {
    bn_train 2 bad sft-save $batch=2 &&
    grep "warn: checkpoint .bad/checkpoint-8. cannot be used.*$1" bad.err &&
    grep "after step 4" bad.err && $compare one bad
}
both() {
    bn_from one 4 bad && cp -r one/checkpoint-8 bad/
}
f=bad/checkpoint-8/state-pp0-tp0-dp0.bin
test_expect_success 'a shard with one bit flipped is refused by name' '
    both && python3 -c "
import sys
f = open(sys.argv[1], \"r+b\"); f.seek(77777); b = f.read(1)[0]
f.seek(77777); f.write(bytes([b ^ 4]))" $f &&
    refuses "state-pp0-tp0-dp0.bin. is not what was written"
'
test_expect_success 'a shard that was cut is refused by name' '
    both && truncate -s -4 $f && refuses "state-pp0-tp0-dp0.bin. has [0-9]* bytes"
'
test_expect_success 'a shard that is missing is refused by name' '
    both && rm $f && refuses "state-pp0-tp0-dp0.bin"
'
test_expect_success 'a shard of another step is refused by name' '
    both && cp one/checkpoint-4/state-* bad/checkpoint-8/ &&
    refuses "state-pp0-tp0-dp0.bin. is not what was written"
'
test_expect_success 'a manifest that is half there is refused' '
    both && truncate -s 300 bad/checkpoint-8/manifest.json &&
    refuses "manifest.json"
'
test_expect_success 'another run is not gone on with' '
    bn_from one 4 bad &&
    test_must_fail bn_train 1 bad sft-save learning_rate=1e-3 &&
    grep "learning_rate" bad.err &&
    test_must_fail bn_train 1 bad sft-save $batch=2 &&
    grep "global batch" bad.err &&
    test_must_fail bn_train 1 bad sft-save config_name=qwen2 2>&1 &&
    test_must_fail bn_train 1 bad sft-save resume=never &&
    grep "resume is never" bad.err
'
test_expect_success 'only as many checkpoints as asked for stay' '
    bn_train 2 few sft-save save_steps=2 save_total_limit=2 $batch=2 &&
    ls few | grep checkpoint- | sort >got &&
    printf "checkpoint-%s\n" 10 8 >want && test_cmp want got &&
    ! ls few | grep tmp
'
test_expect_success 'a signal to one rank: all save and end with 75, then go on' '
    cat >slow.sh <<-\EOF &&
	BN_RANKS_LIMIT=60
	bn_train 2 sig sft-save $batch=2 save_steps=100 &
	EOF
    rm -rf sig && mkdir sig && . ./slow.sh &&
    for i in $(seq 400); do
        grep -q "\"step\":[2-9]" sig/phase.1 2>/dev/null && break
        sleep 0.01
    done &&
    kill -TERM $(sed "s/.*\"pid\":\([0-9]*\).*/\1/" sig/phase.1) &&
    { wait $!; test $? -eq 75; } &&
    test "$(cat sig/exit-class)" = 75 &&
    grep "is saved, [0-9.]* s after the signal" sig.err &&
    bn_train 2 sig sft-save $batch=2 &&
    grep "resumed from" sig.err &&
    bn_train 2 two sft-save $batch=2 &&
    same two sig && $compare --bits two sig
'
test_done

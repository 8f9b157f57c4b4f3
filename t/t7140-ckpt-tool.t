#!/bin/sh
test_description='burnish ckpt: list, verify, export from any layout'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/ranks/lib.sh"
bn_small_runs
sed 's/^max_steps.*/max_steps: 4/; s/^save_strategy.*/save_strategy: steps/; s/^eval_steps.*/eval_steps: 9/' \
    orpo.yaml >run.yaml
echo 'save_steps: 2' >>run.yaml

test_expect_success 'a run on eight ranks' '
    bn_train 8 run run tensor_parallel_size=2 pipeline_parallel_size=2 \
        per_device_train_batch_size=2
'
test_expect_success 'it needs no device, MPI or BLAS' '
    ldd "$(command -v burnish)" >libs && ! grep -iE "mpi|pmix|blas|dnn|cu(da|blas)" libs
'
test_expect_success 'ls' '
    burnish ckpt ls run >out && test $(wc -l <out) -eq 3 &&
    grep "^2 .* 8 .* 2 x 2 x 2" out && grep "^4 .* 8 .* 2 x 2 x 2" out
'
test_expect_success 'verify' '
    burnish ckpt verify run >out &&
    printf "run/checkpoint-%s: step %s, 8 shards, whole\n" 2 2 4 4 >want &&
    test_cmp want out
'
test_expect_success 'export: the bytes that the run wrote' '
    burnish ckpt export run/checkpoint-4 folder &&
    for f in config.json model.safetensors tokenizer.json; do
        cmp folder/$f run/model/$f || return 1
    done
'
test_expect_success 'export in another format' '
    burnish ckpt export --dtype bfloat16 run/checkpoint-2 half &&
    grep "bfloat16" half/config.json &&
    test $(stat -c %s half/model.safetensors) -lt \
        $(($(stat -c %s folder/model.safetensors) * 6 / 10))
'
test_expect_success 'what is there already is left alone' '
    test_expect_code 65 burnish ckpt export run/checkpoint-2 half 2>err &&
    grep "half. is there already" err
'
f=bad/checkpoint-4/state-pp1-tp0-dp1.bin
test_expect_success 'a bad shard is named by all three' '
    cp -r run bad && printf x | dd of=$f bs=1 seek=5000 conv=notrunc &&
    test_expect_code 65 burnish ckpt verify bad >out 2>err &&
    grep "state-pp1-tp0-dp1.bin. is not what was written" err &&
    grep "checkpoint-2: step 2" out &&
    test_expect_code 65 burnish ckpt export bad/checkpoint-4 no &&
    ! test -e no && truncate -s 100 $f &&
    test_expect_code 65 burnish ckpt ls bad >out 2>err &&
    grep "state-pp1-tp0-dp1.bin. has 100 bytes" err && grep "^2 " out
'
test_expect_success 'a manifest cannot name a file elsewhere' '
    cp run/checkpoint-4/manifest.json m && rm -r bad && cp -r run bad &&
    sed "s|state-pp1-tp0-dp1.bin|../../../etc/passwd|" m \
        >bad/checkpoint-4/manifest.json &&
    test_expect_code 65 burnish ckpt verify bad/checkpoint-4 2>err &&
    grep "a shard.s entry is not valid" err
'
test_expect_success 'shards that together lack something are refused' '
    python3 -c "
import json
p = \"bad/checkpoint-4/manifest.json\"
m = json.load(open(\"m\")); del m[\"shards\"][3]
json.dump(m, open(p, \"w\"))" &&
    test_expect_code 65 burnish ckpt export bad/checkpoint-4 no 2>err &&
    grep "does not hold all of" err && ! test -e no
'
test_expect_success 'wrong arguments' '
    test_expect_code 65 burnish ckpt ls nowhere &&
    test_expect_code 64 burnish ckpt export run/checkpoint-4 &&
    test_expect_code 64 burnish ckpt export --dtype int4 run/checkpoint-4 x &&
    test_expect_code 64 burnish ckpt && burnish ckpt --help | grep verify
'
test_done

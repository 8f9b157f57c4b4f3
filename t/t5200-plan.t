#!/bin/sh
test_description='burnish plan: its bytes are those that ranks allocate'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/ranks/lib.sh"
bn_small_runs
dp=data_parallel_size

# planned N RUN SETS...: the arena of every rank is the planned one
planned() {
    n=$1 run=$2
    shift 2
    plan_sets=
    for s in "$@"; do
        plan_sets="$plan_sets --set $s"
    done
    rm -rf out && burnish plan --json --ranks $n --set output_dir=out \
        $plan_sets $run.yaml >plan.json &&
    BURNISH_LOG=debug bn_ranks $n burnish-train --check --set output_dir=out \
        $plan_sets $run.yaml 2>check.err &&
    python3 - $n "$@" <<-\EOF
	import json, re, sys
	n, sets = int(sys.argv[1]), dict(a.split("=") for a in sys.argv[2:])
	tp = int(sets.get("tensor_parallel_size", 1))
	pp = int(sets.get("pipeline_parallel_size", 1))
	plan = {(p["pp"], p["tp"]): (p["state"], p["activations"])
	        for p in map(json.loads, open("plan.json"))}
	got = {}
	for line in open("check.err"):
	    m = re.search(r"(?:rank (\d+)/\d+: )?debug: arena: (\d+) bytes of state, (\d+) of", line)
	    if m:
	        r = int(m[1] or 0)
	        got[r] = (int(m[2]), int(m[3]))
	assert len(got) == n and len(plan) == tp * pp, (got, plan)
	for r, bytes in got.items():
	    at = (r // (n // pp), r % tp)
	    assert plan[at] == bytes, (r, at, plan[at], bytes)
	EOF
}
while read -r n run sets; do
    test_expect_success "$n ranks, $run $sets" 'planned $n $run $sets'
done <<EOT
1 sft
1 orpo dtype=bfloat16 activation_recompute=full
2 orpo per_device_train_batch_size=2
2 sft per_device_train_batch_size=2 zero_stage=2
4 orpo $tp=2 per_device_train_batch_size=2 zero_stage=2 dtype=bfloat16
4 sft $tp=4
4 sft $tp=2 per_device_train_batch_size=2 sequence_parallel=true
4 orpo $tp=4 sequence_parallel=true activation_recompute=full
4 orpo $pp=2 $cp=2
2 sft $pp=2 pipeline_layer_split=[2,6]
4 orpo $pp=2 $cp=2 zero_stage=2 overlap_grad_reduce=false
8 sft $tp=2 $pp=2 per_device_train_batch_size=2 dtype=bfloat16
8 orpo $tp=2 $cp=2 activation_recompute=attention
EOT
test_expect_success 'it needs no device, MPI or BLAS, and no data if told' '
    ldd "$(command -v burnish)" >libs && ! grep -iE "mpi|pmix|blas|dnn|cuda" libs &&
    BURNISH_CACHE=$PWD/none burnish plan --longest 512 --set train_file=absent \
        --set output_dir=o sft.yaml >out &&
    grep "^stage 0" out && ! test -e none
'
test_expect_success 'more tensor ranks take less a rank; stages keep less' '
    for t in 1 2 4; do
        burnish plan --json --set output_dir=o --set $tp=$t sft.yaml | head -n 1 |
            sed "s/.*\"weights\":\([0-9]*\).*/\1/"
    done >w && test "$(sort -rn w)" = "$(cat w)" && test "$(uniq w | wc -l)" = 3
'
test_expect_success 'sharded gradients take less, and are sent more often' '
    for z in 1 2; do
        burnish plan --json --ranks 4 --set output_dir=o --set zero_stage=$z \
            --set per_device_train_batch_size=1 sft.yaml | head -n 1 >z$z
    done &&
    python3 -c "
import json
a, b = (json.load(open(f)) for f in (\"z1\", \"z2\"))
assert b[\"gradients\"] < 0.7 * a[\"gradients\"], (a, b)
assert b[\"weights\"] == a[\"weights\"] and b[\"optimizer\"] == a[\"optimizer\"]
"
'
test_expect_success 'the layers of each stage are said, as counted or as told' '
    burnish plan --set output_dir=o --set $pp=2 sft.yaml >out &&
    grep "^stage 0, tensor rank 0: layers 0 to 3$" out &&
    sed "s/\"vocab_size\": 512/\"vocab_size\": 3000/" qwen3/config.json >big.json &&
    burnish plan --longest 99 --set output_dir=o --set $pp=2 \
        --set config_name=big.json sft.yaml >out &&
    grep "^stage 0, tensor rank 0: layers 0 to 5$" out &&
    burnish plan --set output_dir=o --set $pp=2 --set pipeline_layer_split=[2,6] \
        sft.yaml >out && grep "^stage 1, tensor rank 0: layers 2 to 7$" out &&
    burnish plan --set output_dir=o --set $pp=2 \
        --set pipeline_layer_split=measured sft.yaml >out &&
    grep "^layers by size here: the run measures them" out &&
    grep "^stage 0, tensor rank 0: layers 0 to 3$" out
'
test_expect_success 'layouts that fit are listed; none is an error' '
    burnish plan --ranks 8 --memory 1 --set output_dir=o sft.yaml >fits &&
    test $(wc -l <fits) -gt 10 &&
    burnish plan --longest 4000000 --ranks 2 --memory 1 --set output_dir=o \
        sft.yaml >fits 2>err; test $? -eq 64 &&
    grep "no layout of 2 ranks fits 1 GiB" err
'
test_expect_success 'the memory of a rank may be part of a GiB, and nothing negative' '
    test_expect_code 64 burnish plan --ranks 8 --memory 0.001 --set output_dir=o \
        sft.yaml 2>err >fits && grep "fits 0.001 GiB" err &&
    for o in "--memory -1" "--ranks -2" "--longest -5"; do
        test_expect_code 64 burnish plan $o --set output_dir=o sft.yaml 2>err ||
            return 1
        grep -e "${o% *} is out of range" err || return 1
    done
'
test_expect_success 'meshes that are none are refused' '
    test_expect_code 64 burnish plan --ranks 3 --set output_dir=o --set $tp=2 sft.yaml &&
    test_expect_code 64 burnish plan --set output_dir=o --set $tp=3 sft.yaml 2>err &&
    grep "cannot be split over 3 tensor ranks" err
'
test_done

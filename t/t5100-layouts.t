#!/bin/sh
test_description='every layout of 1, 2, 4 and 8 ranks trains alike'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/ranks/lib.sh"
bn_small_runs


# alike N NAME SETS...: both tasks on N ranks as on one
alike() {
    n=$1 name=$2
    shift 2
    for task in sft orpo; do
        bn_train $n $task-$name $task "$@" &&
        $compare $task-1 $task-$name 10 || return 1
    done
}

test_expect_success 'one rank' '
    for task in sft orpo; do
        bn_train 1 $task-1 $task || return 1
    done
'
while read -r n name sets; do
    test_expect_success "$n ranks: $name" 'alike $n $name $sets'
done <<EOT
2 dp2 $batch=2
2 tp2 $tp=2
2 pp2 $pp=2
2 cp2 $cp=2
2 dp2-zero2 $batch=2 zero_stage=2
2 cp2-zero2 $cp=2 zero_stage=2
4 dp4 $batch=1
4 tp4 $tp=4
4 pp4 $pp=4 $batch=1 $accum=8
4 cp4 $cp=4
4 pp2-cp2 $pp=2 $cp=2 $batch=2 $accum=4 activation_recompute=full
4 tp2-cp2 $tp=2 $cp=2 activation_recompute=attention
4 dp4-zero2 $batch=1 zero_stage=2
4 dp2-tp2-zero2 $tp=2 $batch=2 zero_stage=2
4 dp2-pp2-zero2 $pp=2 $batch=2 zero_stage=2
8 dp8 $batch=1 $accum=1
8 tp8 $tp=8
8 pp8 $pp=8 $batch=1 $accum=8
8 cp8 $cp=8
8 dp2-tp2-pp2 $tp=2 $pp=2 $batch=2
8 dp2-cp2-tp2 $cp=2 $tp=2 $batch=2
2 tp2-sequence $tp=2 sequence_parallel=true
4 tp4-sequence $tp=4 sequence_parallel=true activation_recompute=attention
4 tp2-cp2-sequence $tp=2 $cp=2 sequence_parallel=true activation_recompute=full
8 dp2-tp2-pp2-sequence $tp=2 $pp=2 $batch=2 sequence_parallel=true
EOT


# beside N NAME TASK SETS...: the same bits where gradients are summed a layer
# at a time beside the backward pass, and weights are given away beside the
# update, and where both are done after it
beside() {
    n=$1 name=$2 task=$3
    shift 3
    bn_train $n $name-on $task "$@" reduce_bucket_size=1 &&
    bn_train $n $name-off $task "$@" overlap_grad_reduce=false \
        overlap_param_gather=false &&
    $compare --bits $name-on $name-off 10 &&
    cmp $name-on/model/model.safetensors $name-off/model/model.safetensors &&
    $compare $task-1 $name-on 10
}
while read -r n name task sets; do
    test_expect_success "$n ranks: $task, $name, sums beside the backward pass" '
        beside $n $name $task $sets
    '
done <<EOT
2 dp2 orpo $batch=2
4 dp4 sft $batch=1
4 dp2-tp2 sft $batch=2 $tp=2
4 dp2-pp2 sft $batch=2 $pp=2
2 cp2 orpo $cp=2
2 dp2-zero2 sft $batch=2 zero_stage=2
4 dp2-pp2-zero2 sft $batch=2 $pp=2 zero_stage=2
EOT
test_expect_success 'a layout gives the same bits every time' '
    bn_train 8 again sft $tp=2 $pp=2 $batch=2 &&
    $compare --bits sft-dp2-tp2-pp2 again 10 &&
    cmp sft-dp2-tp2-pp2/model/model.safetensors again/model/model.safetensors
'
test_expect_success 'the mean of means of micro-batches does not depend on it' '
    bn_train 1 trl-1 orpo loss_reduction=trl $batch=2 $accum=4 &&
    bn_train 4 trl-4 orpo loss_reduction=trl $batch=2 $accum=2 $tp=2 &&
    $compare trl-1 trl-4 10
'
test_expect_success 'layers split by hand: as the even split; the report says what was even' '
    bn_train 3 split orpo $pp=3 "pipeline_layer_split=[5, 1, 3]" &&
    $compare orpo-1 split 10 &&
    grep "computed: stage 0 of 5 layers .* s, stage 1 of 1 layers .* s, stage 2 of 3 layers .* s; by that pipeline_layer_split: .[1-9], [1-9], [1-9].$" split.err &&
    test_must_fail bn_train 2 no sft $pp=2 "pipeline_layer_split=[3, 4]" &&
    grep "pipeline_layer_split: it is of 7 layers, and the model has 8" no.err &&
    test_must_fail bn_train 2 no sft $pp=2 "pipeline_layer_split=[8]" &&
    grep "pipeline_layer_split is of 1 stages, and pipeline_parallel_size is 2" no.err
'
test_expect_success 'layers split by measured times: as by hand, and the same at a later start' '
    measured="$pp=3 pipeline_layer_split=measured" &&
    bn_train 3 measured orpo $measured &&
    $compare orpo-1 measured 10 &&
    split=$(sed -n "s/.*: \(pipeline_layer_split\): \(.*\), as measured$/\1=\2/p" \
        measured.err) && test -n "$split" &&
    bn_train 3 by-hand orpo $pp=3 "$split" &&
    $compare --bits by-hand measured 10 &&
    cmp by-hand/model/model.safetensors measured/model/model.safetensors &&
    rm -r measured/model measured/metrics.jsonl &&
    bn_train 3 measured orpo $measured &&
    grep "pipeline_layer_split: .${split#*=?}, as measured before" measured.err &&
    $compare --bits by-hand measured 10 &&
    echo "[" >measured/stages.json &&
    test_must_fail bn_train 3 measured orpo $measured &&
    grep "error: .*measured splits (remove the file to measure anew): measured/stages.json:2:0: " \
        measured.err
'
test_expect_success 'layouts that a model or a run does not admit are refused' '
    test_expect_code 64 burnish-train --set output_dir=no --set $tp=2 sft.yaml &&
    test_must_fail bn_train 3 no sft $tp=3 &&
    grep "8 attention heads cannot be split over 3 tensor ranks" no.err &&
    test_must_fail bn_train 2 no sft $tp=2 $cp=2 &&
    grep "do not make the 2 ranks that were started" no.err &&
    test_must_fail bn_train 9 no sft $pp=9 &&
    grep "8 layers cannot be split over 9 pipeline stages" no.err
'
# one_other RANKS SETS: rank 1 is started with SETS, too; mpirun ends nobody
one_other() {
    rm -rf other && bn_ranks $1 --enable-recovery sh -c "
        test \$OMPI_COMM_WORLD_RANK = 1 && set -- $2
        exec burnish-train --set output_dir=other --set $batch=2 \
            \"\$@\" sft.yaml" 2>other.err
    test -f other/exit-class && ! test -d other/model
}
test_expect_success 'ranks that were started with other runs are refused' '
    one_other 2 "--set learning_rate=1e-3" &&
    grep "rank 1/2: error: .*: learning_rate is 0.002 on rank 0 and here 0.001$" other.err &&
    grep "rank 0/2: error: rank 1 failed" other.err &&
    test "$(cat other/exit-class)" = 64 &&
    one_other 2 "--set eval_steps=3" &&
    grep ": eval_steps is 5 on rank 0 and here 3$" other.err &&
    head -n 30 sft.jsonl >fewer.jsonl &&
    one_other 2 "--set train_file=fewer.jsonl" &&
    grep ": training data is [0-9a-f]* on rank 0 and here [0-9a-f]*$" other.err &&
    one_other 2 "--set $pp=2" &&
    grep "pipeline_parallel_size is from 1 to 2, and 1 on this one" other.err &&
    rm -rf other && bn_ranks 2 sh -c "
        exec burnish-train --set output_dir=other --set max_steps=3 --set $batch=2 \
            --set dataset_num_proc=\$((1 + OMPI_COMM_WORLD_RANK)) sft.yaml"
'
test_expect_success 'what fails on one rank ends all, with its class and its words' '
    one_other 3 "--set train_file=absent.jsonl" &&
    for r in 0 2; do
        grep "\"class\":65,\"error\":\".*rank 1 failed: cannot open .absent.jsonl" \
            other/phase.$r || return 1
    done &&
    test "$(cat other/exit-class)" = 65 && ! grep "PMIx" other.err
'

# The same program with a fault planted: the comparison must see it.
bn_trainer=$BN_BUILDDIR/src/train/test/mutant
test_expect_success 'without its fault the mutant trains alike' '
    bn_train 2 none sft $cp=2 && $compare sft-1 none
'
test_expect_success 'planted: targets lost as by a second split' '
    BN_MUTANT=lose bn_train 2 lose sft $cp=2 &&
    test_must_fail $compare sft-1 lose
'
test_expect_success 'planted: a second split is refused' '
    test_must_fail eval "BN_MUTANT=twice bn_train 2 twice sft $cp=2" &&
    grep "a batch is split a second time" twice.err
'
test_expect_success 'planted: a rank left out of the sum of gradients' '
    BN_MUTANT=sum bn_train 2 sum sft $batch=2 &&
    test_must_fail $compare sft-1 sum &&
    BN_MUTANT=sum bn_train 2 sum2 sft $batch=2 zero_stage=2 &&
    test_must_fail $compare sft-1 sum2
'
test_expect_success 'planted: gradients summed before they are made' '
    BN_MUTANT=early bn_train 2 early sft $batch=2 reduce_bucket_size=1 &&
    test_must_fail $compare sft-1 early
'
test_expect_success 'planted: weights that other ranks do not all get' '
    BN_MUTANT=stale bn_train 2 stale sft $batch=2 reduce_bucket_size=1 &&
    test_must_fail $compare sft-1 stale
'
test_expect_success 'planted: a row of the residual stream that no rank has' '
    BN_MUTANT=rows bn_train 2 rows sft $tp=2 sequence_parallel=true &&
    test_must_fail $compare sft-1 rows
'
test_expect_success 'planted: norms of rows that are not summed' '
    BN_MUTANT=norms bn_train 2 norms sft $tp=2 sequence_parallel=true \
        overlap_grad_reduce=false &&
    test_must_fail $compare sft-1 norms
'
test_expect_success 'planted: a head that is slow gets a stage for itself, if times are measured' '
    BN_MUTANT=slow bn_train 3 slow orpo $pp=3 pipeline_layer_split=measured &&
    grep "pipeline_layer_split: .4, 4, 1., as measured" slow.err
'
test_expect_success 'planted: denominators of one rank alone' '
    BN_MUTANT=denominator bn_train 2 denominator sft $batch=2 &&
    test_must_fail $compare sft-1 denominator
'
test_done

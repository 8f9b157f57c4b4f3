#!/bin/sh
test_description='a rank without a row in a step takes part in its sums of gradients'
. "${BN_SRCDIR:-$(dirname "$0")/../..}/t/tlib.sh"
. "$BN_SRCDIR/t/ranks/lib.sh"
bn_small_runs

# Of every second step there are 3 rows, for places of 8.
for task in sft orpo; do
    head -n 11 $task.jsonl >few && mv few $task.jsonl
done

test_expect_success 'one rank' '
    bn_train 1 sft-1 sft && bn_train 1 orpo-1 orpo
'
while read -r n name task sets; do
    test_expect_success "$n ranks: $task, $name" '
        bn_train $n $name $task reduce_bucket_size=1 $sets &&
        $compare $task-1 $name 10
    '
done <<EOT
2 one-of-two sft $batch=4 $accum=1
4 two-of-four orpo $batch=2 $accum=1
4 one-of-four sft $batch=2 $accum=1 overlap_grad_reduce=false
4 no-second-pass orpo $batch=1 $accum=2
4 two-of-four-zero2 sft $batch=2 $accum=1 zero_stage=2
4 tensor orpo $tp=2 $batch=4 $accum=1
4 pipeline sft $pp=2 $batch=4 $accum=1
4 context orpo $cp=2 $batch=4 $accum=1
EOT
test_done

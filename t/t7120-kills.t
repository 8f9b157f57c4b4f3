#!/bin/sh
test_description='ranks killed 30 times at random moments: the same bytes in the end'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/ranks/lib.sh"
bn_small_runs

# What Open MPI leaves of ranks that were killed goes with this test.
OMPI_MCA_btl_vader_backing_directory=$PWD/shm
OMPI_MCA_orte_tmpdir_base=$PWD/tmp
export OMPI_MCA_btl_vader_backing_directory OMPI_MCA_orte_tmpdir_base
mkdir -p shm tmp

sed 's/^max_steps.*/max_steps: 150/; s/^save_strategy.*/save_strategy: steps/; s/^eval_steps.*/eval_steps: 25/' \
    sft.yaml >kill.yaml
cat >>kill.yaml <<EOT
save_steps: 2
save_total_limit: 3
per_device_train_batch_size: 2
gradient_accumulation_steps: 1
EOT
sed -i '/^per_device_train_batch_size: 4/d; /^gradient_accumulation_steps: 2/d; s/max_length: 160/max_length: 110/' kill.yaml

test_expect_success 'the run that nobody kills' '
    bn_train 2 whole kill
'
test_expect_success '30 kills of one rank or all' '
    mkdir killed &&
    python3 "$BN_SRCDIR/t/ranks/kill.py" 7 30 4 killed \
        mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 \
        burnish-train --set output_dir=killed kill.yaml >killed.log 2>&1 &&
    grep "^30 kills" killed.log
'
test_expect_success 'the same checkpoint, model and records' '
    for f in state-pp0-tp0-dp0.bin state-pp0-tp0-dp1.bin manifest.json; do
        cmp whole/checkpoint-150/$f killed/checkpoint-150/$f || return 1
    done &&
    cmp whole/model/model.safetensors killed/model/model.safetensors &&
    $compare --bits whole killed 150
'
test_expect_success 'nothing half done is left' '
    ls killed | grep -v "^phase" | sort >got &&
    ls whole | grep -v "^phase" | sort >want && test_cmp want got &&
    burnish ckpt verify killed
'
test_done

#!/bin/sh
test_description='the bar of a run on a terminal: after an evaluation, in few columns'
. "${BN_SRCDIR:-$(dirname "$0")/../..}/t/tlib.sh"
bn_require_runs
TERM=xterm
export TERM
python3 "$BN_SRCDIR/t/tiny.py" .

# on COLUMNS OUT ARG...: the run's bars, each state a line, into 'bars'
on() {
    columns=$1 out=$2
    shift 2
    python3 "$BN_SRCDIR/t/terminal.py" "$columns" burnish-train \
        --set output_dir="$out" --set save_strategy=no "$@" run.yaml >sent &&
        sed -n 's/^ESC\[K\([a-z]* *[0-9]*%.*\)/\1/p' sent >bars
}

test_expect_success 'training is shown again after an evaluation' '
    on 100 evals --set eval_split=0.2 --set eval_strategy=steps \
        --set eval_steps=2 &&
    tail -n 1 bars | grep "^train 100% 4/4 \[####################\] 0:0[0-9]<0:00 loss"
'
test_expect_success 'few columns: no picture, but the time and the loss' '
    on 40 narrow && cat bars &&
    test_must_fail grep "\[" bars &&
    grep "^train 100% 4/4 0:0[0-9]<0:00 loss [0-9.]*" bars &&
    awk "length > 39 { exit 1 }" bars
'
test_expect_success 'a terminal that is dumb, or none: no escapes' '
    TERM=dumb on 80 dumb && test_must_fail grep ESC sent &&
    grep "^train 100% 4/4 0:0[0-9]<0:00 loss" sent &&
    burnish-train --set output_dir=none run.yaml 2>err &&
    test_must_fail grep "$(printf "\033")" err none/metrics.jsonl
'
test_done

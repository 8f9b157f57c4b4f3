#!/bin/sh
test_description='Ctrl-C in a terminal, or a terminal that goes: what is said, what is left, and that the run goes on'
. "${BN_SRCDIR:-$(dirname "$0")/../..}/t/tlib.sh"
bn_require_runs
TERM=xterm
export TERM
python3 "$BN_SRCDIR/t/tiny.py" .
sed -i -e 's/^max_steps.*/max_steps: 60/' run.yaml

# pressed WHEN OUT ARG...: Ctrl-C then, class 75; what was said in 'sent'
pressed() {
    when=$1 out=$2
    shift 2
    test_expect_code 75 python3 "$BN_SRCDIR/t/terminal.py" 80 --press "$when" \
        "$out" burnish-train --set output_dir="$out" "$@" run.yaml >sent &&
        test "$(cat "$out/exit-class")" = 75 && ! ls "$out" | grep tmp
}

test_expect_success 'in training: a checkpoint, and on from it' '
    pressed records:5 out && sed "s/^ESC.K//" sent >plain &&
    step=$(sed -n "s/^interrupted: saving step \([0-9]*\) (a second Ctrl-C ends the run without)$/\1/p" plain) &&
    test "$step" -ge 5 && test -d out/checkpoint-$step &&
    grep "^signal 2: step $step is saved, [0-9.]* s after" plain &&
    test "$(tail -n 1 plain)" = "error: stopped by signal 2 after step $step" &&
    burnish-train --set output_dir=out run.yaml 2>err &&
    grep "^resumed from .out/checkpoint-$step. after step $step" err &&
    burnish-train --set output_dir=whole run.yaml &&
    python3 "$BN_SRCDIR/t/resume.py" same whole out
'
test_expect_success 'without save_on_signal nothing is said to be saved' '
    pressed records:5 nosave --set max_steps=600 --set save_on_signal=false &&
    test_must_fail grep saving sent && ! ls nosave | grep checkpoint
'
test_expect_success 'a terminal that goes: a checkpoint, unless nohup is asked for' '
    test_expect_code 75 python3 "$BN_SRCDIR/t/terminal.py" 80 --leave \
        records:5 gone burnish-train --set output_dir=gone run.yaml &&
    grep "stopped by signal 1 after step" gone/phase.0 &&
    ls gone | grep "^checkpoint" &&
    python3 "$BN_SRCDIR/t/terminal.py" 80 --leave records:5 stays \
        nohup burnish-train --set output_dir=stays run.yaml &&
    python3 "$BN_SRCDIR/t/resume.py" same whole stays
'
test_done

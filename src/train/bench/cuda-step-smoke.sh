#!/bin/sh
# The benchmark of whole steps on a GPU runs through, on the emulator with a
# small model; both tasks learn, and a second start finds the weights.
echo 1..3
bench=${BN_BUILDDIR:-.}/src/train/bench/bench-cuda-step-emu
dir=$(mktemp -d) || exit 99
trap 'rm -r "$dir"' EXIT
n=0
# is WHAT STATUS: one test
is()
{
    n=$((n + 1))
    if test "$2" = 0; then
        echo "ok $n - $1"
    else
        echo "not ok $n - $1"
        sed 's/^/# /' "$dir/err"
    fi
}
"$bench" --smoke "$dir/weights" >"$dir/out" 2>"$dir/err" &&
    test "$(grep -c '^measure step_[a-z_]* [0-9.e+-]* ' "$dir/out")" -ge 5
is "SFT and ORPO" $?
# ln 256 is 5.55: three steps on one batch go below what chance has
awk '$2 == "step_sft_loss" { n++; bad = bad || !($3 < 5.55) }
     $2 == "step_orpo_loss" { n++; bad = bad || !($3 < 5.55 + 0.08) }
     END { exit bad || n != 2 }' "$dir/out"
is "their losses fall" $?
"$bench" --smoke --first "$(date +%s)" "$dir/weights" >"$dir/out" \
    2>"$dir/err" && grep -q '^measure first_step [0-9.]* s$' "$dir/out" &&
    ! "$bench" --smoke --first 0 "$dir/none" >"$dir/out" 2>"$dir/err" &&
    grep -q "cannot open the weights" "$dir/err"
is "a first step from a file" $?

#!/bin/sh
# A stand-in for burnish-train in tests of what happens around it: it ends
# the way the name of its point says, keeps the files that a run keeps, and
# proves nothing about training.
#   ok*     a few records, 0
#   bad*    rank 1 fails with class 64
#   mute*   exits 3 without a word
#   again*  class 75 at its first two starts, then 0
#   slow*   until it is told to stop: class 75; at a later start 0
#   hang*   likewise, but its first rank stops talking
run=$1
dir=${run%/*}
name=${dir##*/}
rank=${PMIX_RANK:-0}
size=${SLURM_NTASKS:-1}
starts=$(grep -c '^start' "$dir/history")

phase()
{
    echo "{\"rank\":$rank,\"size\":$size,\"phase\":\"$1\",\"step\":$2,\"time\":$(date +%s.%N)$3}" \
        >"$dir/phase.$rank.tmp" && mv "$dir/phase.$rank.tmp" "$dir/phase.$rank"
}

fail()
{
    phase failed "$2" ",\"class\":$1,\"error\":\"$3\""
    (set -C && echo "$1" >"$dir/exit-class") 2>/dev/null
    exit "$1"
}

finish()
{
    if test "$rank" = 0; then
        {
            echo '{"step":10,"epoch":1,"time":1.5,"kind":"train","loss":2.5,"tokens_per_second":100,"step_seconds":0.5}'
            echo '{"step":10,"epoch":1,"time":1.5,"kind":"eval","eval_loss":2.5,"eval_nll_loss":2.25,"eval_log_odds_chosen":0.5,"eval_rewards/accuracies":0.75,"eval_rewards/margins":0.25}'
        } >"$dir/metrics.jsonl"
    fi
    phase "done" 10
    exit 0
}

phase step "$rank"
case $name in
ok*) finish ;;
bad*)
    test "$rank" = $((size - 1)) && fail 64 5 "no such key \\\"x\\\""
    sleep 60
    ;;
mute*) exit 3 ;;
again*)
    test "$starts" -ge 3 && finish
    fail 75 3 "the network is gone"
    ;;
slow* | hang*)
    test "$starts" -gt 1 && finish
    trap 'fail 75 4 "told to stop"' TERM USR1
    for i in $(seq 600); do
        case $name$rank in
        hang*0) ;;
        *) phase step "$i" ;;
        esac
        sleep 0.2 &
        wait $!
    done
    ;;
esac
exit 70

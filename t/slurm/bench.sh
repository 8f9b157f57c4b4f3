#!/bin/bash
# bench.sh BURNISH: what a big sweep costs at the desk, on a private cluster.
# Prints one line a figure,
#   bench NAME RATIO target T ours A peer B UNIT
# and leaves with 1 if one falls short. For limits, the peer is the limit.
set -u
src=$(cd "$(dirname "$0")/../.." && pwd)
burnish=$(realpath "$1")
# in memory, so that the disk's other users do not count
root=/tmp
test -w /dev/shm && root=/dev/shm
work=$(mktemp -d $root/bnb.XXXXXX)
trap '"$src/t/slurm/cluster.sh" stop "$work/c"; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
failed=0

"$src/t/slurm/cluster.sh" start "$work/c" MaxJobCount=40000 \
    SchedulerParameters=default_queue_depth=100 || exit 1
export SLURM_CONF=$work/c/slurm.conf BURNISH_TEMPLATES=$src/templates
export BURNISH_CACHE=$work/cache BURNISH_LOG=debug
cd "$work" || exit 1

# what t/slurm/lib.sh makes for tests, without sharness
eval "$(sed -n '/^bn_tiny()/,/^}/p; /^bn_pairs()/,/^}/p' "$src/t/slurm/lib.sh")"
BN_SRCDIR=$src bn_tiny
bn_pairs 100 >pairs.jsonl

now() { date +%s.%N; }

# least NAME N COMMAND...: seconds of the fastest of N runs
least()
{
    local best='' i t n=$1
    shift
    for i in $(seq "$n"); do
        t=$(now)
        "$@" >out 2>err || { cat out err >&2; exit 1; }
        t=$(echo "$(now) - $t" | bc)
        if test -z "$best" || test "$(echo "$t < $best" | bc)" = 1; then
            best=$t
        fi
    done
    echo "$best"
}

# report NAME TARGET OURS PEER UNIT: the ratio is peer / ours
report()
{
    echo "$@" | awk '{ r = $4 / $3
        printf "bench %s %.2f target %s ours %.4g peer %.4g %s\n",
            $1, r, $2, $3, $4, $5
        exit r < $2 }' || failed=1
}

# --- ten thousand points -----------------------------------------------------
sed 's/^time:.*/&\nsbatch: [--hold]/' "$src/jobs/sweep-10k.yaml" >sweep-10k.yaml
t=$(least 3 "$burnish" sweep check sweep-10k.yaml)
report sweep-check-10k 1 "$t" 2 s
kb=$(/usr/bin/time -f %M "$burnish" sweep check sweep-10k.yaml 2>&1 >/dev/null | tail -n 1)
report sweep-check-10k-memory 1 "$(echo "$kb / 1024" | bc -l)" 100 MiB
least 1 "$burnish" sweep submit sweep-10k.yaml >/dev/null
w=$(sed -n 's/.*wrote [0-9]* points in \([0-9.]*\) s/\1/p' err)
report sweep-check-and-write-10k 1 "$(echo "$t + $w" | bc)" 2 s
squeue -h | awk '{ print $1 }' | sed 's/_.*//' | sort -u | xargs scancel

# all of them finished, as job.sh and a run leave them
perl -e '
    for my $dir (glob "sweep-10k/beta*") {
        open my $h, ">>", "$dir/history"; print $h "start 1 1_1 0 n1\nend 2 1_1 0 0\n"; close $h;
        my $x = rand;
        open my $m, ">", "$dir/metrics.jsonl";
        for my $s (1 .. 20) {
            my $step = 10 * $s;
            print $m "{\"step\":$step,\"epoch\":1,\"time\":1.5,\"kind\":\"train\",\"loss\":2.5,\"nll_loss\":2.25,\"learning_rate\":1e-5,\"grad_norm\":1.5,\"tokens_per_second\":100,\"step_seconds\":0.5}\n";
            print $m "{\"step\":$step,\"epoch\":1,\"time\":1.5,\"kind\":\"eval\",\"eval_loss\":2.5,\"eval_nll_loss\":$x,\"eval_log_odds_chosen\":$x,\"eval_rewards/accuracies\":0.5,\"eval_rewards/margins\":0.25}\n" if $step % 100 == 0;
        }
        close $m;
    }'
t=$(least 3 "$burnish" sweep status sweep-10k.yaml)
grep -q '^10000 points: 10000 done' out || { tail -n 3 out >&2; exit 1; }
report sweep-status-10k 1 "$t" 5 s
t=$(least 3 "$burnish" sweep report sweep-10k.yaml)
report sweep-report-10k 1 "$t" 5 s

# --- five hundred points: against a loop of sbatch ---------------------------
# Ours and the peer's begin with the scripts written: one 'sbatch FILE' after
# the other against what burnish hands over, one array (by sbatch) or as many
# jobs (by libslurm), to the last id that Slurm returns. The peer submits the
# very scripts of the jobs.
for launch in array jobs; do
    sed "s/^launch:.*/launch: $launch/; s/^output_dir:.*/output_dir: $launch/
        s/^limit:.*//; s/^tokenize:.*/tokenize: no/
        s/^  weight_decay:.*/  weight_decay: [0, 0.1]/
        s/^  learning_rate:.*/  learning_rate: [1e-6, 2e-6, 3e-6, 4e-6, 5e-6]/
        s/^  seed:.*/  seed: [1, 2, 3, 4, 5]/" sweep-10k.yaml >$launch.yaml
done
"$burnish" sweep submit jobs.yaml >out 2>err || { cat err >&2; exit 1; }
scripts=(jobs/*/job.sbatch)
loop()
{
    local f
    for f in "${scripts[@]}"; do
        sbatch "$f" || return 1
    done
}
empty() { squeue -h -o %F | sort -u | xargs -r scancel; while test -n "$(squeue -h)"; do sleep 0.2; done; }
empty
n=${#scripts[@]}
peer='' array='' jobs=''
for round in 1 2; do
    t=$(least 1 loop)
    peer=$(printf '%s\n' $peer "$t" | sort -g | head -n 1)
    empty
    for launch in array jobs; do
        rm -rf "$launch"
        mkdir -p $launch
        least 1 "$burnish" sweep submit $launch.yaml >/dev/null
        t=$(sed -n 's/.*handed [0-9]* jobs to Slurm in \([0-9.]*\) s/\1/p' err)
        eval "$launch=\$(printf '%s\n' \$$launch $t | sort -g | head -n 1)"
        empty
    done
done
echo "# $n points each; ours: from the first job handed to Slurm to the last"
report sweep-submit-$n-array 100 "$array" "$peer" s
report sweep-submit-$n-jobs 8 "$jobs" "$peer" s
exit $failed

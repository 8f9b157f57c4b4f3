#!/bin/bash
# scale.sh: what many ranks cost beyond the work, on a private cluster of two
# nodes on this machine (needs root and Slurm). Programs are those on PATH.
#
#   start-2   srun to the first step of two ranks, against half a second over
#             srun true
#   stop-2    SIGTERM to the committed checkpoint, against a step and 1.1 saves
#   ranks-64  64 ranks of a tiny model boot through PMIx and finish one step,
#             against two minutes
#
#     bench NAME RATIO target 1 ours A peer B s
#
# Each is the minimum of several; a ratio of 1 is what is allowed.
set -eu
src=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d /tmp/bns.XXXXXX)
trap '"$src/t/slurm/cluster.sh" stop "$dir/c"; rm -rf "$dir"' EXIT
"$src/t/slurm/cluster.sh" start "$dir/c" >/dev/null 2>&1
export SLURM_CONF=$dir/c/slurm.conf
# both nodes are this host: segments of shared memory would clash
export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo
cd "$dir"
python3 "$src/t/tiny.py" .
burnish-train --set output_dir=warm --set max_steps=1 run.yaml 2>/dev/null

now() { date +%s.%N; }
since() { echo "$(now) $1" | awk '{ printf "%.3f", $1 - $2 }'; }
least() { sort -n | head -n 1; }
short=0
report() { # NAME OURS ALLOWED
    # Some come in hundredths of a second, and then 0 is less than half of one.
    echo "$1 $2 $3" | awk '{ t = $2 > 0.005 ? $2 : 0.005
        printf "bench %s %.3f target 1.000 ours %.2f peer %.2f s\n", $1, $3 / t, $2, $3 }'
    echo "$2 $3" | awk '{ exit !($1 > $2) }' && short=1 || true
}

# The first record, whose time says when the first step was done.
start_once() {
    rm -rf first
    t0=$(now)
    srun -N2 -n2 --mpi=pmix burnish-train --set output_dir=first \
        --set max_steps=1 --set save_strategy=no run.yaml 2>/dev/null
    sed -n 's/.*"time":\([0-9.]*\).*/\1/p;q' first/metrics.jsonl |
        awk -v t="$t0" '{ printf "%.3f\n", $1 - t }'
}
true_once() {
    t0=$(now)
    srun -N2 -n2 true
    echo "$(since "$t0")"
}
for _ in 1 2 3 4 5; do
    start_once >>start
    true_once >>true
done
report start-2 "$(least <start)" \
    "$(least <true | awk '{ print $1 + 0.5 }')"

# From the run's own words: debug says how long a save took from the copy to
# the commit, the last line how long after the signal it was committed.
stop_once() {
    rm -rf stop
    BURNISH_LOG=debug srun -N2 -n2 --mpi=pmix burnish-train \
        --set output_dir=stop --set max_steps=100000 --set save_steps=200 \
        run.yaml 2>stop.err &
    for _ in $(seq 400); do
        test -d stop/checkpoint-200 && break
        sleep 0.05
    done
    kill -TERM "$(sed 's/.*"pid":\([0-9]*\).*/\1/' stop/phase.1)"
    wait $! || true
    sed -n 's/.*is saved, \([0-9.]*\) s after.*/\1/p' stop.err
}
for _ in 1 2 3; do stop_once >>stops; done
save=$(sed -n 's/.*paused \([0-9.]*\) s, committed \([0-9.]*\) s later.*/\1 \2/p' \
    stop.err | awk '{ print $1 + $2 }' | tail -n 1)
step=$(grep -o '"step_seconds":[0-9.]*' stop/metrics.jsonl | cut -d: -f2 |
    sort -n | tail -n 20 | head -n 1)
report stop-2 "$(least <stops)" \
    "$(echo "$save $step" | awk '{ print $2 + 1.1 * $1 + 0.01 }')"

t0=$(now)
srun -N2 -n64 --overcommit --mpi=pmix burnish-train --set output_dir=many \
    --set max_steps=1 --set per_device_train_batch_size=1 \
    --set save_strategy=no run.yaml 2>many.err ||
    { tail -n 3 many.err; exit 1; }
grep -q '"size":64,"phase":"done"' many/phase.63
report ranks-64 "$(since "$t0")" 120
exit $short

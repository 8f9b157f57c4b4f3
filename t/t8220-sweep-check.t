#!/bin/sh
# What only the cluster can say: planted on a real one.
test_description='burnish sweep check: what the cluster has and allows'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
BN_GPU_TYPE=t4
export BN_GPU_TYPE
bn_cluster MaxArraySize=4 MaxJobCount=40 \
    "PartitionName=short Nodes=n1,n2 MaxTime=10 MaxNodes=1" \
    "PartitionName=down Nodes=n1 State=DOWN"
bn_sweep_bin

# sweep NAME KEYS [POINTS]
sweep()
{
    { printf '%s\n' "output_dir: $1" "tokenize: no" "$2"
      bn_base
      echo "list:"
      for i in $(seq "${3:-1}"); do echo "  - {name: ok$i}"; done; } >"$1.yaml"
}
refused()
{
    test_expect_code 64 burnish sweep submit "$1.yaml" 2>err && cat err >&2 &&
    grep -- "$2" err && ! test -e "$1" && test -z "$(squeue -h)"
}

test_expect_success 'limits of a partition' '
    sweep time "time: 11
partition: short" &&
    refused time "time 11 is more than partition .short. allows (00:10:00)" &&
    sweep nodes "time: 5
nodes: 2
partition: short" &&
    refused nodes "nodes 2 is more than partition .short. allows (1)" &&
    sweep more "time: 5
nodes: 3
partition: low" &&
    refused more "nodes 3 is more than partition .low. has (2)" &&
    sweep down "time: 5
partition: down" &&
    refused down "partition .down. is DOWN" &&
    sweep none "time: 5
partition: nowhere" &&
    refused none "partition .nowhere.: "
'

test_expect_success 'what Slurm itself would refuse' '
    sweep cpus "time: 5
cpus_per_task: 100" &&
    refused cpus "Slurm would refuse the job: "
'

test_expect_success 'GPUs of a known type, by the nodes of the partition' '
    sweep type "time: 5
gpus_per_node: 1" && jq ".hidden_size = 16384 | .intermediate_size = 65536
        | .num_attention_heads = 128 | .num_key_value_heads = 128
        | .num_hidden_layers = 8 | del(.head_dim)" tiny/config.json >huge.json &&
    sed -i "s/config_name: tiny/config_name: huge.json/" type.yaml &&
    refused type "memory: the run needs .* on a GPU of 16.0 GiB; a rank: weights"
'

test_expect_success 'a run on CPUs, by its mem' '
    sweep mem "time: 5
mem: 64M" && sed -i "s/config_name: tiny/config_name: huge.json/" mem.yaml &&
    refused mem "on a node with 64.0 MiB (mem)"
'

test_expect_success 'an srun without PMIx' '
    plugins=$(ls -d /usr/lib/*/slurm-wlm /usr/lib/*/slurm /usr/lib*/slurm 2>/dev/null | head -n 1) &&
    mkdir "$bn_dir/p" && ln -s "$plugins"/* "$bn_dir/p/" && rm "$bn_dir"/p/mpi_pmix* &&
    { cat "$SLURM_CONF" && echo "PluginDir=$bn_dir/p"; } |
        sed "s/^MpiDefault=.*/MpiDefault=none/" >nopmix.conf &&
    sweep pmix "time: 5" &&
    SLURM_CONF=$PWD/nopmix.conf refused pmix "srun has no PMIx (.srun --mpi=list.)"
'

test_expect_success 'more jobs than Slurm keeps' '
    sweep jobs "time: 5" 41 &&
    refused jobs "41 points are more jobs than Slurm keeps at once (MaxJobCount 40)"
'

test_expect_success 'an array that is too long is split, and each task runs its point' '
    sweep split "launch: array
time: 5" 9 &&
    burnish sweep check split.yaml 2>err &&
    grep "9 points go into 3 arrays: MaxArraySize is 4" err &&
    burnish sweep submit split.yaml >out && grep "9 points submitted" out &&
    states() { burnish sweep status --json split.yaml | jq -r "[.points[].state] | unique | join(\" \")"; } &&
    all_done() { test "$(states)" = "done"; } && bn_wait 120 all_done &&
    burnish sweep status --json split.yaml | jq -r ".points[].job" >jobs &&
    test $(sed "s/_.*//" jobs | sort -u | wc -l) = 3 &&
    sed "s/.*_//" jobs | tr "\n" " " >tasks &&
    test "$(cat tasks)" = "0 1 2 3 0 1 2 3 0 " &&
    for i in $(seq 9); do
        test $(grep -c "^start" split/ok$i/history) = 1 || return 1
    done
'

test_expect_success 'with a limit, the arrays run one after the other' '
    sweep chain "launch: array
limit: 2
time: 5" 5 && burnish sweep submit chain.yaml &&
    burnish sweep status --json chain.yaml | jq -r ".points[4].job" >last &&
    states() { burnish sweep status --json chain.yaml | jq -r "[.points[].state] | unique | join(\" \")"; } &&
    all_done() { test "$(states)" = "done"; } && bn_wait 120 all_done &&
    end() { sed -n "s/^end \([0-9]*\).*/\1/p" chain/ok$1/history; } &&
    start() { sed -n "s/^start \([0-9]*\).*/\1/p" chain/ok$1/history; } &&
    for i in 1 2 3 4; do
        test $(start 5) -ge $(end $i) || return 1
    done
'

# Last, for they change the cluster. A folder is one that slurmctld only reports.
reconfigure()
{
    { sed "/^$1=/d" "$SLURM_CONF" && echo "$1=$2"; } >new.conf &&
    cp new.conf "$SLURM_CONF" && scontrol reconfigure &&
    reported() { scontrol show config | grep "^$1 *= "; } && reported "$1"
}

test_expect_success 'too few ports for the srun of one run' '
    reconfigure SrunPortRange 61001-61004 &&
    sweep ports "time: 5
nodes: 2" &&
    refused ports "srun of a run needs 5 ports and Slurm gives it those of SrunPortRange 61001-61004" &&
    reconfigure SrunPortRange 61001-61005 &&
    sed -i "s/^output_dir: .*/output_dir: wider/" ports.yaml && burnish sweep check ports.yaml
'

test_expect_success 'a spool folder that is too long for the socket of PMIx' '
    reconfigure SlurmdSpoolDir /var/$(printf "%080d" 0) &&
    sweep spool "time: 5" &&
    refused spool "SlurmdSpoolDir ./var/0*. is 85 characters long: the socket of Slurm.s PMIx"
'

test_done

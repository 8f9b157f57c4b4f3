#!/bin/bash
# A private Slurm cluster of two nodes on this machine, for tests.
#
#   cluster.sh start DIR [LINE...]   start it; each LINE is added to slurm.conf
#   cluster.sh stop DIR              end it: only what it started
#   cluster.sh logs DIR              print the ends of its logs
#   cluster.sh node DIR N kill|start kill slurmd N and its steps; start it again
#
# DIR is new or empty and its path short (sockets live in it). After start,
# "export SLURM_CONF=DIR/slurm.conf" is all that sbatch and friends need. Any
# number of clusters may run at once, on ports that start finds free.
#
# n1 and n2 each have 16 CPUs, 8 GPUs (null devices) and 16000 MB, whatever
# the machine has; BN_GPU_TYPE names the type of the GPUs. Partitions: low (default, preempted by requeue), high.
# Needs root, as slurmd does.
set -u
PATH=$PATH:/usr/sbin:/sbin

fail()
{
    echo "cluster.sh: $*" >&2
    exit 1
}

# Field 22 of /proc/PID/stat: with the pid, it names one process for ever.
start_time()
{
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # shellcheck disable=SC2086
    set -- ${stat##*) }
    echo "${20}"
}

# spawn NAME CMD...: a daemon whose pid and start time go into DIR/pids
spawn()
{
    local name=$1
    shift
    setsid "$@" </dev/null >>"$dir/$name.log" 2>&1 &
    echo "$name $! $(start_time $!)" >>"$dir/pids"
}

alive()
{
    test "$(start_time "$1")" = "$2"
}

# end NAME: TERM, then KILL, for every process spawned as NAME
end()
{
    local name pid born i
    while read -r name pid born; do
        test "$name" = "$1" || continue
        alive "$pid" "$born" || continue
        kill "$pid"
        for i in $(seq 100); do
            alive "$pid" "$born" || break
            test "$i" = 100 && kill -KILL "$pid"
            sleep 0.05
        done
    done <"$dir/pids"
}

# The pids of slurmstepds of this cluster, then of what runs under them: tasks
# know the cluster by its configuration file. [NODE] bounds it to one node.
steps()
{
    local p pid stepds="" tasks=""
    for p in /proc/[0-9]*; do
        test "$(tr '\0' '\n' 2>/dev/null <"$p/environ" \
            | grep -cxE "SLURM_CONF=$dir/slurm.conf|SLURMD_NODENAME=${1:-.*}")" \
            = 2 || continue
        pid=${p#/proc/}
        tasks+=" $pid"
        while test "${pid:-0}" -gt 1; do
            test "$(cat "/proc/$pid/comm" 2>/dev/null)" = slurmstepd \
                && stepds+=" $pid"
            pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status" \
                2>/dev/null)
        done
    done
    echo "$stepds $tasks"
}

# Three neighbouring ports below the ephemeral range that nobody listens on.
# Another cluster may take them between here and bind; then start tries again.
find_ports()
{
    local used base try
    used=$(awk 'FNR > 1 { sub(/.*:/, "", $2); print $2 }' \
        /proc/net/tcp /proc/net/tcp6 2>/dev/null)
    for try in $(seq 200); do
        base=$((10000 + (RANDOM * 32768 + RANDOM + try) % 20000))
        for port in $base $((base + 1)) $((base + 2)); do
            grep -qx "$(printf %04X "$port")" <<<"$used" && continue 2
        done
        echo $base
        return
    done
    fail "no free ports"
}

configure()
{
    local base=$1 host n type=${BN_GPU_TYPE:+:$BN_GPU_TYPE}
    local line=${BN_GPU_TYPE:+ Type=$BN_GPU_TYPE}
    shift
    host=$(hostname -s)
    mkdir -p "$dir/state" "$dir/tmp.n1" "$dir/tmp.n2" "$dir/gpu"
    for n in 0 1 2 3 4 5 6 7; do
        test -c "$dir/gpu/gpu$n" || mknod "$dir/gpu/gpu$n" c 1 3 \
            || fail "cannot make device nodes"
    done
    cat >"$dir/slurm.conf" <<END
ClusterName=burnish$base
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$base
AuthType=auth/munge
AuthInfo=socket=$dir/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
TmpFS=$dir/tmp.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=pmix
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdTimeout=5
KillWait=3
MessageTimeout=30
SchedulerParameters=sched_interval=2,sched_min_interval=0,bf_interval=2,batch_sched_delay=0
GresTypes=gpu
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 1)) CPUs=16 RealMemory=16000 Gres=gpu$type:8
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 2)) CPUs=16 RealMemory=16000 Gres=gpu$type:8
PartitionName=low Nodes=n1,n2 Default=YES MaxTime=1-0 PriorityTier=1 PreemptMode=REQUEUE GraceTime=20
PartitionName=high Nodes=n1,n2 MaxTime=1-0 PriorityTier=10 PreemptMode=OFF
END
    for n in "$@"; do
        echo "$n" >>"$dir/slurm.conf"
    done
    cat >"$dir/gres.conf" <<END
AutoDetect=off
NodeName=n[1-2] Name=gpu$line File=$dir/gpu/gpu[0-7]
END
    : >"$dir/cgroup.conf"
}

idle_nodes()
{
    timeout 10 sinfo -h -N -p low -o '%N %t' 2>/dev/null | grep -c ' idle$'
}

try_start()
{
    local i
    configure "$@"
    spawn slurmctld slurmctld -D -f "$dir/slurm.conf"
    spawn slurmd.n1 slurmd -D -N n1 -f "$dir/slurm.conf"
    spawn slurmd.n2 slurmd -D -N n2 -f "$dir/slurm.conf"
    for i in $(seq 150); do
        test "$(idle_nodes)" = 2 && return 0
        grep -q 'Address already in use' "$dir"/slurm*.log && return 1
        sleep 0.2
    done
    return 1
}

start()
{
    local i try
    test "$(id -u)" = 0 || fail "needs root"
    mkdir -p "$dir" || fail "cannot make $dir"
    chmod 755 "$dir"
    : >"$dir/pids"
    (umask 077 && head -c 1024 /dev/urandom >"$dir/munge.key")
    spawn munged munged -F -f --num-threads=2 --socket="$dir/munge.sock" \
        --key-file="$dir/munge.key" --pid-file="$dir/munged.pid" \
        --seed-file="$dir/munge.seed" --log-file="$dir/munged.out"
    for i in $(seq 100); do
        test -S "$dir/munge.sock" && break
        sleep 0.1
    done
    test -S "$dir/munge.sock" || { logs; stop; fail "munged did not start"; }
    export SLURM_CONF=$dir/slurm.conf
    for try in 1 2 3 4 5; do
        try_start "$(find_ports)" "$@" && return
        logs
        stop_slurm
        echo "cluster.sh: attempt $try failed" >&2
        rm -rf "$dir"/state "$dir"/slurm*.log "$dir"/spool.*
    done
    stop
    fail "no cluster after 5 attempts"
}

stop_slurm()
{
    local left
    export SLURM_CONF=$dir/slurm.conf
    left=$(steps)
    # shellcheck disable=SC2086
    test "$left" = " " || kill -KILL $left 2>/dev/null
    end slurmd.n1
    end slurmd.n2
    end slurmctld
}

stop()
{
    test -f "$dir/pids" || return 0
    stop_slurm
    end munged
}

logs()
{
    local f
    for f in "$dir"/*.log "$dir/munged.out"; do
        test -s "$f" || continue
        echo "# ---- $f"
        tail -n 40 "$f" | sed 's/^/# /'
    done >&2
}

# As when a node's power fails: nothing may report the death of anything.
node()
{
    local n=$1 name pid born all=""
    export SLURM_CONF=$dir/slurm.conf
    case $2 in
    kill)
        while read -r name pid born; do
            test "$name" = "slurmd.$n" && alive "$pid" "$born" && all+=" $pid"
        done <"$dir/pids"
        # shellcheck disable=SC2086
        kill -STOP $all
        all+=$(steps "$n")
        # shellcheck disable=SC2086
        kill -STOP $all 2>/dev/null
        # shellcheck disable=SC2086
        kill -KILL $all 2>/dev/null
        ;;
    start)
        spawn "slurmd.$n" slurmd -D -N "$n" -f "$dir/slurm.conf"
        ;;
    *)
        fail "node: kill or start"
        ;;
    esac
    return 0
}

test $# -ge 2 || fail "usage: cluster.sh start|stop|logs|node DIR ..."
verb=$1
dir=$(realpath -m "$2")
shift 2
case $verb in
start | stop | logs | node) "$verb" "$@" ;;
*) fail "unknown verb '$verb'" ;;
esac

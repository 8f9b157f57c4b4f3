#!/bin/sh
# Planted processes and files; only the right ones may go.
test_description='burnish clean ends what is ours and stale, and nothing else'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
bn_require PERL "no perl" command -v perl
bn_cluster

# An installation of its own, so that tests beside this one are not ours.
# perl stands in for the trainer: it can listen and be deaf to TERM.
bin=$bn_dir/bin
mkdir "$bin" "$bn_dir/other" shm tmp
cp "$BN_BUILDDIR/burnish" "$bin/burnish"
cp /usr/bin/perl "$bin/burnish-train"
cp /usr/bin/perl "$bin/helper"
cp /usr/bin/perl "$bn_dir/other/burnish-train"
chmod 755 "$bn_dir" "$bin"
over=999999
planted=

# plant NAME PERL COMMAND...: run COMMAND -e PERL in the background
plant()
{
    plant_name=$1 plant_perl=$2
    shift 2
    "$@" -e "$plant_perl; \$SIG{ALRM} = sub { exit }; alarm 120; open F, '>', '$PWD/$plant_name.up'; close F; sleep 1 while 1" &
    eval "$plant_name=$!"
    planted="$planted $!"
}

listen='use IO::Socket; $s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1", LocalPort => $ENV{PORT}, ReuseAddr => 1) or die; open P, ">", $ENV{OUT}; print P $s->sockport; close P'
job="env -i SLURM_CONF=$SLURM_CONF"
clean="$bin/burnish clean --shm shm --tmp tmp --cache cache --grace 1"
up() { kill -0 "$1" 2>/dev/null; }

id=$(sbatch --parsable -n1 --output=/dev/null --wrap \
    "exec $bin/burnish-train -e 'open F, q(>), q($PWD/live.up); print F \$\$; close F; sleep 1000'")
bn_wait 30 test -s live.up
live=$(cat live.up)
touch self.out && chmod 777 . self.out

plant stale "$listen" $job SLURM_JOB_ID=$over OUT=port "$bin/burnish-train"
plant deaf '$SIG{TERM} = "IGNORE"' $job SLURM_JOB_ID=$over "$bin/burnish-train"
plant by_hand '' $job "$bin/burnish-train"
plant helper '' $job SLURM_JOB_ID=$over "$bin/helper"
plant foreign '' $job SLURM_JOB_ID=$over "$bn_dir/other/burnish-train"
plant cluster '' env -i SLURM_CONF=/other/slurm.conf SLURM_JOB_ID=$over "$bin/burnish-train"
plant user '' $job SLURM_JOB_ID=$over setpriv --reuid=65534 --clear-groups "$bin/burnish-train"
plant holder "$listen" $job OUT=port2 "$bin/helper"
for name in stale deaf by_hand helper foreign cluster user holder; do
    bn_wait 20 test -e $name.up
done

trap 'bn_was=$?; kill -KILL $planted 2>/dev/null; (exit $bn_was); bn_cluster_exit' EXIT

test_expect_success 'by hand it only says what it would do' '
    $clean >out &&
    grep "would end process $stale: burnish-train of job $over" out &&
    grep "would end process $deaf" out &&
    test $(grep -c "would end" out) = 2 &&
    grep "add --yes" out &&
    up $stale && up $deaf
'

test_expect_success 'without Slurm no process is ended' '
    test_expect_code 75 env SLURM_CONF=/none $clean --yes 2>err &&
    grep "no process was looked at" err &&
    up $stale && up $deaf
'

test_expect_success 'the port of a stale process is free afterwards' '
    port=$(cat port) &&
    perl -MIO::Socket -e "IO::Socket::INET->new(\"127.0.0.1:$port\") or die" &&
    test "$($clean --yes --port $port 2>err)" = $port &&
    ! up $stale
'

test_expect_success 'one that ignores TERM is killed' '
    grep "killed, since it ignored TERM, process $deaf" err &&
    ! up $deaf
'

test_expect_success 'a job cleans up after its own earlier start only' '
    plant earlier "" $job SLURM_JOB_ID=$over "$bin/burnish-train" &&
    plant current "" $job SLURM_JOB_ID=$over SLURM_RESTART_COUNT=1 \
        "$bin/burnish-train" &&
    bn_wait 20 test -e earlier.up && bn_wait 20 test -e current.up &&
    SLURM_JOB_ID=$over SLURM_RESTART_COUNT=1 $clean --yes >out &&
    grep "process $earlier: .* of an earlier start of this job" out &&
    ! up $earlier && up $current
'

test_expect_success 'all others are left alone' '
    up $live && up $by_hand && up $helper && up $foreign && up $cluster &&
    up $user && up $holder &&
    bn_job_is $id RUNNING
'

test_expect_success 'a port held by somebody else is left, another taken' '
    port=$(cat port2) &&
    use=$($clean --yes --port $port 2>err) &&
    test "$use" -gt "$port" &&
    grep "port $port is held by process $holder (helper, uid 0), which is left alone: use $use" err &&
    up $holder
'

test_expect_success 'segments: only ours, unheld and not young' '
    for f in nccl-old nccl-open vader_segment.h.0.1.0 other; do
        echo x >shm/$f && touch -d "-1 hour" shm/$f || return 1
    done &&
    echo x >shm/nccl-young &&
    echo x >shm/nccl-user && chown 65534 shm/nccl-user &&
    touch -d "-1 hour" shm/nccl-user &&
    cp "$(ls /usr/lib/*/libz.so.1 /usr/lib*/libz.so.1 2>/dev/null | head -n 1)" \
        shm/nccl-mapped &&
    touch -d "-1 hour" shm/nccl-mapped &&
    { perl -e "open F, q(<), q(shm/nccl-open); open G, q(>), q(open.up); sleep 30" &
    planted="$planted $!"; } &&
    { LD_PRELOAD=shm/nccl-mapped perl -e "open G, q(>), q(map.up); sleep 30" &
    planted="$planted $!"; } &&
    bn_wait 20 test -e open.up && bn_wait 20 test -e map.up &&
    $clean --yes >out &&
    ls shm >got &&
    printf "%s\n" nccl-mapped nccl-open nccl-user nccl-young other >want &&
    test_cmp want got
'

# lock PID [BORN [HOST [BOOT [NS]]]]: as the cache writes it, by default of a
# process that lives here
born_at() { sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f20; }
lock()
{
    echo "${3:-$(uname -n)} $1 ${2:-$(born_at "$1")}" \
        "${4:-$(cat /proc/sys/kernel/random/boot_id)}" \
        "${5:-$(stat -L -c %i /proc/self/ns/pid)}"
}

test_expect_success 'locks of the token cache: only of owners that are gone' '
    mkdir -p cache/tokens && cd cache/tokens && host=$(uname -n) &&
    lock $holder >live.lock && mkdir live.tmp.$host.$holder &&
    lock 4194303 1 >dead.lock && mkdir dead.tmp.$host.4194303 &&
    touch dead.tmp.$host.4194303/ids.bin &&
    lock $holder $(($(born_at $holder) - 1)) >reused.lock &&
    lock 4194303 1 $host another-boot >rebooted.lock &&
    lock 4194303 1 elsewhere >elsewhere.lock &&
    lock 4194303 1 $host "" 1 >container.lock &&
    lock 4194303 1 >user.lock && chown 65534 user.lock &&
    echo nonsense >nonsense.lock && mkdir folder.lock && cd ../.. &&
    ls cache/tokens >all &&
    $clean >out && ls cache/tokens >now && test_cmp all now &&
    test $(grep -c "would remove .*lock of process" out) = 3 &&
    $clean --yes >out && cat out >&2 &&
    grep "removed cache/tokens/dead.lock: lock of process 4194303 on $host, which is gone" out &&
    grep -vxE "(dead|reused|rebooted).lock|dead.tmp.*" all >want &&
    ls cache/tokens >now && test_cmp want now && up $holder
'

test_expect_success 'what is really locked is left, and free when its maker is killed' '
    rm -rf cache && bn_tiny && bn_pairs 400000 >big.jsonl &&
    printf "%s\n" "task: orpo" "init: random" "config_name: tiny" "tokenizer_name_or_path: tiny" \
        "train_file: big.jsonl" "output_dir: x" "token_cache_dir: cache" "dataset_num_proc: 1" >big.yaml &&
    { "$bin/burnish" tokenize big.yaml >tok.out 2>&1 & maker=$!; planted="$planted $maker"; } &&
    until ls -d cache/tokens/*.tmp.* 2>/dev/null; do up $maker || return 1; done &&
    kill -STOP $maker &&
    $clean --yes >out && ls cache/tokens/*.lock && up $maker &&
    kill -KILL $maker && { wait $maker || :; } && ls -d cache/tokens/*.tmp.* &&
    $clean --yes >out && cat out >&2 && grep "lock of process $maker on .*, which is gone" out &&
    test -z "$(ls cache/tokens)" && rm big.jsonl
'

test_expect_success 'session folders: only of jobs and processes that are gone' '
    host=$(hostname -s) &&
    mkdir -p tmp/spmix_appdir_0_$over.0/x tmp/spmix_appdir_0_$id.0 \
        tmp/spmix_appdir_65534_$over.0 tmp/keep \
        tmp/ompi.$host.0/pid.4194303 tmp/ompi.$host.0/pid.$holder &&
    ln -s "$PWD/tmp/keep" tmp/spmix_appdir_0_$over.1 &&
    $clean --yes >out &&
    find tmp -mindepth 1 | sort >got &&
    printf "%s\n" tmp/keep tmp/ompi.$host.0 tmp/ompi.$host.0/pid.$holder \
        tmp/spmix_appdir_0_$id.0 tmp/spmix_appdir_0_$over.1 \
        tmp/spmix_appdir_65534_$over.0 | sort >want &&
    test_cmp want got
'

test_expect_success 'a session folder older than the pid it names is stale' '
    plant reused "" "$bin/helper" && bn_wait 20 test -e reused.up &&
    host=$(hostname -s) &&
    mkdir -p tmp/ompi.$host.0/pid.$reused &&
    $clean --yes && test -d tmp/ompi.$host.0/pid.$reused && up $reused
'

test_expect_success 'a process of a job that waits after a requeue is stale' '
    bid=$(sbatch --parsable --begin=now+1hour --wrap true) &&
    plant requeued "" $job SLURM_JOB_ID=$bid "$bin/burnish-train" &&
    bn_wait 20 test -e requeued.up && sleep 3 &&
    $clean --yes >out &&
    grep "process $requeued: .* which was requeued and waits" out &&
    ! up $requeued
'

test_done

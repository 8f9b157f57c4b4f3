#!/bin/sh
# A stand-in nvidia-cuda-mps-control records what it is told and for which
# pipe folder: it shows whom burnish talks to, and nothing about a GPU.
test_description='burnish mps: one daemon a job, told only through its own pipe'
. "$BN_SRCDIR/t/tlib.sh"

mkdir bin tmp
cat >bin/nvidia-cuda-mps-control <<\END
#!/bin/sh
pipe=$CUDA_MPS_PIPE_DIRECTORY
if test "$1" = -d; then
    echo "$pipe start" >>"$RECORD"
    test -d "$pipe" && test -d "$CUDA_MPS_LOG_DIRECTORY" || exit 1
    test -e "$pipe/control" && test ! -e "$pipe/dead" && exit 1
    rm -f "$pipe/dead"
    : >"$pipe/control"
    sleep 300 & # a daemon that holds on to standard output
    echo $! >>"$RECORD.pids"
    exit 0
fi
read -r line
echo "$pipe $line" >>"$RECORD"
test -e "$pipe/hang" && exec sleep 100
test -e "$pipe/control" && test ! -e "$pipe/dead" || {
    echo "Cannot find MPS control daemon process"
    exit 1
}
test "$line" = quit && rm "$pipe/control"
exit 0
END
chmod +x bin/nvidia-cuda-mps-control
RECORD=$PWD/record PATH=$PWD/bin:$PATH TMPDIR=$PWD/tmp
export RECORD PATH TMPDIR
unset SLURM_JOB_ID
trap 'bn_was=$?; kill $(cat record.pids) 2>/dev/null; (exit $bn_was); die' EXIT
mps="$BN_BUILDDIR/burnish mps"
uid=$(id -u)

test_expect_success 'it wants a job' '
    test_expect_code 64 $mps start 2>err && grep "no job" err &&
    test_expect_code 64 $mps start --job "1;x" 2>err &&
    test_expect_code 64 $mps jump --job 1 2>err && grep "none of" err
'

test_expect_success 'start makes a daemon with folders named after the job' '
    SLURM_JOB_ID=12 timeout 20 $mps start >out &&
    dir="$PWD/tmp/burnish-mps-$uid-12" &&
    eval "$(cat out)" &&
    test "$CUDA_MPS_PIPE_DIRECTORY" = "$dir/pipe" &&
    test "$CUDA_MPS_LOG_DIRECTORY" = "$dir/log" &&
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY &&
    test -d "$dir/log" &&
    echo "$dir/pipe start" >want && test_cmp want record
'

test_expect_success 'start again finds it up' '
    $mps start --job 12 >again && test_cmp out again &&
    test $(grep -c start record) = 1 &&
    $mps status --job 12 >out && grep -F "$dir: up" out
'

test_expect_success 'another job has a daemon of its own' '
    $mps start --job 13 && $mps status --job 13 >out &&
    grep "mps-$uid-13: up" out
'

test_expect_success 'quit goes to its own pipe only' '
    : >record && $mps stop --job 12 &&
    ! grep "mps-$uid-13" record && grep "mps-$uid-12/pipe quit" record &&
    ! test -e "$dir" &&
    $mps status --job 13 >out && grep ": up" out &&
    $mps status --job 12 >out && grep "no MPS daemon of job 12" out
'

test_expect_success 'a dead daemon is replaced in place' '
    : >"tmp/burnish-mps-$uid-13/pipe/dead" &&
    $mps status --job 13 >out && grep ": down" out &&
    $mps start --job 13 >out && grep "mps-$uid-13/pipe" out &&
    $mps status --job 13 >out && grep ": up" out
'

test_expect_success 'a hung one is left and another folder used' '
    : >"tmp/burnish-mps-$uid-13/pipe/hang" && : >record &&
    $mps start --job 13 --timeout 0.5 >out 2>err &&
    grep "mps-$uid-13.2/pipe" out &&
    grep "does not answer: left alone" err &&
    ! grep quit record &&
    $mps status --job 13 --timeout 0.5 >out &&
    grep "mps-$uid-13: hung" out && grep "mps-$uid-13.2: up" out
'

test_expect_success 'stop ends what answers and names what does not' '
    test_expect_code 75 $mps stop --job 13 --timeout 0.5 2>err &&
    grep "does not answer: left alone" err &&
    test -d "tmp/burnish-mps-$uid-13" && ! test -e "tmp/burnish-mps-$uid-13.2"
'

test_expect_success 'a folder that somebody else prepared is refused' '
    ln -s "$PWD/bin" "tmp/burnish-mps-$uid-14" &&
    test_expect_code 65 $mps start --job 14 2>err &&
    grep "something of another user" err
'

test_expect_success 'no control program is said' '
    test_expect_code 65 env PATH=/nowhere $mps start --job 15 2>err &&
    grep "cannot run .nvidia-cuda-mps-control." err
'

# The stand-in's daemons, while the list of them is still there.
kill $(cat record.pids) 2>/dev/null
test_done

#!/bin/sh
# Two processes share this machine's GPU through a daemon that burnish mps has
# started, and it is gone afterwards:
#
#     mps.sh BURNISH PROGRAM
set -u
burnish=$1 program=$2
job=$$ # the number of a job, as Slurm's are

fail()
{
    echo "mps: $*" >&2
    exit 1
}
vars=$("$burnish" mps start --job $job) || fail "no daemon"
trap '"$burnish" mps stop --job $job >&2' EXIT
eval "$vars"
"$burnish" mps status --job $job | grep ': up$' || fail "it is not up"
"$program" >&2 &
first=$!
"$program" >&2 || fail "a process under MPS failed"
wait $first || fail "the other process under MPS failed"
# its server is started for the first of them, and stays
servers=$(echo get_server_list | nvidia-cuda-mps-control)
test -n "$servers" || fail "they did not go through it: no server"
echo "server $servers"
trap - EXIT
"$burnish" mps stop --job $job || fail "it does not end"
"$burnish" mps status --job $job | grep 'no MPS daemon' || fail "it is left"

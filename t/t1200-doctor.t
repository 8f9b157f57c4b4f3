#!/bin/sh
test_description='burnish doctor: the page, core files, bundles without secrets'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/mpi.sh"
bn_require PYTHON "no python3" python3 -c ""

# examine STATUS ARG...: the page in 'page'; STATUS may be a pattern
examine() {
    want=$1
    shift
    burnish doctor "$@" >page
    rc=$?
    case $rc in
    $want) ;;
    *) echo "status $rc"; cat page; return 1 ;;
    esac
}
# A program of this name for the tests that come, found before any other
mkdir fake
fake() {
    printf '#!/bin/sh\n%s\n' "$2" >"fake/$1" && chmod +x "fake/$1"
}
with_fakes() {
    (PATH=$PWD/fake:$PATH && export PATH && "$@")
}

test_expect_success 'every check has a line, the last one counts them' '
    examine "[016]*" . &&
    for check in burnish build library compiler cpus memory /dev/shm ulimit \
        core disk slurm gpu nccl; do
        grep -E "^(OK  |WARN|FAIL)  $check " page || return 1
    done &&
    grep "^OK    burnish *burnish [0-9.]*, with .*burnish-train$" page &&
    grep "MiB/s with fsync, a small fsync [0-9.]* ms, in .\..$" page &&
    tail -n 1 page | grep "^$(grep -c "^OK" page) ok, $(grep -c "^WARN" page) to look at, $(grep -c "^FAIL" page) wrong$" &&
    ls -A | test_must_fail grep burnish-doctor
'
test_expect_success 'as JSON: the same, and the exit status is the worst' '
    burnish doctor --json >page.json; rc=$? &&
    python3 - $rc <<-\EOT
	import json, sys
	o = json.load(open("page.json"))
	levels = ["OK", "WARN", "FAIL"]
	worst = max(levels.index(c["level"]) for c in o["checks"])
	assert levels[worst] == o["worst"]
	assert int(sys.argv[1]) == [0, 1, 65][worst], sys.argv
	assert {"disk", "core", "memory", "slurm"} <= {c["check"] for c in o["checks"]}
	assert all("todo" in c for c in o["checks"] if c["level"] == "WARN")
	EOT
'
test_expect_success 'a folder that is not there, or that is no folder: FAIL, 65' '
    examine 65 nowhere && grep "^FAIL  disk  *cannot look at .nowhere.: No such" page &&
    echo >file && examine 65 file && grep "^FAIL  disk  *cannot write in .file." page
'
test_expect_success 'wrong arguments are refused' '
    test_expect_code 64 burnish doctor a b &&
    test_expect_code 64 burnish doctor --timeout 0 &&
    test_expect_code 64 burnish doctor --core x --bundle y.tar.gz &&
    test_expect_code 64 burnish doctor --bundle y.tar.gz &&
    test_expect_code 64 burnish doctor --bundle y.zip . &&
    test_expect_code 65 burnish doctor --bundle y.tar.gz nowhere
'
test_expect_success 'a Slurm without PMIx: FAIL, and what to do' '
    fake srun "case \$1 in --version) echo slurm 23.11.4 ;; *) echo cray_shasta none >&2 ;; esac" &&
    fake sinfo "echo 2" &&
    with_fakes examine 65 && grep "^FAIL  slurm  *slurm 23.11.4, without PMIx$" page &&
    grep -- "-> build Slurm --with-pmix" page
'
test_expect_success 'a controller that does not answer: WARN' '
    fake srun "case \$1 in --version) echo slurm 23.11.4 ;; *) echo pmix_v4 >&2 ;; esac" &&
    fake sinfo "echo no controller >&2; exit 1" &&
    with_fakes examine "[16]*" && grep "^OK    slurm  *slurm 23.11.4, with PMIx$" page &&
    grep "^WARN  slurm  *the controller does not answer: .*no controller" page
'

bn_prereq MPI "no MPI, PMIx or mpirun" sh -c \
    'grep -q "^#define HAVE_MPI 1" "$0" && grep -q "^#define HAVE_PMIX 1" "$0" && command -v mpirun' \
    "$BN_BUILDDIR/config.h"
! test_have_prereq MPI || bn_mpi
# In an allocation srun is tried; this one answers for 2 nodes.
answer() {
    fake srun "case \$1 in --version) echo slurm 23.11.4 ;; --mpi=list) echo pmix ;; *)
    echo \"{\\\"ranks\\\":$1,\\\"nodes\\\":2,\\\"boot_seconds\\\":0.1,\\\"barrier_seconds\\\":1e-5,\\\"skew_seconds\\\":$2,\\\"skew_error\\\":0.0001,\\\"skew_host\\\":\\\"n2\\\",\\\"gpus\\\":0,\\\"gpu\\\":\\\"none\\\"}\" ;;
    esac" && fake sinfo "echo 2"
}
in_job() {
    SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_NTASKS=4 with_fakes examine "$@"
}
test_expect_success MPI 'two ranks of mpirun meet' '
    examine "[16]*" && grep "^OK    mpi  *mpirun -n 2: 2 ranks on 1 node met in [0-9.]* s" page
'
test_expect_success MPI 'clocks of nodes: near, far, much too far' '
    answer 4 -0.0004 && in_job "[01]" &&
    grep "^OK    pmix  *srun --mpi=pmix: 4 ranks on 2 nodes met" page &&
    grep "^OK    clocks  *n2 is -0.000400 s" page &&
    answer 4 -5 && in_job 1 && grep "^WARN  clocks  *n2 is -5.000000 s" page &&
    answer 4 75 && in_job 65 && grep "^FAIL  clocks  *n2 is +75.000000 s" page
'
test_expect_success MPI 'ranks that do not see each other: FAIL' '
    answer 1 0 && in_job 65 &&
    grep "^FAIL  pmix  *srun --mpi=pmix: 4 ranks were asked for, and they believe to be 1$" page
'
test_expect_success MPI 'a launcher that hangs is given up after the time-out' '
    rm fake/srun fake/sinfo &&
    fake mpirun "case \$1 in --version) echo mpirun 4 ;; *) exec sleep 60 ;; esac" &&
    begin=$(date +%s) && with_fakes examine 65 --timeout 3 && end=$(date +%s) &&
    grep "^FAIL  mpi  *mpirun -n 2 does not work end to end: .*did not answer in 3 s" page &&
    test $((end - begin)) -lt 40
'

fault=$BN_BUILDDIR/src/base/test/fault
ASAN_OPTIONS=$ASAN_OPTIONS:handle_segv=0:disable_coredump=0
export ASAN_OPTIONS
(cd fake && ulimit -S -c unlimited && $fault segv; mv core* ../the-core) 2>/dev/null
bn_prereq CORE "no core file can be made here" test -s the-core
bn_prereq GDB "no gdb (Debian: gdb)" gdb --version
test_expect_success CORE,GDB 'a core file: program, signal, stacks' '
    burnish doctor --core the-core >out && cat out &&
    grep "^program   $fault (fault)$" out && grep "^signal    11 (Segmentation fault) in process [0-9]*, of 1 thread$" out &&
    grep "^#0 .* store (p=0x0) at .*fault.c" out && grep "^#1 .* main (" out
'
test_expect_success CORE 'without gdb it says how to get one' '
    mkdir bare && (PATH=$PWD/bare && "$BN_BUILDDIR/burnish" doctor --core the-core) >out &&
    grep "^signal    11" out && grep "^no stacks: cannot run .gdb." out && grep "apt install gdb" out
'
test_expect_success CORE 'a torn one, and what is none' '
    head -c 100 the-core >torn && test_expect_code 65 burnish doctor --core torn 2>err &&
    grep "cut off: was the disk full" err &&
    test_expect_code 65 burnish doctor --core page 2>err && grep "is no core file" err &&
    test_expect_code 65 burnish doctor --core nowhere
'

python3 - <<'EOT'
import os
os.makedirs("run/checkpoint-5/x")
os.makedirs("run/model")
def w(name, text):
    with open("run/" + name, "w") as f:
        f.write(text)
w("run.yaml", """learning_rate: 1e-5
tokenizer_name_or_path: /models/tok
train_file: https://bob:PLANTED1@host/data.jsonl?sig=PLANTED2&x=1
hf_token: PLANTED3
num_tokens: 743
eos_token: </s>
""")
w("slurm-1.out", """step 1: loss 2.5
Authorization: Bearer PLANTED4abcdefgh
password="PLANTED5 with spaces" next
export AWS_SECRET_ACCESS_KEY=PLANTED6
{"api_key":"PLANTED7","mean_token_accuracy":0.5,"max_tokens":12}
using hf_PLANTED8abcdefgh and ghp_PLANTED9abcdefghijkl
-----BEGIN OPENSSH PRIVATE KEY-----
PLANTED10
-----END OPENSSH PRIVATE KEY-----
s3://KEYID:PLANTED11@bucket/path
my_passwd = 'PLANTED12'
step 2: loss 2.4
""")
w("long.log", "PLANTED13" * 3000000 + "\nthe end: rank 3 died\n")
w("metrics.jsonl", '{"step":1,"loss":2.5,"num_tokens":99}\n')
w("phase.0", '{"rank":0,"phase":"failed"}\n')
w("crash.0", "crash: SIGSEGV at fault(+0x12)\n")
w("checkpoint-5/manifest.json", '{"step":5}\n')
w("checkpoint-5/state-pp0-tp0-dp0.bin", "PLANTED14")
w("model/model.safetensors", "PLANTED15")
w("model/config.json", '{"model_type":"llama"}\n')
w("train.jsonl", '{"prompt":"PLANTED16"}\n')
w(".netrc", "PLANTED17")
with open("secret.txt", "w") as f:
    f.write("PLANTED18")
os.symlink("../secret.txt", "run/link.log")
EOT
test_expect_success 'a bundle: no planted secret, no data, no weights' '
    env HF_TOKEN=PLANTED19 SLURM_JWT=PLANTED20 BURNISH_PASSWORD=PLANTED21 \
        NCCL_DEBUG=INFO MY_OWN=PLANTED22 \
        NCCL_NET_PLUGIN=https://u:PLANTED23@h/ \
        burnish doctor --timeout 5 --bundle b.tar.gz run >names 2>err &&
    tar xzf b.tar.gz && ! grep -r PLANTED burnish-bundle names err &&
    gzip -dc b.tar.gz | test_must_fail grep -a PLANTED
'
test_expect_success 'what is needed is there, and only what was listed' '
    tar tzf b.tar.gz | sort >got && sed "s/  .*//" names | sort | test_cmp - got &&
    printf "burnish-bundle/%s\n" doctor.txt environment.txt \
        run/checkpoint-5/manifest.json run/crash.0 run/long.log \
        run/metrics.jsonl run/model/config.json run/phase.0 run/run.yaml \
        run/slurm-1.out | sort | test_cmp - got &&
    cd burnish-bundle && grep "^learning_rate: 1e-5$" run/run.yaml &&
    grep "^tokenizer_name_or_path: /models/tok$" run/run.yaml &&
    grep "^num_tokens: 743$" run/run.yaml && grep "^eos_token: </s>$" run/run.yaml &&
    grep "https://\[masked\]@host/data.jsonl?sig=\[masked\]&x=1$" run/run.yaml &&
    grep "\"mean_token_accuracy\":0.5,\"max_tokens\":12" run/slurm-1.out &&
    grep "^step 2: loss 2.4$" run/slurm-1.out &&
    grep "the end: rank 3 died" run/long.log && grep "first 2[0-9]* bytes were left out" run/long.log &&
    grep "num_tokens\":99" run/metrics.jsonl && grep SIGSEGV run/crash.0 &&
    grep "^NCCL_DEBUG=INFO$" environment.txt && grep "^NCCL_NET_PLUGIN=https://\[masked\]@h/" environment.txt &&
    grep "other variables are not shown" environment.txt && grep "  disk  " doctor.txt
'
test_expect_success 'an archive that cannot be written: class, nothing left' '
    test_expect_code 65 burnish doctor --timeout 5 --bundle nowhere/b.tar.gz run
'
test_done

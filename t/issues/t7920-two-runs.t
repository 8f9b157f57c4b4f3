#!/bin/sh
test_description='two runs in one output_dir: the second one waits, and leaves the first alone'
. "${BN_SRCDIR:-$(dirname "$0")/../..}/t/tlib.sh"
bn_require_runs
bn_require CC "no C compiler" cc --version
python3 "$BN_SRCDIR/t/tiny.py" .
sed -i -e 's/^max_steps.*/max_steps: 300/' run.yaml
echo 'save_steps: 100' >>run.yaml

# halted OUT: a run that stands still in the middle; its process is $first
halted() {
    burnish-train --set output_dir="$1" run.yaml 2>first.err & first=$!
    test_when_finished "kill -KILL $first 2>/dev/null || :" # not to stand so
    n=0
    until test "$(grep -s -c . "$1/metrics.jsonl")" -ge 5 2>/dev/null; do
        sleep 0.01
        n=$((n + 1))
        test $n -lt 2000 || return 1
    done
    kill -STOP $first && cp "$1/phase.0" phase &&
        test "$(grep -c . "$1/metrics.jsonl")" -lt 300
}

test_expect_success 'the second is refused; the first ends as if alone' '
    burnish-train --set output_dir=whole run.yaml && halted out &&
    test_expect_code 75 burnish-train --set output_dir=out run.yaml 2>err &&
    grep "^another run is writing in .out.: waiting 5 s" err &&
    tail -n 1 err | grep "^error: another run is writing in .out.: wait for its end, or give another output_dir$" &&
    cmp phase out/phase.0 && test ! -e out/exit-class &&
    kill -CONT $first && wait $first &&
    python3 "$BN_SRCDIR/t/resume.py" same whole out
'
test_expect_success 'what only looks may look' '
    halted busy && burnish-train --check --set output_dir=busy run.yaml &&
    kill -KILL $first; wait $first; true
'
test_expect_success 'the second goes on where the first is killed' '
    halted dies &&
    { burnish-train --set output_dir=dies run.yaml 2>err & second=$!; } &&
    n=0 && until grep "^another run is writing" err; do
        sleep 0.01 && n=$((n + 1)) && test $n -lt 2000 || return 1
    done &&
    kill -KILL $first && { wait $first; wait $second; } &&
    python3 "$BN_SRCDIR/t/resume.py" same whole dies
'

# NFS locks no folder: flock() is one of bytes there.
cat >nfs.c <<'EOT'
#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
int flock(int fd, int how)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        errno = EBADF;
        return -1;
    }
    return (int)syscall(SYS_flock, fd, how);
}
EOT
cc -shared -fPIC -o nfs.so nfs.c || exit 1
ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0
export ASAN_OPTIONS
test_expect_success 'nor do they meet where a folder cannot be locked' '
    LD_PRELOAD=./nfs.so && export LD_PRELOAD && halted nfs &&
    test_expect_code 75 burnish-train --set output_dir=nfs run.yaml 2>err &&
    tail -n 1 err | grep "^error: another run is writing in .nfs.: wait" &&
    kill -CONT $first && wait $first && unset LD_PRELOAD &&
    python3 "$BN_SRCDIR/t/resume.py" same whole nfs
'
test_done

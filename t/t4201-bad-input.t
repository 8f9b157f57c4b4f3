#!/bin/sh
test_description='broken input: one line, the right class, nothing left behind'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require TRAIN "burnish-train was not built" burnish-train --version
bn_require PYTHON "no python3" python3 -c ""

BURNISH_CACHE=$PWD/cache
PYTHONDONTWRITEBYTECODE=1
export BURNISH_CACHE PYTHONDONTWRITEBYTECODE
bad=$BN_SRCDIR/t/bad

test_expect_success 'the tables are run' '
    python3 "$bad/cases.py" "$bad/run-file.table" "$bad/model.table" \
        "$bad/tokenizer.table" "$bad/data.table" "$bad/checkpoint.table" \
        "$bad/score.table" "$bad/numeric.table" cases &&
    test "$(wc -l <cases/names)" -ge 180
'
if test -f cases/names; then
    while read -r number name; do
        test_expect_success "$number $name" '
            test -f cases/$number.verdict && cat cases/$number.verdict &&
            test_must_be_empty cases/$number.verdict
        '
    done <cases/names
fi

# What takes more than a file: world N makes a good one in wN and goes there.
world() {
    rm -rf "$1" && python3 "$BN_SRCDIR/t/tiny.py" "$1" && cd "$1"
}

# refused CLASS LINE COMMAND...: the class, and LINE on standard error, last
refused() {
    refused_class=$1 refused_line="error: $2"
    shift 2
    test_expect_code "$refused_class" "$@" 2>err &&
    echo "$refused_line" >want && tail -n 1 err >got && test_cmp want got &&
    test "$(grep -c "^error: " err)" = 1
}

test_expect_success 'a path that is no UTF-8 is a path' '
    (name=$(printf "w\377\376") && world "$name" &&
     burnish-train run.yaml && test -f out/model/model.safetensors &&
     burnish-train --set "output_dir=$PWD/again" run.yaml &&
     test -f again/model/model.safetensors)
'
test_expect_success 'a path that is no UTF-8, absent, is one line' '
    (world w1 && name=$(printf "no\377ne") &&
     test_expect_code 64 burnish-train "$name.yaml" 2>err &&
     test "$(wc -l <err)" = 1 && LC_ALL=C grep -a "ne.yaml" err &&
     test_expect_code 65 burnish-train --set "train_file=$name.jsonl" \
         run.yaml 2>err &&
     LC_ALL=C tail -n 1 err | LC_ALL=C grep -a "^error: .*ne.jsonl")
'
test_expect_success 'standard output that is full' '
    (world w2 && echo "{\"ids\": [5, 6]}" >in.jsonl &&
     refused 65 "cannot write to standard output: No space left on device" \
         burnish-train --score in.jsonl run.yaml >/dev/full &&
     refused 65 "cannot write to standard output: No space left on device" \
         burnish-train --eval-only --set eval_split=0.5 run.yaml >/dev/full)
'
test_expect_success 'a tensor list is told line by line before the error' '
    (world w3 && python3 - "$BN_SRCDIR/t" <<-EOT &&
	import sys
	sys.path.insert(0, sys.argv[1])
	import tiny
	p = "model/model.safetensors"
	tiny.write_tensors(p, [t for t in tiny.read_tensors(p)
	                       if "self_attn" not in t[0]])
	EOT
     refused 65 "model does not hold the tensors of its config: 8 missing\
 (model.layers.0.self_attn.q_proj.weight, ...)" burnish-train run.yaml &&
     test "$(grep -c "^missing: model.layers.*self_attn" err)" = 8)
'

root() { test "$(id -u)" = 0; }
bn_prereq ROOT "not root: no other user, no mounts" root
bn_prereq SETPRIV "no setpriv, or not root" \
    setpriv --reuid=65534 --regid=65534 --clear-groups true
can_mount() {
    root && mkdir -p mnt && mount -t tmpfs -o size=64k none mnt &&
    umount mnt
}
bn_prereq MOUNT "cannot mount a tmpfs" can_mount

# as_nobody COMMAND...: as a user who may do nothing here
as_nobody() {
    setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

# Folders above the scratch folder may be closed to others, so the world of
# these two lies in /tmp.
other=/tmp/burnish-bad-input.$$
test_expect_success SETPRIV 'a model that may not be read' '
    (mkdir "$other" && chmod 755 "$other" &&
     cp "$BN_BUILDDIR/burnish-train" "$other/" && cd "$other" && world w &&
     mkdir out && chown -R 65534 . && chown -R 0 model && chmod 700 model &&
     refused 65 "cannot open '\''model/config.json'\'': Permission denied" \
         as_nobody "$other/burnish-train" run.yaml &&
     chmod 755 model && chmod 600 model/model.safetensors &&
     refused 65 "cannot open '\''model/model.safetensors'\'': Permission denied" \
         as_nobody "$other/burnish-train" run.yaml &&
     test ! -e out/model)
'
test_expect_success SETPRIV 'folders that may not be read or written' '
    (cd "$other/w" && chmod 644 model/model.safetensors && rm -rf out cache &&
     mkdir rows && mv sft.jsonl rows/ && chown 0 rows . && chmod 700 rows &&
     mkdir out && chown 65534 out &&
     mkdir cache && chown 65534 cache &&
     refused 65 "cannot open '\''rows/sft.jsonl'\'': Permission denied" \
         as_nobody "$other/burnish-train" --set train_file=rows/sft.jsonl \
         run.yaml &&
     refused 65 "output_dir: cannot write in '\''.'\'': Permission denied" \
         as_nobody "$other/burnish-train" --set output_dir=new run.yaml &&
     refused 65 "output_dir: cannot write in '\''.'\'': Permission denied" \
         as_nobody "$other/burnish-train" --check --set output_dir=new \
         run.yaml &&
     test ! -e new)
'
rm -rf "$other"

test_expect_success MOUNT 'a disk that fills up: no half checkpoint' '
    (world w4 && mkdir out && mount -t tmpfs -o size=900k none out &&
     refused 65 "cannot write '\''out/tmp.checkpoint-2/state-pp0-tp0-dp0.bin'\'': No space left on device" \
         burnish-train --set save_steps=1 run.yaml;
     rc=$?; ls -A out >left; cat out/exit-class; umount out;
     printf "checkpoint-1\nexit-class\nmetrics.jsonl\nphase.0\n" >want &&
     test_cmp want left && exit $rc)
'
test_expect_success MOUNT 'a disk that fills up: no half model' '
    (world w5 && mkdir out && mount -t tmpfs -o size=128k none out &&
     test_expect_code 65 burnish-train --set save_strategy=no run.yaml 2>err;
     rc=$?; ls -A out >left; umount out; tail -n 1 err;
     printf "exit-class\nmetrics.jsonl\nphase.0\n" >want &&
     test_cmp want left &&
     tail -n 1 err | grep "^error: .*out/.*model.*: No space left" &&
     exit $rc)
'
test_expect_success MOUNT 'a disk that fills up: no empty files, and on when there is room' '
    (world w9 && mkdir out && mount -t tmpfs -o size=12k none out &&
     sed -i "s/^max_steps.*/max_steps: 100/; \$ a save_strategy: no" run.yaml &&
     refused 65 "cannot write '\''out/metrics.jsonl'\'': No space left on device" \
         burnish-train run.yaml;
     rc=$?; ls -A out >left; find out -size 0 >empty;
     mount -o remount,size=20m out; burnish-train run.yaml; again=$?;
     wc -l <out/metrics.jsonl >lines; umount out; cat left;
     printf "metrics.jsonl\nphase.0\n" >want && test_cmp want left &&
     test_must_be_empty empty && test $again = 0 && test $(cat lines) = 101 &&
     exit $rc)
'
test_expect_success MOUNT 'a disk that fills up: no half token cache' '
    (world w6 && mkdir cache && mount -t tmpfs -o size=8k none cache &&
     test_expect_code 65 burnish-train run.yaml 2>err;
     rc=$?; find cache -type f >left; umount cache; tail -n 1 err;
     test_must_be_empty left && tail -n 1 err |
         grep "^error: .*cache.*: No space left" && exit $rc)
'
test_expect_success MOUNT 'an output folder that is read-only' '
    (world w7 && mkdir out && mount -t tmpfs -o ro none out;
     refused 65 "output_dir: cannot write in '\''out'\'': Read-only file system" \
         burnish-train run.yaml &&
     refused 65 "output_dir: cannot write in '\''out'\'': Read-only file system" \
         burnish-train --check run.yaml &&
     refused 65 "output_dir: cannot write in '\''out'\'': Read-only file system" \
         burnish-train --set output_dir=out/a/b run.yaml;
     rc=$?; umount out; exit $rc)
'
test_expect_success MOUNT 'a token cache that is read-only' '
    (world w8 && mkdir cache && mount -t tmpfs -o ro none cache;
     test_expect_code 65 burnish-train run.yaml 2>err;
     rc=$?; umount cache; tail -n 1 err | grep "^error: .*cache.*: Read-only" &&
     exit $rc)
'
test_done

#!/bin/sh
test_description='folders of another user: no run begins that would not look into them or could not replace them'
. "${BN_SRCDIR:-$(dirname "$0")/../..}/t/tlib.sh"
bn_require TRAIN "burnish-train was not built" burnish-train --version
bn_require PYTHON "no python3" python3 -c ""
bn_require SETPRIV "no setpriv, or not root" \
    setpriv --reuid=65534 --regid=65534 --clear-groups true

# Folders above the scratch folder may be closed to others.
other=$(mktemp -d /tmp/burnish-other-XXXXXX) || exit 1
python3 "$BN_SRCDIR/t/tiny.py" "$other/w"
cp "$BN_BUILDDIR/burnish-train" "$other/"
chown -R 65534 "$other"

# train ARG...: as a user who may do nothing elsewhere; what it says in 'err'
train() {
    (cd "$other/w" && setpriv --reuid=65534 --regid=65534 --clear-groups \
        "$other/burnish-train" "$@" run.yaml) 2>err
}

test_expect_success 'a checkpoint of another user: refused, and all is as it was' '
    train && cp "$other/w/out/metrics.jsonl" was &&
    chown 0 "$other/w/out/checkpoint-4" &&
    chmod 700 "$other/w/out/checkpoint-4" &&
    for how in --set=resume=auto --check --set=resume=never; do
        test_expect_code 65 train $how && tail -n 1 err >&2 &&
        grep "^error: cannot look into .out/checkpoint-4.: Permission denied$" err ||
            return 1
    done &&
    cmp was "$other/w/out/metrics.jsonl" &&
    test ! -e "$other/w/out/checkpoint-4.old"
'
test_expect_success 'a model that may not be looked at is not said to be absent' '
    mkdir "$other/w/closed" && cp -R "$other/w/model" "$other/w/closed/" &&
    chmod 700 "$other/w/closed" &&
    test_expect_code 65 train --set model_name_or_path=closed/model &&
    tail -n 1 err | grep "^error: model_name_or_path: cannot look at .closed/model.: Permission denied$"
'
test_expect_success 'a file of that name is no checkpoint' '
    chown 65534 "$other/w/out/checkpoint-4" && : >"$other/w/out/checkpoint-9" &&
    train && grep "^resumed from .out/checkpoint-4. after step 4$" err
'
test_expect_success 'a model of another user that the run would replace: said at the start' '
    chown -R 0 "$other/w/out/model" &&
    for how in --check --set=resume=never; do
        test_expect_code 65 train $how && tail -n 1 err >&2 &&
        tail -n 1 err | grep "^error: output_dir: cannot write in .out/model.: Permission denied$" ||
            return 1
    done
'
rm -rf "$other"
test_done

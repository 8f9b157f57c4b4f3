#!/bin/sh
test_description='where no checkpoint is whole, nothing of them is in the run that begins anew'
. "${BN_SRCDIR:-$(dirname "$0")/../..}/t/tlib.sh"
bn_require_runs

python3 "$BN_SRCDIR/t/tiny.py" .
echo 'save_steps: 2' >>run.yaml

# The checksum is known to be wrong only when all bytes have been read.
flip() {
    python3 -c "
import sys
with open(sys.argv[1], 'r+b') as f:
    f.seek(-2, 2); b = f.read(1)[0]; f.seek(-2, 2); f.write(bytes([b ^ 1]))" \
        "$1/state-pp0-tp0-dp0.bin"
}
test_expect_success 'the newest is not whole: the older one' '
    burnish-train run.yaml && cp -R out one &&
    flip out/checkpoint-4 && burnish-train run.yaml 2>err &&
    grep "checkpoint-4. cannot be used.*is not what was written" err &&
    grep "after step 2" err &&
    cmp one/model/model.safetensors out/model/model.safetensors
'
test_expect_success 'none is whole: both are named, and it begins anew' '
    flip out/checkpoint-2 && flip out/checkpoint-4 &&
    burnish-train run.yaml 2>err &&
    grep "checkpoint-4. cannot be used" err &&
    grep "checkpoint-2. cannot be used" err && ! grep "resumed from" err &&
    cmp one/model/model.safetensors out/model/model.safetensors &&
    for f in 2 4; do
        cmp one/checkpoint-$f/state-pp0-tp0-dp0.bin \
            out/checkpoint-$f/state-pp0-tp0-dp0.bin || return 1
    done
'
test_expect_success 'one that was named is an error' '
    flip out/checkpoint-4 &&
    test_expect_code 65 burnish-train --set resume=out/checkpoint-4 run.yaml 2>err &&
    grep "^error: .*checkpoint-4/state-pp0-tp0-dp0.bin. is not what was written" err
'
test_done

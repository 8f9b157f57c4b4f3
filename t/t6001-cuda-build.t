#!/bin/sh
test_description='kernels as nvcc compiled them: table, tensor cores'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
built=$BN_BUILDDIR/kernels/cuda
nvcc=$(sed -n 's/^NVCC = //p' "$BN_BUILDDIR/Makefile")
bn_require NVCC "built without CUDA" test -f "$built/attn.ptxas"
bn_require NVCC "built for other architectures" \
    grep -q "sm_80.*" "$built/attn.ptxas"
export built nvcc

# The numbers are those of one compiler.
want=$(sed -n 's/.*nvcc \(.*\), at -O2.*/\1/p' \
    "$BN_SRCDIR/doc/CUDA-KERNELS.md")
"$nvcc" --version | grep -q "V$want\$" && test_set_prereq SAME_NVCC

# The disassembler is not in every CUDA package: PyPI has it, too.
if command -v nvdisasm >/dev/null; then
    nvdisasm=nvdisasm
elif case " $BURNISH_TEST_REQUIRE " in *" NVDISASM "*) ;; *) false ;; esac; then
    python3 -m venv venv && venv/bin/pip -q install nvidia-cuda-nvdisasm
    nvdisasm=$(find "$PWD/venv" -path "*/bin/nvdisasm" | head -n 1)
    test -z "$nvdisasm" || chmod +x "$nvdisasm"
fi
bn_prereq NVDISASM "no nvdisasm" test -n "$nvdisasm"

test_expect_success SAME_NVCC \
    'registers, shared memory and spills are those of doc/CUDA-KERNELS.md' '
    "$BN_SRCDIR/kernels/cuda/table.sh" "$nvcc" "$built"/*.ptxas >table &&
    if ! diff -u "$BN_SRCDIR/doc/CUDA-KERNELS.md" table; then
        echo "renew it: kernels/cuda/table.sh $nvcc kernels/cuda/*.ptxas" &&
        false
    fi
'
test_expect_success 'no kernel spills more than a few registers' '
    awk "/bytes spill stores/ && \$5 > 128 { bad = 1; print }
         END { exit bad }" "$built"/*.ptxas
'
# Attention is what multiplies here: the head's products are cublasLt's.
test_expect_success NVDISASM \
    'bf16 attention uses tensor cores on every architecture' '
    for cubin in "$built"/attn.keep/*.cubin "$built"/attn_grad.keep/*.cubin; do
        echo "file ${cubin##*/}" && "$nvdisasm" "$cubin" || return 1
    done >sass &&
    awk "
        /^file / { file = \$2 }
        /^\.text\./ {
            wanted = /attn_(forward|gradI).*nv_bfloat16/
            name = file \" \" \$1
            if (wanted) kernels[name] = 0
        }
        /HMMA/ && wanted { kernels[name]++ }
        END {
            for (k in kernels) {
                n++
                if (kernels[k] == 0) { bad = 1; print \"none in \" k }
            }
            print n \" kernels\"
            exit bad || n < 60
        }" sass
'
test_done

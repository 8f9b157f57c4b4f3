#!/bin/sh
# shellcheck disable=SC2034
test_description='the script for a GPU machine, rehearsed over the emulator'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require CMOCKA "no test programs" \
    test -x "$BN_BUILDDIR/kernels/cuda/test/sample.t"
peers=${BN_PEERS_VENV:-none}/bin/python
if "$peers" -c 'import torch' 2>/dev/null; then
    test_set_prereq TORCH
else
    peers=false
    test_set_prereq NO_TORCH
fi
check=$BN_SRCDIR/jobs/gpu-check.sh
dir=$(mktemp -d) || exit 1 # no blanks in its name
export check peers dir

# rehearse OUT: with the programs of this build
rehearse()
{
    PYTHON=$peers EMU=tree LIMIT=3000 BUILD=$BN_BUILDDIR sh "$check" "$dir/$1"
}
# a stand-in daemon: it has a server once it was asked for one
mkdir bin tmp
cat >bin/nvidia-cuda-mps-control <<\END
#!/bin/sh
test "$1" = -d && exec touch "$CUDA_MPS_PIPE_DIRECTORY/control"
test -e "$CUDA_MPS_PIPE_DIRECTORY/control" || exit 1
read -r line
case $line in
get_server_list) echo 4711 ;;
quit) rm "$CUDA_MPS_PIPE_DIRECTORY/control" ;;
esac
END
chmod +x bin/nvidia-cuda-mps-control
PATH=$PWD/bin:$PATH TMPDIR=$PWD/tmp
export PATH TMPDIR
test_expect_success 'processes share a GPU through burnish mps' '
    mps() { sh "$BN_SRCDIR/jobs/gpu/mps.sh" "$BN_BUILDDIR/burnish" "$1"; } &&
    mps true >out && grep "^server 4711" out && test -z "$(ls tmp)" &&
    ! mps false && test -z "$(ls tmp)" &&
    sed -i s/4711// bin/nvidia-cuda-mps-control &&
    ! mps true 2>err && grep "did not go through it" err && test -z "$(ls tmp)" &&
    sed -i "s/^get_server_list.*/get_server_list) echo 4711 ;;/" bin/nvidia-cuda-mps-control
'

test_expect_success 'it runs through, and leaves a table and logs' '
    rehearse out >table &&
    grep "^ok    build" table && ! grep "^FAIL" table &&
    grep "^ok    kernels against the reference, of sample" table &&
    grep "^ok    two processes under burnish mps" table &&
    for bar in gemm_qkv attn_both_128 rmsnorm ce head head_orpo \
        head_orpo_memory adamw step_sft step_sft_mfu step_orpo \
        step_orpo_memory first_step; do
        grep "^bench $bar .* target [0-9.]* ours " table || return 1
    done &&
    test -s "$dir/out/ours" && test -e "$dir/out/bench.log" &&
    ! test -e "$dir/out/weights"
'
test_expect_success 'every file that it compiles exists, and is compiled once' '
    cp "$dir/out/commands" commands &&
    sed -n "s/.* -c \([^ ]*\) -o \([^ ]*\)$/\1/p" commands >files &&
    test "$(wc -l <files)" -gt 100 &&
    while read -r f; do test -f "$f" || return 1; done <files &&
    sed -n "s/.* -o //p" commands | sort | uniq -d >twice &&
    test_must_be_empty twice
'
test_expect_success 'burnish-train can be carried with all that it needs' '
    sh "$BN_SRCDIR/jobs/gpu/carry.sh" "$BN_BUILDDIR" "$dir/carried" &&
    LD_LIBRARY_PATH=$dir/carried/lib ldd "$dir/carried/burnish-train" >libs &&
    grep "libyaml.* => $dir/carried/lib/" libs &&
    awk "/=>/ && !/carried/ { print \$1 }" libs |
        grep -v "^lib\(c\|m\|dl\|rt\|pthread\|cudart\|cuda\)\.so" >rest
    test_must_be_empty rest &&
    env -i LD_LIBRARY_PATH="$dir/carried/lib:$LD_LIBRARY_PATH" \
        "$dir/carried/burnish-train" --version &&
    rm -r "$dir/carried" &&
    test_expect_code 64 sh "$BN_SRCDIR/jobs/gpu/carry.sh" . "$dir/carried" \
        2>err && grep "carry: no ./burnish-train" err
'
test_expect_success 'no time: nothing is begun, and that is a failure' '
    test_expect_code 1 env EMU=tree BUILD="$BN_BUILDDIR" LIMIT=0 \
        sh "$check" "$dir/late" >late &&
    grep "^FAIL  bench " late &&
    grep "no time is left" "$dir/late/bench.log"
'
test_expect_success 'without nvcc or a GPU it says which' '
    test_expect_code 64 env NVCC=/none sh "$check" "$dir/none" 2>err &&
    grep "gpu-check: no nvcc (/none): set NVCC or CUDA_HOME" err &&
    test_expect_code 64 env EMU=tree sh "$check" "a b" 2>err &&
    grep "blanks in the name of" err
'
test_expect_success NO_TORCH 'without PyTorch it says so' '
    grep "^skip  peers: no PyTorch" table
'
test_expect_success TORCH 'steps come to the losses of PyTorch' '
    grep "^ok    losses of steps" table &&
    for bar in step_sft step_orpo head_orpo first_step step_sft_loss \
        step_orpo_loss; do
        grep "^bench $bar .* (torch)" table || return 1
    done
'
test_expect_success 'losses that differ fail' '
    sed "s/^\(measure step_sft_loss\) .* nats/\1 6.5 nats/" \
        "$dir/out/ours" >wrong && cp "$dir/out/ours" same &&
    ! awk -f "$BN_SRCDIR/jobs/gpu/bars.awk" same wrong >bars &&
    grep "^differs step_sft_loss" bars && cp same other &&
    awk -f "$BN_SRCDIR/jobs/gpu/bars.awk" same other >bars &&
    ! grep "^differs" bars
'
test_expect_success 'figures below their target are marked, and no others' '
    printf "measure %s %s GB/s\n" copy 100 rope 79 swiglu 80 rmsnorm 90 \
        head_orpo_memory 1 adamw 100 >ours &&
    printf "measure %s %s GB/s\n" rope 50 rmsnorm 61 head_orpo_memory 3.9 \
        adamw 100 >peer &&
    awk -f "$BN_SRCDIR/jobs/gpu/bars.awk" ours peer >bars &&
    sed -n "s/^bench \([^ ]*\) .*(\(.*\)) short$/\1 \2/p" bars >got &&
    printf "%s\n" "rope copy" "rmsnorm torch" "head_orpo_memory torch" \
        >want && test_cmp want got &&
    grep "^bench swiglu - target 1.5 .*no torch)$" bars
'
test_expect_success 'nothing is left behind' '
    rm -r "$dir"
'
test_done

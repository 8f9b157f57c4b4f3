#!/bin/sh
# shellcheck disable=SC2034,SC2154
test_description='burnish-generate on several emulated GPUs answers as on one CPU'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/mpi.sh"
bn_mpi
bn_require PYTHON "no python3" python3 --version
generate=$BN_BUILDDIR/src/cmd/burnish-generate-emu
model=$BN_SRCDIR/t/data/arch-variants/qwen3-qknorm-tied
export generate model

test_expect_success 'prompts for a model without a tokenizer' '
    python3 - <<-\EOF
	import json
	json.dump({"model": {"type": "BPE", "merges": [], "vocab":
	           {chr(0x100 + i): i for i in range(97)}}},
	          open("tokenizer.json", "w"))
	with open("ids", "w") as f:
	    for i in range(4):
	        ids = [(7 * i + 3 * k) % 97 for k in range(1 + 5 * i % 11)]
	        print(json.dumps({"ids": ids}), file=f)
	EOF
'
# answers RANKS OPTIONS...
answers()
{
    n=$1
    shift
    bn_ranks "$n" "$generate" --model "$model" --tokenizer . --ignore-eos \
        --max-new-tokens 5 --batch-size 3 --input ids "$@"
}
test_expect_success 'one CPU' '
    answers 1 --device cpu >greedy &&
    answers 1 --device cpu --temperature 1 --top-p 0.9 --seed 5 >drawn &&
    ! cmp -s greedy drawn
'
for layout in "2 1" "1 2" "2 2"; do
    tp=${layout% *} pp=${layout#* }
    test_expect_success "GPUs: tensor $tp, pipeline $pp" "
        sizes='--tensor-parallel-size $tp --pipeline-parallel-size $pp' &&
        answers $((tp * pp)) --device cuda \$sizes >got &&
        test_cmp greedy got &&
        answers $((tp * pp)) --device cuda \$sizes --temperature 1 \
            --top-p 0.9 --seed 5 >got &&
        test_cmp drawn got
    "
done
test_expect_success 'a fault of the first rank ends all' '
    printf "{}\n" >bad &&
    bn_ranks 2 "$generate" --model "$model" --tokenizer . --device cuda \
        --tensor-parallel-size 2 --input bad >out 2>err
    test $? -eq 65 && grep "bad:1: expected an object" err &&
    test_must_be_empty out
'
test_done

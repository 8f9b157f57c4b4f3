#!/bin/sh
# shellcheck disable=SC2016,SC2034,SC2154
test_description='burnish-generate on several ranks answers as on one'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/mpi.sh"
bn_mpi
bn_require PYTHON "no python3" python3 --version
bn_prereq SHARED "no shared inputs (set BN_SHARED)" \
    test -d "$BN_SHARED/golden"
stories=$BN_SHARED/inputs/models/stories260K-hf
V=$BN_SRCDIR/t/data/arch-variants

# layout TP PP: options and the number of ranks
layout()
{
    n=$(($1 * $2))
    sizes="--tensor-parallel-size $1 --pipeline-parallel-size $2"
}

# A tokenizer of the right size, and prompts as ids: the variants have none.
test_expect_success 'prompts for models without a tokenizer' '
    python3 - <<-\EOF
	import json
	json.dump({"model": {"type": "BPE", "merges": [], "vocab":
	           {chr(0x100 + i): i for i in range(97)}}},
	          open("tokenizer.json", "w"))
	with open("ids", "w") as f:
	    for i in range(7):
	        ids = [(7 * i + 3 * k) % 97 for k in range(1 + 5 * i % 11)]
	        print(json.dumps({"ids": ids}), file=f)
	EOF
'
for variant in llama-untied llama-untied-bf16 llama3-rope mistral-window \
    qwen2-bias-tied qwen3-qknorm-tied
do
    test_expect_success "$variant: every layout, greedy and drawn" "
	generate()
	{
	    ranks=\$1
	    shift
	    bn_ranks \$ranks burnish-generate --model '$V/$variant' \
		--tokenizer . --device cpu --ignore-eos --max-new-tokens 6 \
		--batch-size 3 --input ids \"\$@\"
	} &&
	generate 1 >greedy &&
	generate 1 --temperature 1 --top-p 0.9 --seed 5 >drawn &&
	test \"\$(wc -l <greedy)\" -eq 7 && ! cmp -s greedy drawn &&
	for tp in 1 2; do for pp in 1 2; do
	    layout \$tp \$pp &&
	    generate \$n \$sizes >got && test_cmp greedy got &&
	    generate \$n \$sizes --temperature 1 --top-p 0.9 --seed 5 >got &&
	    test_cmp drawn got || return 1
	done; done
    "
done

# Stages round nothing; shards would, for their sums are of bf16.
test_expect_success 'computed in bf16, over stages' '
    rows()
    {
        ranks=$1
        shift
        bn_ranks $ranks burnish-generate --model "$V/llama-untied-bf16" \
            --tokenizer . --device cpu --dtype bfloat16 --ignore-eos \
            --max-new-tokens 6 --batch-size 3 --input ids "$@"
    } &&
    rows 1 >want && layout 1 2 && rows 2 $sizes >got && test_cmp want got
'

test_expect_success SHARED 'the golden answers on 2 and 4 ranks' '
    cat >golden.py <<-\EOF &&
	import json, os, sys
	rows = json.load(open(os.environ["BN_SHARED"]
	                      + "/golden/generate.json"))["rows"]
	if sys.argv[1] == "rows":
	    for r in rows:
	        print(json.dumps({"prompt": r["prompt_text"]}))
	else:
	    got = [json.loads(line) for line in sys.stdin]
	    assert [g["ids"] for g in got] == [r["new"] for r in rows], got
	EOF
    python3 golden.py rows >golden.jsonl &&
    for l in "2 1" "1 2" "4 1" "2 2" "1 4"; do
        layout $l &&
        bn_ranks $n burnish-generate --model "$stories" $sizes --ignore-eos \
            --max-new-tokens 40 --input golden.jsonl >out &&
        python3 golden.py check <out || return 1
    done
'

test_expect_success 'prompts of standard input reach every rank' '
    layout 2 1 &&
    bn_ranks 2 burnish-generate --model "$V/llama-untied" --tokenizer . \
        $sizes --max-new-tokens 6 --ignore-eos --input - <ids >got &&
    burnish-generate --model "$V/llama-untied" --tokenizer . \
        --max-new-tokens 6 --ignore-eos --input ids >want &&
    test_cmp want got
'

test_expect_success 'a fault of the first rank ends all' '
    layout 2 1 && printf "{}\n" >bad &&
    bn_ranks 2 burnish-generate --model "$V/llama-untied" --tokenizer . \
        $sizes --input bad >out 2>err
    test $? -eq 65 && grep "bad:1: expected an object" err &&
    test_must_be_empty out
'

test_expect_success 'ranks that do not fit are refused' '
    bn_ranks 2 burnish-generate --model "$V/llama-untied" --tokenizer . \
        --input ids >out 2>err
    test $? -eq 64 && grep "2 ranks were started, but" err &&
    test_expect_code 64 burnish-generate --model "$V/llama-untied" \
        --tokenizer . --pipeline-parallel-size 2 --input ids 2>err &&
    grep "1 ranks were started, but" err &&
    test_expect_code 64 burnish-generate --model x --timeout 0 a
'

test_done

#!/bin/sh
test_description='ids and texts equal those recorded from the reference library'
. "$BN_SRCDIR/t/tlib.sh"

in=$BN_SHARED/inputs
golden=$in/tokenizers/golden_ids.json
bn_require SHARED "no $golden" test -f "$golden"
bn_require JQ 'no jq' command -v jq

# case, folder
cases='gpt2 tokenizers/gpt2
phi-3 tokenizers/phi-3
qwen3 tokenizers/qwen3
minimind tokenizers/minimind
ko-bora tokenizers/ko-bora
torchtune tokenizers/torchtune
stories260K-hf models/stories260K-hf'

test_expect_success 'every recorded tokenizer is tested' '
	jq -r ".cases | keys[]" "$golden" | sort >want &&
	echo "$cases" | cut -d" " -f1 | sort >got &&
	test_cmp want got &&
	jq -c ".strings[]" "$golden" >strings &&
	test "$(wc -l <strings)" -eq 40
'

echo "$cases" >cases
while read -r name dir; do
	export name dir
	test_expect_success "$name: ids with special tokens" '
		jq -c ".cases[env.name].results[].ids" "$golden" >want &&
		burnish encode --tokenizer "$in/$dir" strings >got &&
		test_cmp want got
	'
	test_expect_success "$name: ids without special tokens" '
		jq -c ".cases[env.name].results[].ids_no_special" "$golden" >want &&
		burnish encode --no-special-tokens --tokenizer "$in/$dir" \
			strings >got &&
		test_cmp want got
	'
	test_expect_success "$name: decoded text" '
		jq -c ".cases[env.name].results[].ids" "$golden" >ids &&
		jq -S ".cases[env.name].results[].decoded" "$golden" >want &&
		burnish decode --skip-special-tokens --tokenizer "$in/$dir" \
			<ids >got.raw &&
		jq -S . got.raw >got &&
		test_cmp want got
	'
done <cases

test_expect_success 'what is not BPE is refused by name' '
	test_expect_code 65 burnish encode \
		--tokenizer "$in/tokenizers/t5-small" strings 2>err &&
	test "$(wc -l <err)" -eq 1 &&
	grep "model .Unigram. is not supported" err
'

# As the reference: ids of added tokens go by rule, whatever the file says.
test_expect_success 'added tokens of one id get two, with a warning' '
	mkdir twice &&
	cat >twice/tokenizer.json <<-\EOF &&
	{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
	 "added_tokens": [{"id": 3, "content": "x"}, {"id": 3, "content": "y"}]}
	EOF
	echo "\"yabx\"" | burnish encode --tokenizer twice >got 2>err &&
	echo "[4,2,3]" >want &&
	test_cmp want got &&
	grep "added token .y. has id 3 there; by the rules of the format it is 4" err
'

test_done

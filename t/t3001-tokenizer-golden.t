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

test_done

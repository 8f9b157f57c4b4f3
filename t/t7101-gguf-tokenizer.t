#!/bin/sh
# shellcheck disable=SC2016,SC2034
test_description='the tokenizer of a GGUF file gives the ids of the model it was made of'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require PYTHON "no python3" python3 --version

in=$BN_SHARED/inputs
golden=$in/tokenizers/golden_ids.json
BURNISH_TEMPLATES=$BN_SRCDIR/templates
export BURNISH_TEMPLATES golden
bn_prereq SHARED "no shared inputs (set BN_SHARED)" test -f "$golden"
bn_prereq JQ "no jq" command -v jq
quickstart=$BN_SRCDIR/jobs/quickstart/tokenizer/tokenizer.json

make_gguf()
{
    python3 "$BN_SRCDIR/t/convert/make_gguf.py" "$@"
}

# in, whatever its weights: converted into folder m
convert()
{
    rm -rf m && burnish convert --layout gguf-llama --allow-untrained \
        m.gguf m >report
}

# case, folder, kind, pre-tokenizer
while read -r name dir kind pre
do
    export name
    test_expect_success SHARED,JQ "$name: ids and texts are the recorded ones" "
	make_gguf '$in/$dir/tokenizer.json' $kind $pre m.gguf \
	    tokenizer.ggml.add_bos_token=false && convert &&
	jq -c '.strings[]' \"\$golden\" >strings &&
	jq -c '.cases[env.name].results[].ids_no_special' \"\$golden\" >want &&
	burnish encode --tokenizer m strings >got &&
	test_cmp want got &&
	burnish decode --skip-special-tokens --tokenizer m <want >got.raw &&
	burnish decode --skip-special-tokens --tokenizer '$in/$dir' <want \
	    >want.raw &&
	test_cmp want.raw got.raw
    "
done <<EOT
gpt2 tokenizers/gpt2 gpt2 gpt-2
minimind tokenizers/minimind gpt2 gpt-2
qwen3 tokenizers/qwen3 gpt2 qwen2
torchtune tokenizers/torchtune gpt2 llama-bpe
phi-3 tokenizers/phi-3 llama -
EOT

test_expect_success SHARED 'merges made of scores are those of the model' '
    make_gguf "$in/tokenizers/phi-3/tokenizer.json" llama - m.gguf \
	tokenizer.ggml.add_bos_token=false && convert &&
    python3 - "$in/tokenizers/phi-3/tokenizer.json" <<-\EOF
	import json, sys
	want = json.load(open(sys.argv[1]))["model"]["merges"]
	got = json.load(open("m/tokenizer.json"))["model"]["merges"]
	assert len(want) == len(got) == 61249
	assert want == got
	EOF
'

test_expect_success SHARED 'BOS and EOS go around a text as the file says' '
    t=$in/tokenizers/phi-3/tokenizer.json &&
    encode()
    {
        make_gguf "$t" llama - m.gguf tokenizer.ggml.bos_token_id=1 \
            tokenizer.ggml.eos_token_id=32000 "$@" && convert &&
        echo "\"Hi\"" | burnish encode --tokenizer m
    } &&
    encode >got && echo "[1,6324]" >want && test_cmp want got &&
    encode tokenizer.ggml.add_bos_token=false >got && echo "[6324]" >want &&
    test_cmp want got &&
    encode tokenizer.ggml.add_eos_token=true >got &&
    echo "[1,6324,32000]" >want && test_cmp want got &&
    encode tokenizer.ggml.add_space_prefix=false >got &&
    echo "[1,18567]" >want && test_cmp want got
'

test_expect_success 'special tokens and the template are carried over' '
    make_gguf "$quickstart" gpt2 gpt-2 m.gguf tokenizer.ggml.bos_token_id=0 \
	tokenizer.ggml.eos_token_id=1 tokenizer.ggml.eot_token_id=2 \
	tokenizer.ggml.padding_token_id=1 \
	"tokenizer.chat_template={{ messages[0].content }}!" &&
    convert &&
    grep "made of the file.s metadata" report &&
    python3 - "$quickstart" <<-\EOF &&
	import json, sys
	t = json.load(open("m/tokenizer.json"))
	c = json.load(open("m/tokenizer_config.json"))
	m = json.load(open("m/config.json"))
	v = {i: s for s, i in t["model"]["vocab"].items()}
	assert c["bos_token"] == v[0] and c["eos_token"] == v[1], c
	assert c["pad_token"] == v[1] and "unk_token" not in c, c
	assert m["eos_token_id"] == [1, 2] and m["bos_token_id"] == 0, m
	want = json.load(open(sys.argv[1]))
	def ids(t): return [(a["id"], a["content"]) for a in t["added_tokens"]]
	assert ids(t) == ids(want), ids(t)
	EOF
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}" |
	burnish render --tokenizer m >got &&
    echo "\"Hi!\"" >want && test_cmp want got
'

test_expect_success 'files of a folder go before the one inside' '
    make_gguf "$quickstart" gpt2 never m.gguf && rm -rf m &&
    burnish convert --layout gguf-llama --allow-untrained \
	--tokenizer "${quickstart%/*}" \
	m.gguf m >report &&
    ! grep metadata report && cmp "$quickstart" m/tokenizer.json
'

# refused TEXT KEY=VALUE...
refused()
{
    text=$1
    shift
    make_gguf "$quickstart" gpt2 gpt-2 m.gguf "$@" && rm -rf m &&
        test_expect_code 65 burnish convert --layout gguf-llama m.gguf m \
            2>err &&
        tail -n 1 err >last && cat last >&4 && grep -F -e "$text" last &&
        test ! -e m
}

test_expect_success 'what is not known is refused by name' '
    refused "pre-tokenizer '\''never'\'' is not supported: give --tokenizer" \
	tokenizer.ggml.pre=never &&
    refused "does not say how text is cut into words" \
	tokenizer.ggml.pre=none &&
    refused "tokenizer model '\''t5'\'' is not supported" \
	tokenizer.ggml.model=t5 &&
    refused "scores of 0" tokenizer.ggml.model=llama \
	tokenizer.ggml.add_bos_token=false &&
    refused "tokenizer.ggml.unknown_token_id'\'' is no id of its tokens" \
	tokenizer.ggml.unknown_token_id=99999999 &&
    refused "a text is to end with EOS, but metadata has no" \
	tokenizer.ggml.add_eos_token=true &&
    refused "metadata has no '\''tokenizer.ggml.merges'\''" \
	tokenizer.ggml.merges=none &&
    refused "types of 0" tokenizer.ggml.token_type=x &&
    refused "'\''llama.logit_scale'\'' of a GGUF file is not carried over" \
	llama.logit_scale=0.5
'

test_done

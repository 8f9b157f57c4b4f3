#!/bin/sh
# shellcheck disable=SC2016,SC2034
test_description='burnish convert catches conversions that went wrong'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
stories=$BN_SHARED/inputs/models/stories260K-hf
bn_require SHARED "no $stories" test -d "$stories"
bn_require PYTHON "no python3" python3 --version

BURNISH_TEMPLATES=$BN_SRCDIR/templates
export BURNISH_TEMPLATES
layouts=$BN_SRCDIR/templates/layouts

edit()
{
    python3 "$BN_SRCDIR/t/convert/edit.py" "$@"
}

# convert LAYOUT SOURCE [OPTION...]: into a new folder m
convert()
{
    layout=$1 source=$2
    shift 2
    rm -rf m && burnish convert --layout "$layout" --reader safetensors \
        --config "$stories/config.json" "$@" "$source" m
}

# caught TEXT LAYOUT SOURCE [OPTION...]: refused, nothing written
caught()
{
    text=$1
    shift
    test_expect_code 65 convert "$@" >out 2>err && cat err >&4 &&
        tail -n 1 err >last && grep -F -e "$text" last && test ! -e m &&
        test -z "$(find . -name '*.tmp.*')"
}

for layout in te te-grouped megatron hf-torch meta
do
    test_expect_success "a true model as $layout" "
	burnish convert --back --layout $layout --dtype fp32 '$stories' \
	    $layout.st &&
	convert $layout $layout.st --dtype fp32 >report &&
	grep 'logits of 48 tokens are those of the source, bit for bit' \
	    report &&
	grep '^wrong readings are worse than NLL 0.7.*: gate and up swapped' \
	    report &&
	cmp '$stories/model.safetensors' m/model.safetensors
    "
done

test_expect_success 'the fused matrices in the other order' '
    caught "near ln of the vocabulary" te-grouped te.st &&
    caught "near ln of the vocabulary" te te-grouped.st
'

test_expect_success 'heads in the other order for RoPE' '
    sed "s/^    form: neighbours//" "$layouts/meta.yaml" >plain.yaml &&
    caught "with heads in the other order for RoPE: the layout is wrong" \
	./plain.yaml meta.st &&
    sed "/to: .*q_proj.weight\$/a\\    form: neighbours
/to: .*k_proj.weight\$/a\\    form: neighbours" "$layouts/hf-torch.yaml" \
	>near.yaml &&
    caught "with heads in the other order for RoPE: the layout is wrong" \
	./near.yaml hf-torch.st
'

test_expect_success 'gate and up swapped' '
    awk "/gate_proj/ { gate = \$0; next } { print }
	/up_proj/ && gate { print gate; gate = \"\" }" "$layouts/te.yaml" \
	>swapped.yaml &&
    caught "with gate and up swapped: the layout is wrong" \
	./swapped.yaml te.st
'

test_expect_success 'a missing layer' '
    edit te.st cut.st drop layers.3.attn.qkv_proj.weight &&
    caught "3 missing (model.layers.3.self_attn.q_proj.weight" te cut.st &&
    sed "/num_hidden_layers/s/5/4/" "$stories/config.json" >four.json &&
    rm -rf m && test_expect_code 65 burnish convert --layout te --config \
	four.json --reader safetensors te.st m 2>err &&
    grep "that no rule of" err && test ! -e m
'

test_expect_success 'a lost rope theta' '
    sed "/rope_theta/s/10000.0/500000.0/" "$stories/config.json" \
	>theta.json &&
    rm -rf m && test_expect_code 65 burnish convert --layout te --config \
	theta.json --reader safetensors --tokenizer "$stories" \
	--reference "$stories" te.st m 2>err &&
    grep "does not compute what $stories does: mean KL" err &&
    test ! -e m &&
    convert te te.st --reference "$stories" >report &&
    grep "logits of 48 tokens are those of $stories: mean KL" report
'

test_expect_success 'another theta than the file says' '
    python3 "$BN_SRCDIR/t/convert/make_gguf.py" "$stories/tokenizer.json" \
	llama - t.gguf llama.rope.freq_base=500000.0 \
	tokenizer.ggml.add_bos_token=false &&
    rm -rf g && burnish convert --layout gguf-llama --allow-untrained \
	t.gguf g &&
    sed "/rope_theta/s/500000/10000/" g/config.json >lost.json &&
    test_expect_code 65 burnish convert --layout gguf-llama --config \
	lost.json t.gguf m2 2>err &&
    grep "lost.json says .rope_theta. 10000, but t.gguf says 500000" err &&
    test ! -e m2 && cp g/config.json . &&
    burnish convert --layout gguf-llama --config config.json \
	--allow-untrained t.gguf m2 \
	>report &&
    grep "the given config says what the file says" report
'

test_expect_success 'a padded vocabulary' '
    edit hf-torch.st padded.st pad model.embed_tokens.weight 64 &&
    caught "has 576 rows, but the config needs 512" hf-torch padded.st &&
    edit te.st padded.st pad embedding.weight 64 &&
    convert te padded.st >report &&
    grep "64 rows of padding of .embedding.weight. dropped" report &&
    sed "/vocab_size/s/512/500/" "$stories/config.json" >less.json &&
    rm -rf m && test_expect_code 65 burnish convert --layout te --config \
	less.json --tokenizer "$stories" --reader safetensors te.st m 2>err &&
    grep "tokenizer has ids up to 511, but the model has 500 rows" err &&
    test ! -e m
'

test_expect_success 'a stale lm_head' '
    edit te.st same.st copy embedding.weight lm_head.weight &&
    convert te same.st &&
    edit te.st stale.st turn embedding.weight lm_head.weight &&
    caught "lm_head" te stale.st
'

test_expect_success 'numbers of a reference' '
    python3 - "$stories/reference.json" <<-\EOF &&
	import json, sys
	r = json.load(open(sys.argv[1]))
	ids = r["greedy_ids"]
	def put(name, **o): json.dump(o, open(name, "w"))
	put("nll.json", ids=ids, nll=r["mean_ce_of_greedy_ids"])
	put("off.json", ids=ids, nll=r["mean_ce_of_greedy_ids"] + 0.1)
	put("bad.json", ids=[1, 512], nll=1)
	put("few.json", ids=[1, 2], logits=[[0] * 512])
	put("none.json", ids=[1, 2])
	EOF
    convert te te.st --reference nll.json >report &&
    grep "NLL of nll.json is 0.475., 0.47.* for the new folder" report &&
    caught "NLL of off.json is 0.5752 there" te te.st --reference off.json &&
    caught "must be a list of 2 to 512 ids" te te.st --reference bad.json &&
    caught "must be a list of 2 lists" te te.st --reference few.json &&
    caught "needs '\''logits'\'' or '\''nll'\''" te te.st \
	--reference none.json
'

test_expect_success 'what is not run is said' '
    convert te te.st --verify-tokens 0 >report &&
    grep "logits were not checked" report &&
    convert te-grouped te.st --allow-untrained >report &&
    grep "an untrained model is allowed" report &&
    test_expect_code 64 convert te te.st --verify-tokens -1
'

test_done

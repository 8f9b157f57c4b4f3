#!/bin/sh
test_description='burnish convert takes checkpoints in by declared layouts'
. "$BN_SRCDIR/t/tlib.sh"

BURNISH_TEMPLATES=$BN_SRCDIR/templates
export BURNISH_TEMPLATES
V=$BN_SRCDIR/t/data/arch-variants
export V

# A folder, out to each layout and in again: the same bytes.
while read -r layout model
do
    test_expect_success "$layout and back gives the bytes of $model" "
	rm -rf m.safetensors out &&
	burnish convert --back --layout $layout --dtype fp32 \
	    '$V/$model' m.safetensors &&
	burnish convert --layout $layout --reader safetensors --dtype fp32 \
	    --config '$V/$model/config.json' m.safetensors out &&
	cmp out/model.safetensors '$V/$model/model.safetensors'
    "
done <<EOT
phi3 llama-untied
te mistral-window
te-grouped llama3-rope
megatron qwen2-bias-tied
megatron qwen3-qknorm-tied
gguf-llama llama-untied
gguf-qwen qwen3-qknorm-tied
llama2c mistral-window
meta llama-untied
hf-torch qwen2-bias-tied
EOT

test_expect_success 'a report says what was checked' '
	burnish convert --back --layout te --dtype fp32 \
	    "$V/llama-untied" te.safetensors &&
	cp "$V/llama-untied/config.json" . &&
	echo "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"#\": 0}, \"merges\": []}}" \
	    >tokenizer.json &&
	burnish convert --layout te --reader safetensors --config config.json \
	    te.safetensors bf16 >got &&
	cat >want <<-EOF &&
	all 15 source tensors used once
	21 tensors as the config implies
	the way back gives the source bit for bit
	no matrix all zero, like initial weights, or equal to another
	21 tensors converted from F32 to BF16
	every value finite as BF16
	config.json says what the source'"'"'s config says: sizes, RoPE, eps, tying
	checksums of 1122 rows in 21 tensors of the new folder are those of the source
	tokenizer opens: 1 ids for 97 rows of embedding
	logits of 48 tokens are those of the source: mean KL N nats, NLL N against N
	no tokenizer for the text: NLL and wrong readings were not checked
	EOF
	sed "/KL/s/[0-9][0-9]*[.][0-9e-]*/N/g" got >got.n && test_cmp want got.n &&
	cmp tokenizer.json bf16/tokenizer.json &&
	grep "\"torch_dtype\": \"bfloat16\"" bf16/config.json
'

# fails LAYOUT SOURCE TEXT: class 65, that error line last, nothing written
fails()
{
    test_expect_code 65 burnish convert --layout "$1" --reader safetensors \
        --config config.json "$2" none 2>err &&
        tail -n 1 err >last &&
        printf 'error: burnish convert: %s\n' "$3" >want &&
        test_cmp want last &&
        test ! -e none && test -z "$(find . -name '*.tmp.*')"
}

test_expect_success 'another layout than the declared one is refused' '
	fails phi3 te.safetensors "te.safetensors: 14 tensors that no rule of '"'"'$BN_SRCDIR/templates/layouts/phi3.yaml'"'"' uses (embedding.weight, ...)"
'

test_expect_success 'a value that is not finite is refused' '
	cp te.safetensors nan.safetensors && chmod u+w nan.safetensors &&
	printf "\000\000\300\177" | dd of=nan.safetensors bs=1 conv=notrunc \
	    seek=$(($(wc -c <nan.safetensors) - 4)) 2>/dev/null &&
	fails te nan.safetensors "nan.safetensors: element 63 of model.norm.weight is not finite as BF16" &&
	burnish convert --layout te --reader safetensors --config config.json \
	    --allow-nonfinite nan.safetensors nan
'

test_expect_success 'a cut file is refused' '
	head -c 100000 te.safetensors >cut.safetensors &&
	test_expect_code 65 burnish convert --layout te --reader safetensors \
	    --config config.json cut.safetensors none 2>err &&
	grep "it is cut short" err && test ! -e none
'

test_expect_success 'a config of another size is refused' '
	sed "s/\"intermediate_size\": 40/\"intermediate_size\": 48/" \
	    "$V/llama-untied/config.json" >config.json &&
	fails te te.safetensors "te.safetensors: '"'"'layers.0.ffn.fc1_weight'"'"' has 80 rows, but the config needs 96" &&
	cp "$V/llama-untied/config.json" .
'

test_expect_success 'an output that is there is left alone' '
	mkdir there && echo mine >there/file &&
	test_expect_code 65 burnish convert --layout te --reader safetensors \
	    --config config.json te.safetensors there 2>err &&
	grep "is there already and not empty: nothing was saved" err &&
	test "$(ls there)" = file
'

test_expect_success 'a model that the file does not tell needs a config' '
	test_expect_code 65 burnish convert --layout te --reader safetensors \
	    te.safetensors none 2>err &&
	grep "does not say what model it is: give a config.json" err
'

test_expect_success 'wrong arguments are class 64' '
	test_expect_code 64 burnish convert a b &&
	test_expect_code 64 burnish convert --layout te a &&
	test_expect_code 64 burnish convert --layout te --dtype int4 a b &&
	test_expect_code 64 burnish convert --layout te --reader zip a b &&
	test_expect_code 64 burnish convert --laoyut te a b 2>err &&
	grep layout err &&
	test_expect_code 65 burnish convert --layout unknown a b
'

test_done

#!/bin/sh
# shellcheck disable=SC2016,SC2034
test_description='burnish convert: 8-bit weights, norms less 1, shards'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require PYTHON "no python3" python3 --version

BURNISH_TEMPLATES=$BN_SRCDIR/templates
export BURNISH_TEMPLATES
layouts=$BN_SRCDIR/templates/layouts
V=$BN_SRCDIR/t/data/arch-variants

edit()
{
    python3 "$BN_SRCDIR/t/convert/edit.py" "$@"
}

# convert LAYOUT SOURCE... [OPTION...]: into a new folder m, as fp32
convert()
{
    layout=$1
    shift
    rm -rf m && burnish convert --layout "$layout" --reader safetensors \
        --dtype fp32 --config "$model/config.json" "$@" m >report
}

# caught TEXT LAYOUT SOURCE...: refused, nothing written
caught()
{
    text=$1
    shift
    test_expect_code 65 convert "$@" 2>err && tail -n 1 err >last &&
        cat last >&4 && grep -F -e "$text" last && test ! -e m
}

# near: every value of m is what E4M3 makes of the model's: half a step of
# 2^-3 of the value, or of the least subnormal of a scale of the largest
near()
{
    python3 - "$model" <<-\EOF
	import json, math, struct, sys
	def read(path):
	    raw = open(path, "rb").read()
	    (n,) = struct.unpack("<Q", raw[:8])
	    head = json.loads(raw[8:8 + n])
	    head.pop("__metadata__", None)
	    return {k: struct.unpack("<%df" % math.prod(v["shape"]),
	                raw[8 + n + v["data_offsets"][0]:
	                    8 + n + v["data_offsets"][1]])
	            for k, v in head.items()}
	a = read(sys.argv[1] + "/model.safetensors")
	b = read("m/model.safetensors")
	assert a.keys() == b.keys()
	changed = 0
	for k in a:
	    most = max(map(abs, a[k]))
	    for x, y in zip(a[k], b[k]):
	        assert abs(x - y) <= abs(x) / 15.9 + most / 448 * 2 ** -10, (k, x, y)
	        changed += x != y
	assert changed > 1000, changed
	EOF
}

model=$V/llama-untied
test_expect_success 'bytes of E4M3 and a scale a matrix' '
    burnish convert --back --layout te --dtype fp32 "$model" te.st &&
    edit te.st fp8.st fp8 tensor _scale_inv 0 U8 &&
    convert te-fp8 fp8.st && near &&
    grep "^8 8-bit matrices multiplied by their scales" report &&
    grep "tensors converted from F8_E4M3 to F32" report &&
    edit te.st fp8.st fp8 tensor _scale_inv 0 && convert te-fp8 fp8.st && near
'

test_expect_success 'a scale a row, a scale a block' '
    sed "s/scale_of: tensor/scale_of: row/" "$layouts/te-fp8.yaml" >row.yaml &&
    cp "$layouts/te.yaml" . &&
    edit te.st fp8.st fp8 row _scale_inv 0 && convert ./row.yaml fp8.st &&
    near &&
    burnish convert --back --layout hf-torch --dtype fp32 "$model" hf.st &&
    edit hf.st fp8.st fp8 block _scale_inv 24 &&
    sed "s/scale_block: 128/scale_block: 24/" "$layouts/hf-fp8.yaml" \
	>block.yaml && cp "$layouts/hf-torch.yaml" . &&
    convert ./block.yaml fp8.st && near &&
    sed "s/^{/{\"quantization_config\": {\"quant_method\": \"fp8\"},/" \
	"$model/config.json" >config.json &&
    rm -rf m && burnish convert --layout ./block.yaml --dtype fp32 \
	--config config.json fp8.st m >report && near &&
    grep "quantization_config. left out" report &&
    ! grep quantization_config m/config.json
'

# exact: every matrix of m is what E5M2 says: a half without its lower byte,
# times the scale
exact()
{
    python3 - e5.st <<-\EOF
	import json, struct, sys
	def read(path):
	    raw = open(path, "rb").read()
	    (n,) = struct.unpack("<Q", raw[:8])
	    head = json.loads(raw[8:8 + n])
	    head.pop("__metadata__", None)
	    return {k: raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]
	            for k, v in head.items()}
	a, b = read(sys.argv[1]), read("m/model.safetensors")
	done = 0
	for k in a:
	    if k + "_scale_inv" not in a:
	        continue
	    (s,) = struct.unpack("<f", a[k + "_scale_inv"])
	    halves = struct.unpack("<%de" % len(a[k]),
	                           b"".join(bytes([0, c]) for c in a[k]))
	    assert b[k] == struct.pack("<%df" % len(halves),
	                               *(h * s for h in halves)), k
	    done += len(halves)
	assert done > 10000, done
	EOF
}

test_expect_success 'E5M2, by name and as bytes' '
    printf "base: hf-torch\nfp8_bytes: F8_E5M2\nscale_suffix: _scale_inv\nscale_of: tensor\n" \
	>e5.yaml && cp "$layouts/hf-torch.yaml" . &&
    edit hf.st e5.st fp8 tensor _scale_inv 0 F8_E5M2 E5M2 &&
    convert ./e5.yaml e5.st && exact &&
    grep "tensors converted from F8_E5M2 to F32" report &&
    edit hf.st e5.st fp8 tensor _scale_inv 0 U8 E5M2 &&
    convert ./e5.yaml e5.st && exact &&
    sed "s/F8_E5M2/F8_E4M3/" e5.yaml >e4.yaml && convert ./e4.yaml e5.st &&
    test_must_fail exact 2>err && grep AssertionError err
'

test_expect_success 'scales that do not fit are refused' '
    caught "which are not the scales that the layout declares" hf-fp8 fp8.st &&
    caught "is F8_E4M3, but the layout declares no scales" hf-torch fp8.st &&
    edit fp8.st cut.st drop \
	model.layers.1.mlp.up_proj.weight_scale_inv &&
    caught "up_proj.weight'\'' is F8_E4M3, but its scales are not there" \
	./block.yaml cut.st &&
    edit fp8.st more.st copy model.layers.1.mlp.up_proj.weight_scale_inv \
	model.norm.weight_scale_inv &&
    caught "1 tensors that no rule of" ./block.yaml more.st &&
    test_expect_code 64 burnish convert --back --layout te-fp8 "$model" x.st &&
    test ! -e x.st
'

for model in "$V/llama-untied" "$V/qwen3-qknorm-tied"
do
    test_expect_success "norms less 1: ${model##*/}" '
	burnish convert --back --layout megatron --dtype fp32 "$model" mg.st &&
	edit mg.st a.st minus-one "*layer_norm_weight" &&
	edit a.st b.st minus-one "*_layernorm.weight" &&
	rm -f less.st &&
	burnish convert --back --layout megatron-1p --dtype fp32 "$model" \
	    less.st && edit less.st less2.st none && edit b.st b2.st none &&
	edit mg.st plain.st none &&
	cmp b2.st less2.st && ! cmp -s plain.st less2.st &&
	convert megatron-1p less.st &&
	cmp "$model/model.safetensors" m/model.safetensors &&
	grep "norms of which the source holds the weight less 1" report &&
	convert megatron less.st --allow-zero &&
	! cmp -s "$model/model.safetensors" m/model.safetensors
    '
    test_expect_success "two shards: ${model##*/}" '
	burnish convert --back --layout megatron --dtype fp32 "$model" mg.st &&
	edit mg.st r0.st shard 0 2 2 && edit mg.st r1.st shard 1 2 2 &&
	convert megatron r0.st r1.st &&
	cmp "$model/model.safetensors" m/model.safetensors &&
	grep "tensors merged from shards" report
    '
done

model=$V/llama-untied
test_expect_success 'shards that do not fit are refused' '
    burnish convert --back --layout megatron --dtype fp32 "$model" mg.st &&
    edit mg.st r0.st shard 0 2 2 && edit mg.st r1.st shard 1 2 2 &&
    caught "but the config needs" megatron r0.st &&
    edit r1.st cut.st drop decoder.layers.1.mlp.linear_fc2.weight &&
    caught "linear_fc2.weight'\'' of rank 1 is missing" megatron r0.st cut.st &&
    edit r0.st cut.st drop decoder.layers.1.mlp.linear_fc2.weight &&
    caught "linear_fc2.weight'\'' of rank 1 is not there on rank 0" \
	megatron cut.st r1.st &&
    edit r1.st other.st minus-one decoder.final_layernorm.weight &&
    caught "final_layernorm.weight'\'' of rank 1 is not that of rank 0" \
	megatron r0.st other.st &&
    edit mg.st r2.st shard 1 4 2 &&
    caught "of another shape or format" megatron r0.st r2.st
'

for layout in te-layer te-layer-fused
do
    test_expect_success "$layout and back" "
	rm -f t.st && burnish convert --back --layout $layout --dtype fp32 \
	    '$model' t.st && convert $layout t.st &&
	cmp '$model/model.safetensors' m/model.safetensors
    "
done

test_expect_success 'layouts one on the other' '
    printf "base: b\n" >a.yaml && printf "base: a\n" >b.yaml &&
    caught "more than 4 layouts one on the other" ./a.yaml mg.st &&
    printf "skip: [x]\nbase: te\n" >a.yaml &&
    caught "a.yaml:2: comes first" ./a.yaml mg.st &&
    printf "base: te\nscale_of: block\n" >a.yaml &&
    caught "scale_of: block needs '\''scale_block'\''" ./a.yaml mg.st &&
    printf "base: te\nscale_block: x\n" >a.yaml &&
    caught "a.yaml:2: must be a number from 1: '\''x'\''" ./a.yaml mg.st
'

test_done

#!/bin/sh
test_description='a vocabulary that tensor ranks cannot share evenly trains under ZeRO stage 2'
. "${BN_SRCDIR:-$(dirname "$0")/../..}/t/tlib.sh"
. "$BN_SRCDIR/t/ranks/lib.sh"
bn_small_runs

# Sizes at which a range of gradients ends in a KV head of which tensor ranks
# have copies, elsewhere in it on each if what is before it were as long as it is.
mkdir odd
cat >odd/config.json <<EOT
{"model_type": "llama", "architectures": ["LlamaForCausalLM"],
 "vocab_size": 513, "hidden_size": 24, "intermediate_size": 16,
 "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1,
 "head_dim": 16, "max_position_embeddings": 512, "rms_norm_eps": 1e-05,
 "rope_theta": 10000.0, "tie_word_embeddings": true, "hidden_act": "silu",
 "initializer_range": 0.06, "bos_token_id": 1, "eos_token_id": 2,
 "torch_dtype": "float32"}
EOT
bn_small_yaml sft odd >odd.yaml

test_expect_success 'one rank' 'bn_train 1 odd-1 odd'
while read -r n name sets; do
    test_expect_success "$n ranks: $name" '
        bn_train $n $name odd zero_stage=2 $sets && $compare odd-1 $name 10
    '
done <<EOT
8 copied-heads $tp=2 $cp=2 $batch=2
4 norms-of-rows $tp=2 $batch=2 sequence_parallel=true
EOT
test_done

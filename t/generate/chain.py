"""Write a model whose answers are known: chain.py DIR

Every token is followed by one other, whatever came before: embedding and
head are a permutation, the layer in between is too small to matter. After
"a" come the PIECES, then </s>, then "a" again; after "b" and "c" the other.
Pieces are bytes, and characters are cut between them.
"""
import json
import os
import struct
import sys

PIECES = [b" Hi", b" \xec\x95", b"\x88\xeb", b"\x85\x95", b" ST", b"O",
          b"P!", b"\xc3", b"\xa9", b"."]
HIDDEN = 64


def byte_names():
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names, extra = {b: chr(b) for b in keep}, 256
    for b in range(256):
        if b not in names:
            names[b] = chr(extra)
            extra += 1
    return names


def chain():
    names = byte_names()
    tokens = ["</s>", "a", "b", "c"]
    tokens += ["".join(names[b] for b in p) for p in PIECES]
    follows = {1: 4, 2: 3, 3: 2, 0: 1}
    for i in range(4, len(tokens)):
        follows[i] = i + 1 if i + 1 < len(tokens) else 0
    return tokens, follows


def write_tokenizer(folder, tokens):
    level = {"type": "ByteLevel", "add_prefix_space": False,
             "trim_offsets": True, "use_regex": True}
    json.dump({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": 0, "content": "</s>", "special": True,
                          "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False}],
        "normalizer": None, "pre_tokenizer": level, "post_processor": None,
        "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "merges": [],
                  "vocab": {t: i for i, t in enumerate(tokens)}},
    }, open(os.path.join(folder, "tokenizer.json"), "w"))
    json.dump({
        "eos_token": "</s>",
        "chat_template": "{% for m in messages %}{{ m.content }}"
                         "{% endfor %}{% if add_generation_prompt %}a"
                         "{% endif %}",
    }, open(os.path.join(folder, "tokenizer_config.json"), "w"))


def write_weights(folder, vocab, follows):
    small = [1e-6 * (i % 7 - 3) for i in range(4 * HIDDEN * HIDDEN)]
    one = [1.0] * HIDDEN
    embed, head = ([0.0] * (vocab * HIDDEN) for _ in range(2))
    for i in range(vocab):
        embed[i * HIDDEN + i] = 1.0
        head[follows[i] * HIDDEN + i] = 1.0
    layer = "model.layers.0."
    tensors = {
        "model.embed_tokens.weight": ([vocab, HIDDEN], embed),
        "model.norm.weight": ([HIDDEN], one),
        "lm_head.weight": ([vocab, HIDDEN], head),
        layer + "input_layernorm.weight": ([HIDDEN], one),
        layer + "post_attention_layernorm.weight": ([HIDDEN], one),
        layer + "mlp.gate_proj.weight": ([HIDDEN, HIDDEN], small),
        layer + "mlp.up_proj.weight": ([HIDDEN, HIDDEN], small),
        layer + "mlp.down_proj.weight": ([HIDDEN, HIDDEN], small),
    }
    for p in "qkvo":
        tensors[layer + f"self_attn.{p}_proj.weight"] = (
            [HIDDEN, HIDDEN], small)
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        raw = struct.pack(f"<{n}f", *values[:n])
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def main():
    folder = sys.argv[1]
    tokens, follows = chain()
    os.makedirs(folder, exist_ok=True)
    json.dump({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_size": HIDDEN, "intermediate_size": HIDDEN,
        "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 2, "vocab_size": len(tokens),
        "max_position_embeddings": 40, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False, "hidden_act": "silu",
        "torch_dtype": "float32",
    }, open(os.path.join(folder, "config.json"), "w"))
    write_tokenizer(folder, tokens)
    write_weights(folder, len(tokens), follows)


main()

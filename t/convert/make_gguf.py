"""Write a GGUF file of a model of one layer with a given tokenizer:

    make_gguf.py TOKENIZER.json KIND PRE OUT.gguf [KEY=VALUE...]

KIND is gpt2 or llama (PRE is then not used). The metadata is what llama.cpp's
converter writes for such a tokenizer: tokens in the order of their ids with
types, and merges, or scores: -1, -2 ... in the order of ids, with runs of
spaces below all others, as SentencePiece gives them. KEY=VALUE are more
pairs: integers, true, false, numbers with a point, or text.
"""
import json
import struct
import sys

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
MARK = "\u2581"


def tokens(spec):
    by_id = {i: (s, NORMAL) for s, i in spec["model"]["vocab"].items()}
    for a in spec["added_tokens"]:
        kind = CONTROL if a["special"] else USER
        if a["content"] == spec["model"].get("unk_token"):
            kind = UNKNOWN
        by_id[a["id"]] = (a["content"], kind)
    size = max(by_id) + 1
    return [by_id.get(i, ("[PAD%d]" % i, UNUSED)) for i in range(size)]


def score(i, text):
    if i < 259:
        return 0.0
    return -1e9 if len(text) > 1 and set(text) == {MARK} else -float(i - 259)


def number(v, fmt):
    return struct.pack("<" + fmt, v)


def text(s):
    b = s.encode()
    return number(len(b), "Q") + b


def value(v):
    """Its type, and its bytes."""
    if isinstance(v, bool):
        return 7, number(v, "B")
    if isinstance(v, int):
        return 4, number(v, "I")
    if isinstance(v, float):
        return 6, number(v, "f")
    if isinstance(v, str):
        return 8, text(v)
    kind = value(v[0])[0]
    return 9, (number(kind, "I") + number(len(v), "Q")
               + b"".join(value(x)[1] for x in v))


def model(vocab):
    """Hidden 4, one head of 4, intermediate 4: rows of small numbers."""
    shapes = {"token_embd.weight": (vocab, 4), "output_norm.weight": (4,),
              "blk.0.attn_norm.weight": (4,), "blk.0.ffn_norm.weight": (4,)}
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate",
                 "ffn_up", "ffn_down"):
        shapes["blk.0.%s.weight" % name] = (4, 4)
    seed = 1
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = []
        for _ in range(count):
            seed = seed * 1103515245 + 12345 & 0x7fffffff
            values.append((seed >> 8) % 2001 / 1000 - 1)
        yield name, shape, struct.pack("<%de" % count, *values)


def parse(word):
    key, _, v = word.partition("=")
    if v in ("true", "false"):
        return key, v == "true"
    try:
        return key, float(v) if "." in v else int(v)
    except ValueError:
        return key, v


def main():
    source, kind, pre, out = sys.argv[1:5]
    spec = json.load(open(source))
    list_ = tokens(spec)
    pairs = {
        "general.architecture": "llama", "llama.block_count": 1,
        "llama.context_length": 64, "llama.embedding_length": 4,
        "llama.feed_forward_length": 4, "llama.attention.head_count": 1,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": 4,
        "tokenizer.ggml.model": kind,
        "tokenizer.ggml.tokens": [t for t, _ in list_],
        "tokenizer.ggml.token_type": [k for _, k in list_],
    }
    if kind == "gpt2":
        pairs["tokenizer.ggml.pre"] = pre
        merges = spec["model"]["merges"]
        pairs["tokenizer.ggml.merges"] = [
            m if isinstance(m, str) else " ".join(m) for m in merges]
    else:
        pairs["tokenizer.ggml.scores"] = [
            score(i, t) for i, (t, _) in enumerate(list_)]
        pairs["tokenizer.ggml.token_type"] = [
            BYTE if len(t) == 6 and t.startswith("<0x") else k
            for t, k in list_]
    pairs.update(parse(w) for w in sys.argv[5:])
    pairs = {k: v for k, v in pairs.items() if v != "none"}
    head, data, at = b"", b"", 0
    for key, v in pairs.items():
        number_of, b = value(v)
        head += text(key) + number(number_of, "I") + b
    tensors = list(model(len(list_)))
    for name, shape, b in tensors:
        head += text(name) + number(len(shape), "I")
        head += b"".join(number(d, "Q") for d in reversed(shape))
        head += number(1, "I") + number(at, "Q")
        data += b + b"\0" * (-len(b) % 32)
        at = len(data)
    head = (b"GGUF" + number(3, "I") + number(len(tensors), "Q")
            + number(len(pairs), "Q") + head)
    with open(out, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + data)


main()

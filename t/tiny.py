"""A world to test in: a model, its tokenizer and some rows, all tiny.

    tiny.py DIR       makes DIR/model, DIR/sft.jsonl, DIR/pairs.jsonl
                      and DIR/run.yaml (an SFT run of four steps)

The model is one of the architecture variants (t/data), which has
97 ids: space, <s>, </s> and the printable characters of ASCII.
"""
import json
import os
import shutil
import struct
import sys

SRC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data",
                   "arch-variants")

RUN = {"task": "sft", "model_name_or_path": "model",
       "train_file": "sft.jsonl", "output_dir": "out", "max_steps": 4,
       "per_device_train_batch_size": 4, "learning_rate": 1e-3,
       "logging_steps": 1, "max_length": 64, "token_cache_dir": "cache",
       "num_threads": 1}

WORDS = ("red green blue cat dog bird stone river cloud tree runs sings "
         "falls grows waits old small quiet bright slow").split()


def tokenizer():
    """Byte-level BPE without merges, one id a character."""
    vocab = {"\u0120": 0, "<s>": 1, "</s>": 2}
    for c in range(33, 127):
        vocab[chr(c)] = len(vocab)
    special = [{"id": i, "content": t, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False, "special": True}
               for i, t in ((1, "<s>"), (2, "</s>"))]
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": special, "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False,
                              "trim_offsets": True, "use_regex": True},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True,
                        "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False,
                      "byte_fallback": False, "ignore_merges": False,
                      "vocab": vocab, "merges": []}}


def words(i, n):
    """n words that depend on i alone."""
    out = []
    x = i * 2654435761 + 12345
    for _ in range(n):
        x = (x * 1103515245 + 12345) & 0x7fffffff
        out.append(WORDS[(x >> 8) % len(WORDS)])
    return " ".join(out)


def sft_rows(n):
    return [{"prompt": words(i, 2 + i % 3) + ": ",
             "completion": words(i + 500, 1 + i % 4)} for i in range(n)]


def pair_rows(n):
    return [{"prompt": words(i, 2 + i % 3) + ": ",
             "chosen": words(i + 500, 1 + i % 4),
             "rejected": words(i + 900, 2 + i % 3)} for i in range(n)]


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def jsonl(path, rows):
    write(path, "".join(json.dumps(r, ensure_ascii=False) + "\n"
                        for r in rows))


def yaml(keys):
    return "".join(f"{k}: {v}\n" for k, v in keys.items())


def write_tokenizer(path):
    write(path + "/tokenizer.json", json.dumps(tokenizer()))
    write(path + "/tokenizer_config.json",
          json.dumps({"bos_token": "<s>", "eos_token": "</s>",
                      "tokenizer_class": "PreTrainedTokenizerFast"}))


def model(path, variant="llama-untied"):
    os.makedirs(path)
    for name in ("config.json", "model.safetensors"):
        shutil.copyfile(os.path.join(SRC, variant, name),
                        os.path.join(path, name))
    write_tokenizer(path)


def world(path, variant="llama-untied"):
    os.makedirs(path, exist_ok=True)
    model(path + "/model", variant)
    jsonl(path + "/sft.jsonl", sft_rows(24))
    jsonl(path + "/pairs.jsonl", pair_rows(24))
    write(path + "/run.yaml", yaml(RUN))


def read_tensors(path):
    """[(name, dtype, shape, bytes)] of a safetensors file."""
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
        body = f.read()
    head.pop("__metadata__", None)
    return [(k, v["dtype"], v["shape"],
             body[v["data_offsets"][0]:v["data_offsets"][1]])
            for k, v in head.items()]


def write_tensors(path, tensors):
    """The opposite; a name may be there twice."""
    entries, body = [], b""
    for name, dtype, shape, data in tensors:
        entries.append(json.dumps(name) + ":" + json.dumps(
            {"dtype": dtype, "shape": shape,
             "data_offsets": [len(body), len(body) + len(data)]}))
        body += data
    head = ("{" + ",".join(entries) + "}").encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + body)


if __name__ == "__main__":
    world(sys.argv[1], *sys.argv[2:])

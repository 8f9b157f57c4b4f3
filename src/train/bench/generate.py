"""Throughput of burnish-generate against transformers' generate:

    generate.py BURNISH_GENERATE [ROUNDS]

A Llama of 135 M parameters (SmolLM2's sizes) with random bf16 weights, 8
prompts of 32 ids, 32 new tokens each, greedy, no end of text; float32
arithmetic, the same threads. The peer has its weights loaded and has answered
once. Rounds alternate; a figure is the best of each. Both sides count the
time of answering alone. Prints "bench NAME RATIO target T ours A peer B UNIT"
and fails below the target, or if most answers differ.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

ROWS, PROMPT, NEW, TARGET = 8, 32, 32, 3


def make(folder):
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536,
        num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
        max_position_embeddings=2048, tie_word_embeddings=True,
        bos_token_id=1, eos_token_id=2, pad_token_id=2)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    json.dump({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}},
              open(folder + "/tokenizer.json", "w"))


def ours(program, folder, rows):
    out = subprocess.run(
        [program, "--model", folder, "--device", "cpu", "--ignore-eos",
         "--batch-size", str(ROWS), "--max-new-tokens", str(NEW), "--threads",
         str(torch.get_num_threads()), "--input", rows],
        check=True, capture_output=True, text=True)
    seconds = float(re.search(r"new tokens in ([0-9.]+) s", out.stderr)[1])
    return seconds, [json.loads(s)["ids"] for s in out.stdout.splitlines()]


def peer(model, ids):
    began = time.monotonic()
    with torch.inference_mode():
        out = model.generate(ids, attention_mask=torch.ones_like(ids),
                             max_new_tokens=NEW, min_new_tokens=NEW,
                             do_sample=False)
    return time.monotonic() - began, out[:, PROMPT:].tolist()


def main():
    program = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory() as folder:
        make(folder)
        prompts = [[(37 * i + 11 * k) % 49000 + 20 for k in range(PROMPT)]
                   for i in range(ROWS)]
        rows = folder + "/rows.jsonl"
        with open(rows, "w") as f:
            for p in prompts:
                f.write(json.dumps({"ids": p}) + "\n")
        model = LlamaForCausalLM.from_pretrained(folder).float().eval()
        ids = torch.tensor(prompts)
        peer(model, ids)
        a, b = [], []
        for _ in range(rounds):
            seconds, said = ours(program, folder, rows)
            a.append(seconds)
            seconds, other = peer(model, ids)
            b.append(seconds)
    # random weights have near ties, where rounding decides
    first = sum(x[0] == y[0] for x, y in zip(said, other))
    if len(said) != ROWS or first < ROWS - 2:
        sys.exit("the first tokens of %d of %d rows agree" % (first, ROWS))
    new, ratio = ROWS * NEW, min(b) / min(a)
    print("bench generate-135m-fp32-batch8 %.2f target %g ours %.1f peer "
          "%.1f tokens/s" % (ratio, TARGET, new / min(a), new / min(b)))
    sys.exit(ratio < TARGET)


main()

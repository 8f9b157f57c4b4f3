"""Compare models of random shape with transformers.

    models.py BUILDDIR WORK [COUNT [SEED]]

Each is made and saved by transformers: a family, sizes, and what else its
config.json may say. In fp32, three things have to agree: log-probabilities
(burnish-train --score), greedy answers (burnish-generate), and five steps of
AdamW: losses, norms of the gradient and the folder that is written, where torch
takes the gradients of rows on their own and burnish-train packs them. A failure
prints the seed that makes the model again, and leaves its folder.
"""
import json
import os
import random
import shutil
import subprocess
import sys

import torch
from transformers import (AutoModelForCausalLM, LlamaConfig, MistralConfig,
                          Qwen2Config, Qwen3Config)
from transformers import logging as hf_logging

from letters import LETTERS, save_tokenizer

BUILD, WORK = sys.argv[1:3]
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 24
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
LOGP, LOSS, NORM, MOVED = 2e-4, 2e-5, 2e-3, 1e-3
STEPS, BATCH, RATE, EPS = 5, 3, 2e-3, 1e-4
CLOSE = 1e-3  # two logits that may come out in either order

hf_logging.set_verbosity_error()
hf_logging.disable_progress_bar()


def rope(r, length):
    kind = r.choice(["default", "default", "linear", "dynamic", "llama3",
                     "yarn"])
    p = {"rope_type": kind, "rope_theta": r.choice([100.0, 1e4, 5e5])}
    if kind != "default":
        p["factor"] = r.choice([1.5, 2.0, 8.0])
    if kind in ("llama3", "yarn"):
        p["original_max_position_embeddings"] = r.choice([16, 32, length])
    if kind == "llama3":
        p.update(low_freq_factor=1.0, high_freq_factor=r.choice([2.0, 4.0]))
    if kind == "yarn":
        for key, value in (("beta_fast", 16.0), ("beta_slow", 2.0),
                           ("attention_factor", 1.3), ("truncate", False)):
            if r.random() < 0.3:
                p[key] = value
        if r.random() < 0.3:
            p.update(mscale=1.0, mscale_all_dim=r.choice([0.5, 1.0]))
    return p


def config(r):
    kv = r.choice([1, 2, 3])
    heads = kv * r.choice([1, 2, 4])
    hd = r.choice([4, 8, 16, 20, 32])
    layers = r.randint(1, 4)
    length = r.choice([24, 64, 256])
    cls = r.choice([LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config])
    keys = dict(
        vocab_size=r.choice([31, 64, 97, 257]),
        hidden_size=r.choice([24, 40, 64]),
        intermediate_size=r.choice([16, 36, 88]), num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=kv, head_dim=hd,
        max_position_embeddings=length, rms_norm_eps=r.choice([1e-6, 1e-5]),
        tie_word_embeddings=r.random() < 0.5, rope_parameters=rope(r, length),
        bos_token_id=1, eos_token_id=2, pad_token_id=None)
    if cls in (LlamaConfig, Qwen3Config):
        keys["attention_bias"] = r.random() < 0.4
    window = r.choice([None, 1, 2, 7, 40])
    if cls is MistralConfig:
        keys["sliding_window"] = window
    if cls in (Qwen2Config, Qwen3Config) and window:
        keys.update(sliding_window=window, use_sliding_window=True,
                    max_window_layers=r.randint(0, layers))
        if r.random() < 0.3:
            keys["layer_types"] = [
                r.choice(["full_attention", "sliding_attention"])
                for _ in range(layers)]
    if cls is LlamaConfig:  # transformers wants a multiple of heads
        keys["hidden_size"] = heads * r.choice([4, 10, hd])
    return cls(**keys)


def fill(model, gen):
    """Weights large enough that every part matters."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            x = torch.randn(p.shape, generator=gen)
            if "norm" in name:
                p.copy_(1 + 0.3 * x)
            elif p.dim() == 1:
                p.copy_(0.3 * x)
            else:
                p.copy_(1.2 * x / p.shape[1] ** 0.5)


def lines(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        for r in rows:
            f.write(json.dumps(r) + "\n")


def run_file(folder, **keys):
    keys = {"task": "sft", "model_name_or_path": folder + "/hf",
            "train_file": folder + "/train.jsonl", "max_length": 256,
            "output_dir": folder + "/out", **keys}
    with open(folder + "/run.yaml", "w", encoding="utf-8") as f:
        for key, value in keys.items():
            f.write(f"{key}: {value}\n")
    return folder + "/run.yaml"


def call(*args):
    done = subprocess.run(args, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise AssertionError(done.stderr.strip().splitlines()[-1])
    return [json.loads(x) for x in done.stdout.splitlines()
            if x.startswith("{")]


def logits(model, ids):
    """Of a row on its own: dynamic RoPE of transformers stays at the longest
    row that it met, until there is a short one."""
    if model.config.rope_parameters["rope_type"] == "dynamic":
        with torch.no_grad():
            model(torch.tensor([[0]]))
    return model(torch.tensor([ids])).logits[0]


@torch.no_grad()
def score(folder, model, ids):
    lines(folder + "/score.jsonl", [{"ids": x} for x in ids])
    got = call(BUILD + "/burnish-train", "--score", folder + "/score.jsonl",
               run_file(folder))
    worst = 0.0
    for line, x in zip(got, ids, strict=True):
        want = logits(model, x)[:-1].double().log_softmax(-1).gather(
            1, torch.tensor(x[1:])[:, None])
        off = torch.tensor(line["logp"], dtype=torch.float64) - want[:, 0]
        worst = max(worst, off.abs().max().item())
    assert worst <= LOGP, f"log-probabilities differ by {worst:.1e}"


@torch.no_grad()
def answers(folder, model, ids):
    lines(folder + "/ask.jsonl", [{"ids": x} for x in ids])
    got = call(BUILD + "/burnish-generate", "--model", folder + "/hf",
               "--input", folder + "/ask.jsonl", "--max-new-tokens", "20",
               "--ignore-eos", "--batch-size", "3")
    for line, x in zip(got, ids, strict=True):
        made = line["ids"]
        assert len(made) == 20, f"{len(made)} tokens ({line['stop_reason']})"
        for i, token in enumerate(made):
            last = logits(model, x + made[:i])[-1]
            short = (last.max() - last[token]).item()
            assert short <= CLOSE, (f"token {i} after {len(x)}: {token} is "
                                    f"{short:.1e} below the best")


def train(folder, model, r):
    rows = ["".join(r.choice(LETTERS) for _ in range(r.randint(1, 60)))
            for _ in range(STEPS * BATCH)]
    lines(folder + "/train.jsonl", [{"text": x} for x in rows])
    call(BUILD + "/burnish-train", run_file(
        folder, max_steps=STEPS, per_device_train_batch_size=BATCH,
        learning_rate=RATE, lr_scheduler_type="constant", logging_steps=1,
        adam_epsilon=EPS, max_grad_norm=0, shuffle="false",
        save_strategy="no", add_bos="true",
        activation_recompute=r.choice(["none", "attention", "full"])))
    with open(folder + "/out/metrics.jsonl", encoding="utf-8") as f:
        got = [m for m in map(json.loads, f) if m["kind"] == "train"]
    assert len(got) == STEPS, f"{len(got)} steps"
    opt = torch.optim.AdamW(model.parameters(), RATE, eps=EPS, weight_decay=0)
    for s in range(STEPS):
        ids = [[1, *(3 + LETTERS.index(c) for c in x), 2]
               for x in rows[s * BATCH:(s + 1) * BATCH]]
        opt.zero_grad()
        loss = sum(torch.nn.functional.cross_entropy(
            logits(model, x)[:-1], torch.tensor(x[1:]), reduction="sum") for x in ids) / sum(len(x) - 1 for x in ids)
        loss.backward()
        norm = torch.nn.utils.get_total_norm(
            [p.grad for p in model.parameters() if p.grad is not None])
        opt.step()
        for key, want, most in (("loss", loss.item(), LOSS),
                                ("grad_norm", norm.item(), NORM)):
            off = abs(got[s][key] / want - 1)
            assert off <= most, (f"step {s + 1}: {key} {got[s][key]:.7g}, "
                                 f"torch {want:.7g}")
    written(folder + "/out/model", model)


def written(folder, model):
    """The folder that the run wrote, as transformers loads it."""
    start = AutoModelForCausalLM.from_pretrained(
        os.path.dirname(os.path.dirname(folder)) + "/hf", dtype=torch.float32)
    made, odd = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True)
    assert not any(odd.values()), odd
    off = moved = 0.0
    for a, b, c in zip(made.parameters(), model.parameters(),
                       start.parameters(), strict=True):
        off += (a - b).double().square().sum().item()
        moved += (b - c).double().square().sum().item()
    part = (off / moved) ** 0.5
    assert part <= MOVED, f"weights differ by {part:.1e} of how far they moved"


def one(seed):
    r = random.Random(seed)
    conf = config(r)
    folder = f"{WORK}/model-{seed}"
    os.makedirs(folder)
    gen = torch.Generator().manual_seed(seed)
    model = AutoModelForCausalLM.from_config(
        conf, attn_implementation="eager", dtype=torch.float32).eval()
    fill(model, gen)
    model.save_pretrained(folder + "/hf", max_shard_size=r.choice(
        ["20KB", "1GB"]))
    save_tokenizer(folder + "/hf")
    ids = [torch.randint(conf.vocab_size, (n,), generator=gen).tolist()
           for n in (2, 4, 33, 236, r.randint(2, 100))]
    what = f"{conf.model_type} {conf.rope_parameters['rope_type']}"
    try:
        lines(folder + "/train.jsonl", [{"text": "abc"}])
        score(folder, model, ids)
        answers(folder, model, [
            x for x in ids if len(x) <= conf.max_position_embeddings - 20])
        train(folder, model, r)
    except AssertionError as e:
        print(f"not ok - model of seed {seed}, {what}: {e} ({folder})")
        return False
    shutil.rmtree(folder)
    print(f"ok - model of seed {seed}, {what}", flush=True)
    return True


def main():
    torch.set_num_threads(1)
    bad = sum(not one(SEED + i) for i in range(COUNT))
    sys.exit(bad > 0)


main()

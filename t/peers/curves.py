"""curves.py BURNISH_TRAIN TOKENIZER TMP: see tensorboard.sh."""
import json
import os
import shutil
import struct
import subprocess
import sys

import torch
import transformers
from tensorboard.backend.event_processing.event_accumulator import (
    EventAccumulator)

TRAIN, TOKENIZER, TMP = sys.argv[1:]
STEPS, LR = 23, 1e-3
CONFIG = dict(architectures=["LlamaForCausalLM"], model_type="llama",
              hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
              num_key_value_heads=1, intermediate_size=48, vocab_size=2048,
              rms_norm_eps=1e-5, max_position_embeddings=128)
FAILED = []


def check(name, good, why=""):
    print(f"{'ok' if good else 'not ok'} - {name}{'' if good else ': '}"
          f"{'' if good else why}", flush=True)
    if not good:
        FAILED.append(name)


def write_inputs():
    with open(TMP + "/config.json", "w", encoding="utf-8") as f:
        json.dump(CONFIG, f)
    with open(TMP + "/rows.jsonl", "w", encoding="utf-8") as f:
        for i in range(40):
            f.write(json.dumps({"prompt": f"row {i} says",
                                "chosen": f" {i} times {i}",
                                "rejected": " nothing"}) + "\n")


def train(name, **keys):
    """A run of burnish-train; its records."""
    keys = {**dict(task="sft", output_dir=f"{TMP}/{name}", init="random",
                   config_name=TMP + "/config.json",
                   tokenizer_name_or_path=TOKENIZER,
                   train_file=TMP + "/rows.jsonl", max_steps=STEPS,
                   learning_rate=LR, logging_steps=1, max_length=32,
                   per_device_train_batch_size=2, save_strategy="no"), **keys}
    if keys["task"] == "sft":
        keys["columns.completion"] = "chosen"
    path = f"{TMP}/{name}.yaml"
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(f"{k}: {v}\n" for k, v in keys.items())
    done = subprocess.run([TRAIN, path], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{path}: {done.stderr}")
    with open(f"{TMP}/{name}/metrics.jsonl", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


# --- event files ------------------------------------------------------------

def as_float(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def wanted(records):
    """{tag: {step: value}} of what metrics.jsonl says."""
    tags = {}
    for r in records:
        for key, value in r.items():
            if key in ("step", "epoch", "time", "kind"):
                continue
            evaluated = key.startswith("eval_")
            tag = ("eval/" + key[5:]) if evaluated else "train/" + key
            if r["kind"] in ("train", "eval"):
                tags.setdefault(tag, {})[r["step"]] = as_float(value)
    return tags


def event_files():
    records = train("orpo", task="orpo", report_to="tensorboard",
                    eval_split=0.2, eval_strategy="steps", eval_steps=5)
    events = EventAccumulator(TMP + "/orpo", size_guidance={"scalars": 0})
    events.Reload()
    got = {tag: {e.step: e.value for e in events.Scalars(tag)}
           for tag in events.Tags()["scalars"]}
    want = wanted(records)
    check("TensorBoard shows the tags of metrics.jsonl",
          got.keys() == want.keys(), str(got.keys() ^ want.keys()))
    for tag in sorted(got.keys() & want.keys()):
        check(f"{tag}, {len(want[tag])} values", got[tag] == want[tag],
              f"{got[tag]}, not {want[tag]}")


# --- schedules --------------------------------------------------------------

def schedule(make):
    """Learning rates of each step as a scheduler of transformers has them."""
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([p], lr=LR)
    s, rates = make(optimizer), []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        s.step()
    return rates


def same_rates(name, make, **keys):
    got = [r["learning_rate"] for r in train("rates", **keys)
           if r["kind"] == "train"]
    want = schedule(make)
    check(name, len(got) == STEPS
          and all(abs(a - b) <= 1e-12 for a, b in zip(got, want)),
          f"{got}, not {want}")
    shutil.rmtree(TMP + "/rates")


def schedules():
    for kind in ("linear", "cosine", "constant_with_warmup"):
        for warm in (0, 5):
            same_rates(f"{kind}, {warm} steps of warm-up",
                       lambda o: transformers.get_scheduler(
                           kind, o, num_warmup_steps=warm,
                           num_training_steps=STEPS),
                       lr_scheduler_type=kind, warmup_steps=warm)
    same_rates("cosine to a fifth, by a share",
               lambda o: transformers.optimization
               .get_cosine_with_min_lr_schedule_with_warmup(
                   o, 3, STEPS, min_lr_rate=0.2),
               lr_scheduler_type="cosine", warmup_ratio=0.13,
               min_lr_ratio=0.2)
    for decay in ("cosine", "linear"):
        same_rates(f"warmup_stable_decay, {decay}",
                   lambda o: transformers.get_wsd_schedule(
                       o, num_warmup_steps=4, num_decay_steps=7,
                       num_stable_steps=STEPS - 11, decay_type=decay),
                   lr_scheduler_type="warmup_stable_decay", warmup_steps=4,
                   lr_decay_steps=7, lr_decay_type=decay)


os.makedirs(TMP, exist_ok=True)
write_inputs()
event_files()
schedules()
sys.exit(1 if FAILED else 0)

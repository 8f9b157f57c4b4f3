"""Compare 20 ORPO steps with TRL's ORPOTrainer, key by key.

    orpo_steps.py BUILDDIR INPUTS WORK

Both train stories260K on the same 160 preference rows in fp32: 20 steps of
2 micro-batches of 4 pairs, in file order. What has to be said on each side
so that the two are the same computation:

  bf16, gradient_checkpointing off      TRL turns both on
  train_sampling_strategy sequential    = shuffle: false
  loss_reduction: trl                   TRL averages means of micro-batches
  nll_span: full                        TRL's NLL has the prompt in it
  max_prompt_length: max_length - 1     TRL never cuts a prompt
  warmup_first: zero                    transformers starts at a rate of 0
  weight_decay_groups: matrices         neither norms nor biases decay

The rows are those on which the two boundary rules agree, which is checked
with TRL's own tokenize_row, and that neither drops: TRL keeps pairs of equal
answers and empties answers to prompts that fill max_length. Left out are
logits/chosen and logits/rejected, means over all logits of padded rows too.

Tolerances, fp32 against fp32 with sums in another order over 20 steps; of
'grad_norm' and the weights larger, as Adam divides by small numbers.
"""
import json
import subprocess
import sys

import datasets
import torch
from safetensors.torch import load_file
from transformers import (AutoModelForCausalLM, AutoTokenizer,
                          PrinterCallback, TrainerCallback)
from transformers import logging as hf_logging
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

BUILD, INPUTS, WORK = sys.argv[1:4]
MODEL = INPUTS + "/models/stories260K-hf"
STEPS, BATCH, ACCUM, LENGTH = 20, 4, 2, 160
ROWS = STEPS * BATCH * ACCUM

TOLERANCE = {  # relative, absolute
    "loss": (1e-5, 0), "nll_loss": (1e-5, 0), "grad_norm": (1e-4, 0),
    "log_odds_ratio": (0, 4e-5), "log_odds_chosen": (0, 4e-5),
    "rewards/chosen": (0, 1e-5), "rewards/rejected": (0, 1e-5),
    "rewards/margins": (0, 1e-5), "rewards/accuracies": (0, 1e-6),
    "logps/chosen": (0, 2e-5), "logps/rejected": (0, 2e-5),
    "learning_rate": (1e-12, 1e-18),
}
MOVED = 1e-3  # difference of the weights, relative to how far they moved

RUNS = {  # in the words of both
    "linear": dict(beta=0.1, learning_rate=1e-3, weight_decay=0.01,
                   max_grad_norm=1.0, warmup_steps=3,
                   lr_scheduler_type="linear"),
    "cosine": dict(beta=0.25, learning_rate=5e-4, weight_decay=0.1,
                   max_grad_norm=0.5, warmup_steps=0, adam_beta2=0.95,
                   lr_scheduler_type="cosine"),
}

hf_logging.set_verbosity_error()
hf_logging.disable_progress_bar()
datasets.disable_progress_bars()


class Records(TrainerCallback):
    def __init__(self):
        self.steps = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            self.steps.append(dict(logs))


def question(r):
    text = r["instruction"] + ("\n" + r["input"] if r["input"] else "")
    return "Q: " + text + "\nA:"


def tokenizer():
    t = AutoTokenizer.from_pretrained(MODEL)
    t.pad_token = t.eos_token  # only fills what the mask hides
    return t


def common(*lists):
    n = 0
    while all(n < len(x) and x[n] == lists[0][n] for x in lists):
        n += 1
    return n


def pick_rows():
    """Rows that both ends take, with the ids that both must make of them."""
    tok = tokenizer()

    def enc(s):
        return tok(s, add_special_tokens=False)["input_ids"]

    with open(INPUTS + "/preference/rasbt/"
              "instruction-data-with-preference.json", encoding="utf-8") as f:
        data = json.load(f)
    rows, ids, cut, other = [], [], 0, 0
    for r in data:
        p, w, x = question(r), " " + r["chosen"], " " + r["rejected"]
        a, b, c = enc(p), enc(p + w), enc(p + x)
        n = common(a, b, c)
        room = LENGTH - n - 1
        if w == x or room < 1:
            continue
        if common(a, b) != n or common(a, c) != n or n < len(a) - 1:
            other += 1
            continue
        chosen, rejected = b[n:] + [2], c[n:] + [2]
        if chosen[:room] == rejected[:room]:
            continue
        cut += len(chosen) > room or len(rejected) > room
        rows.append({"prompt": p, "chosen": w, "rejected": x})
        ids.append(([1] + a[:n] + chosen[:room], [1] + a[:n]
                    + rejected[:room]))
        if len(rows) == ROWS:
            break
    assert len(rows) == ROWS, len(rows)
    print(f"# {ROWS} rows, {cut} of them cut; {other} passed over where the "
          f"boundaries differ")
    return rows, ids


def theirs(rows, ids, conf, out):
    args = dict(conf)
    logs = Records()
    trainer = ORPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(MODEL,
                                                   dtype=torch.float32),
        args=ORPOConfig(
            output_dir=out, max_steps=STEPS, max_length=LENGTH,
            per_device_train_batch_size=BATCH,
            gradient_accumulation_steps=ACCUM, logging_steps=1, bf16=False,
            gradient_checkpointing=False, use_cpu=True, report_to=[],
            save_strategy="no", disable_tqdm=True, seed=0,
            train_sampling_strategy="sequential", **args),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer(), callbacks=[logs])
    trainer.remove_callback(PrinterCallback)
    for i, made in enumerate(trainer.train_dataset):
        got = (made["chosen_input_ids"], made["rejected_input_ids"])
        assert got == ids[i], (i, got, ids[i])
    trainer.train()
    return logs.steps, trainer.model.state_dict()


def ours(rows, conf, out):
    data = WORK + "/orpo.jsonl"
    with open(data, "w", encoding="utf-8") as f:
        for r in rows:
            f.write(json.dumps(r, ensure_ascii=False) + "\n")
    run = {"task": "orpo", "model_name_or_path": MODEL, "train_file": data,
           "output_dir": out, "max_steps": STEPS, "max_length": LENGTH,
           "max_prompt_length": LENGTH - 1,
           "per_device_train_batch_size": BATCH,
           "gradient_accumulation_steps": ACCUM, "logging_steps": 1,
           "save_strategy": "no", "shuffle": "false",
           "loss_reduction": "trl", "nll_span": "full",
           "warmup_first": "zero", "weight_decay_groups": "matrices",
           "max_dropped_fraction": 0, **conf}
    with open(out + ".yaml", "w", encoding="utf-8") as f:
        for key, value in run.items():
            f.write(f"{key}: {value}\n")
    subprocess.run([BUILD + "/burnish-train", out + ".yaml"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(out + "/metrics.jsonl", encoding="utf-8") as f:
        records = [json.loads(line) for line in f]
    return ([r for r in records if r["kind"] == "train"],
            load_file(out + "/model/model.safetensors"))


def compare(name, a, b):
    """Largest difference of each key, as a part of what is allowed."""
    assert len(a) == len(b) == STEPS, (len(a), len(b))
    bad = 0
    for key, (rel, absolute) in TOLERANCE.items():
        worst, at = 0, 0
        for s in range(STEPS):
            allowed = rel * abs(b[s][key]) + absolute
            off = abs(a[s][key] - b[s][key])
            if off / allowed > worst:
                worst, at = off / allowed, s
        word = "ok" if worst <= 1 else "not ok"
        bad += worst > 1
        print(f"{word} - {name}: {key}, {STEPS} steps ({worst:.3f} of the "
              f"tolerance at step {at + 1}: {a[at][key]:.9g}, TRL "
              f"{b[at][key]:.9g})", flush=True)
    return bad


def compare_weights(name, a, b):
    start = load_file(MODEL + "/model.safetensors")
    off = moved = 0.0
    for key, w in a.items():
        off += (w - b[key]).double().square().sum().item()
        moved += (b[key] - start[key]).double().square().sum().item()
    part = (off / moved) ** 0.5
    word = "ok" if part <= MOVED else "not ok"
    print(f"{word} - {name}: weights after {STEPS} steps differ by {part:.2e} "
          f"of how far they moved", flush=True)
    return part > MOVED


def main():
    rows, ids = pick_rows()
    bad = 0
    for name, conf in RUNS.items():
        b, bw = theirs(rows, ids, conf, f"{WORK}/trl-{name}")
        a, aw = ours(rows, conf, f"{WORK}/burnish-{name}")
        bad += compare(name, a, b)
        bad += compare_weights(name, aw, bw)
    # A comparison that could not fail would show nothing.
    a, aw = ours(rows, {**conf, "loss_reduction": "exact"}, WORK + "/exact")
    off = max(abs(x["loss"] / y["loss"] - 1) for x, y in zip(a, b))
    print(f"{'ok' if off > 1e-4 else 'not ok'} - loss_reduction: exact is "
          f"another loss ({off:.1e})")
    sys.exit(bad > 0 or off <= 1e-4)


main()

"""Adapters against PEFT: its arithmetic, its files, its training steps.

    lora.py BUILDDIR INPUTS WORK

An adapter trained here loads in PEFT strictly and gives the same logits, alone
and merged; one written by PEFT loads here, is scored alike, and comes back
from a step of nothing tensor for tensor. And STEPS steps of SFT of a
peft-wrapped model with plain torch.optim.AdamW, begun with the same A and B,
match ours loss by loss: rows in file order, dropout 0 (masks differ), fp32.

A batch's loss here is the sum over its targets divided by their number, which
is what transformers' own loss is for a padded batch with labels.
"""
import json
import os
import subprocess
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers import logging as hf_logging

BUILD, INPUTS, WORK = sys.argv[1:4]
MODEL = INPUTS + "/models/stories260K-hf"
STEPS, BATCH, LENGTH, RATE = 12, 4, 96, 5e-3
# The largest of 700 differences of fp32 log-probabilities down to -20.
NEAR = 1e-4

hf_logging.set_verbosity_error()
hf_logging.disable_progress_bar()
torch.manual_seed(1)
failed = 0
number = 0


def ok(good, text):
    global failed, number
    number += 1
    failed |= not good
    print(f"{'ok' if good else 'not ok'} {number} - {text}")


def run(*args, out=None):
    r = subprocess.run([f"{BUILD}/{args[0]}", *args[1:]], stdout=out,
                       stderr=subprocess.PIPE, text=True)
    if r.returncode:
        sys.exit(f"{args}: {r.stderr}")


def base():
    return AutoModelForCausalLM.from_pretrained(
        MODEL, dtype=torch.float32, attn_implementation="eager")


def rows():
    with open(INPUTS + "/preference/rasbt/"
              "instruction-data-with-preference.json", encoding="utf-8") as f:
        data = json.load(f)
    return [r["instruction"] + " " + r["chosen"] for r in data][:STEPS * BATCH]


TEXTS = rows()
with open(WORK + "/rows.jsonl", "w", encoding="utf-8") as f:
    for t in TEXTS:
        f.write(json.dumps({"text": t}) + "\n")
TOK = AutoTokenizer.from_pretrained(MODEL)
IDS = [([1] + TOK(t, add_special_tokens=False)["input_ids"] + [2])[:LENGTH]
       for t in TEXTS]
with open(WORK + "/ids.jsonl", "w", encoding="utf-8") as f:
    for i in IDS[:8]:
        f.write(json.dumps({"ids": i}) + "\n")


def yaml(name, **keys):
    keys = dict(task="sft", model_name_or_path=MODEL,
                train_file=WORK + "/rows.jsonl", output_dir=WORK + "/" + name,
                token_cache_dir=WORK + "/cache", shuffle="false",
                add_bos="true", max_length=LENGTH, max_steps=STEPS,
                per_device_train_batch_size=BATCH, learning_rate=RATE,
                lr_scheduler_type="constant", max_grad_norm=0, device="cpu",
                adam_beta1=0.9, adam_beta2=0.999, weight_decay=0.01,
                weight_decay_groups="all", save_strategy='"no"',
                logging_steps=1) | keys
    path = f"{WORK}/{name}.yaml"
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(f"{k}: {v}\n" for k, v in keys.items())
    return path


def logps(model):
    """Log-probabilities of the tokens of ids.jsonl, in order."""
    out = []
    with torch.no_grad():
        for i in IDS[:8]:
            logits = model(torch.tensor([i])).logits[0].double()
            lp = torch.log_softmax(logits[:-1], -1)
            out += lp.gather(1, torch.tensor(i[1:])[:, None])[:, 0].tolist()
    return torch.tensor(out)


def ours(name, **keys):
    path = yaml("score", **keys)
    with open(f"{WORK}/{name}.scores", "w+", encoding="utf-8") as f:
        run("burnish-train", "--score", WORK + "/ids.jsonl", path, out=f)
        f.seek(0)
        return torch.tensor([x for line in f for x in json.loads(line)["logp"]])


def apart(a, b):
    return (a - b).abs().max().item()


def losses(name):
    with open(f"{WORK}/{name}/metrics.jsonl", encoding="utf-8") as f:
        return [r["loss"] for r in map(json.loads, f) if r["kind"] == "train"]


def train_peft(model):
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad],
                            lr=RATE, betas=(0.9, 0.999), weight_decay=0.01)
    out = []
    model.train()
    for s in range(STEPS):
        part = IDS[s * BATCH:(s + 1) * BATCH]
        n = max(map(len, part))
        ids = torch.tensor([i + [0] * (n - len(i)) for i in part])
        mask = torch.tensor([[1] * len(i) + [0] * (n - len(i)) for i in part])
        labels = torch.where(mask == 1, ids, -100)
        loss = model(ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        opt.step()
        opt.zero_grad()
        out.append(loss.item())
    model.eval()
    return out


CASES = {
    "plain": dict(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"]),
    "rslora": dict(r=4, lora_alpha=8, use_rslora=True,
                   target_modules="all-linear"),
    "saved": dict(r=2, lora_alpha=3, target_modules=["down_proj", "k_proj"],
                  modules_to_save=["norm"]),
}


def case(name, words):
    # PEFT's adapter, with a B that is not zero, is where both begin.
    model = get_peft_model(base(), LoraConfig(task_type="CAUSAL_LM", **words))
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "lora_B" in key:
                p.normal_(0, 0.02)
    start = f"{WORK}/{name}-start"
    model.save_pretrained(start)
    d = apart(logps(model), ours(name, adapter=start))
    far = apart(logps(model), ours(name))
    ok(d < NEAR < 0.01 < far,
       f"{name}: an adapter of PEFT's scores alike ({d:.2g}; without it "
       f"{far:.2g})")

    run("burnish-train", yaml(name, adapter=start))
    got, want = losses(name), train_peft(model)
    d = max(abs(a - b) / b for a, b in zip(got, want))
    ok(len(got) == STEPS and d < 1e-5 and want[-1] < want[0],
       f"{name}: {STEPS} steps match loss by loss ({d:.2g} relative; "
       f"{want[0]:.4f} to {want[-1]:.4f})")

    mine = f"{WORK}/{name}/adapter"
    loaded = PeftModel.from_pretrained(base(), mine).eval()
    d, own = apart(logps(loaded), logps(model)), ours(name, adapter=mine)
    ok(d < 2e-3, f"{name}: and end at one model ({d:.2g})")
    d = apart(logps(loaded), own)
    ok(d < NEAR, f"{name}: an adapter made here loads in PEFT with the same "
       f"logits ({d:.2g})")

    merged = f"{WORK}/{name}-merged"
    run("burnish", "lora", "merge", "--dtype", "float32", MODEL, mine, merged)
    m = AutoModelForCausalLM.from_pretrained(merged, dtype=torch.float32,
                                             attn_implementation="eager")
    d = apart(logps(m), own)
    ok(d < NEAR, f"{name}: merged here it is the same model ({d:.2g})")
    a, b = loaded.merge_and_unload().state_dict(), m.state_dict()
    d = max(apart(a[k], b[k]) for k in b)
    ok(a.keys() == b.keys() and d < 1e-6,
       f"{name}: the weights are those that PEFT merges ({d:.2g})")

    run("burnish-train", yaml(name + "-same", adapter=start, max_steps=1,
                              learning_rate="1e-30", weight_decay=0))
    a = load_file(start + "/adapter_model.safetensors")
    b = load_file(f"{WORK}/{name}-same/adapter/adapter_model.safetensors")
    ok(a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a),
       f"{name}: an adapter of PEFT's comes back tensor for tensor")


os.environ["BURNISH_CACHE"] = WORK + "/cache"
for case_name, case_words in CASES.items():
    case(case_name, case_words)
print(f"1..{number}")
sys.exit(failed)

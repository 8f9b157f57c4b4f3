"""Compare log-probabilities and written folders with transformers.

    scores.py BUILDDIR INPUTS ARCH_VARIANTS WORK

burnish-train --score against log-softmax of transformers' logits, in fp32:
the sequences of every architecture variant and long random ones, texts in
English and Korean with stories260K, and preference pairs, whose answers
share one prompt here and repeat it there. Then folders that a run of
burnish-train wrote: transformers must find every tensor, the tokenizer must
give the same ids, and the logits must be those of the weights in the file.
"""
import csv
import json
import os
import shutil
import subprocess
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers import logging as hf_logging

from letters import save_tokenizer

BUILD, INPUTS, VARIANTS, WORK = sys.argv[1:5]
STORIES = INPUTS + "/models/stories260K-hf"
TRAIN = BUILD + "/burnish-train"
FAILED = []
# A correct fp32 build against float64, largest of all logits: variants of
# two layers, and stories260K of five.
SMALL, DEEP = 5e-5, 5e-4

hf_logging.set_verbosity_error()
hf_logging.disable_progress_bar()
os.makedirs(WORK, exist_ok=True)


def result(ok, text):
    print(f"{'ok' if ok else 'not ok'} - {text}", flush=True)
    if not ok:
        FAILED.append(text)


def score(model, rows, **keys):
    """Lines of burnish-train --score."""
    data, run = WORK + "/score.jsonl", WORK + "/score.yaml"
    with open(data, "w", encoding="utf-8") as f:
        for r in rows:
            f.write(json.dumps(r, ensure_ascii=False) + "\n")
    keys = {"task": "sft", "model_name_or_path": model, "train_file": data,
            "output_dir": WORK + "/none", "max_length": 512, **keys}
    with open(run, "w", encoding="utf-8") as f:
        for k, v in keys.items():
            f.write(f"{k}: {v}\n")
    out = subprocess.run([TRAIN, "--score", data, run], check=True,
                         stdout=subprocess.PIPE).stdout
    return [json.loads(line) for line in out.splitlines()]


def load(folder, dtype=torch.float32):
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, output_loading_info=True)
    odd = {k: v for k, v in info.items() if v}
    return model.eval(), odd


@torch.no_grad()
def logps(model, ids):
    """log p of every token but the first."""
    logits = model(torch.tensor([ids])).logits[0, :-1].double()
    return logits.log_softmax(-1).gather(
        1, torch.tensor(ids[1:])[:, None])[:, 0]


def worst(lines, wanted):
    off = 0.0
    for line, want in zip(lines, wanted):
        assert len(line["logp"]) == len(want), (len(line["logp"]), len(want))
        off = max(off, (torch.tensor(line["logp"], dtype=torch.float64)
                        - want).abs().max().item())
    return off


def variants():
    gen = torch.Generator().manual_seed(1)
    for name in sorted(os.listdir(VARIANTS)):
        folder = f"{WORK}/{name}"
        shutil.copytree(f"{VARIANTS}/{name}", folder)
        save_tokenizer(folder)
        with open(folder + "/reference.json", encoding="utf-8") as f:
            seqs = json.load(f)["sequences"]
        for n in (100, 400):  # beyond windows and original lengths
            seqs.append(torch.randint(97, (n,), generator=gen).tolist())
        spellings = sorted((c for c in os.listdir(folder)
                            if c.startswith("config")), key=len)
        for config in spellings:  # config.json itself first
            if config != "config.json":
                shutil.copy(f"{folder}/{config}", folder + "/config.json")
            model, odd = load(folder)
            off = worst(score(folder, [{"ids": s} for s in seqs]),
                        [logps(model, s) for s in seqs])
            result(off <= SMALL and not odd,
                   f"{name} ({config}): log-probabilities differ by at most "
                   f"{off:.1e} {odd or ''}")


def texts():
    with open(INPUTS + "/preference/rasbt/"
              "instruction-data-with-preference.json", encoding="utf-8") as f:
        rows = [r["output"] for r in json.load(f)[:150]]
    with open(INPUTS + "/sft/ko-songys/ChatbotData.csv",
              encoding="utf-8") as f:
        rows += [r["Q"] + "\n" + r["A"] for r in csv.DictReader(f)][:150]
    return [r for r in rows if r]


def pairs():
    with open(INPUTS + "/preference/rasbt/"
              "instruction-data-with-preference.json", encoding="utf-8") as f:
        return [{"prompt": "Q: " + r["instruction"] + "\nA:",
                 "chosen": " " + r["chosen"], "rejected": " " + r["rejected"]}
                for r in json.load(f)[200:240]]


def stories():
    model, odd = load(STORIES)
    tok = AutoTokenizer.from_pretrained(STORIES)
    rows = [t for t in texts() if len(tok(t)["input_ids"]) < 500]
    ids = [tok(t)["input_ids"] for t in rows]
    lines = score(STORIES, [{"text": t} for t in rows])
    same = all(x["targets"] == i[1:] for x, i in zip(lines, ids))
    off = worst(lines, [logps(model, i) for i in ids])
    result(same and off <= DEEP and not odd,
           f"stories260K: {len(rows)} texts, {sum(map(len, ids))} tokens, "
           f"differ by at most {off:.1e}")
    shared = []
    for p in pairs():
        r = {k: tok(v, add_special_tokens=False)["input_ids"]
             for k, v in p.items()}
        r["prompt"] = [1] + r["prompt"]
        if max(map(len, r.values())) < 240:
            shared.append(r)
    off = 0.0
    for line, r in zip(score(STORIES, shared), shared):
        n = len(r["prompt"])
        for k in ("chosen", "rejected"):
            want = logps(model, r["prompt"] + r[k])
            off = max(off, worst([line[k]], [want[n - 1:]]))
        off = max(off, worst([line["prompt"]], [want[:n - 1]]))
    result(off <= DEEP, f"stories260K: {len(shared)} pairs with one prompt "
           f"differ by at most {off:.1e}")


def train(out, **keys):
    run = {"task": "sft", "output_dir": out, "max_length": 64,
           "max_steps": 2, "learning_rate": 1e-3,
           "save_strategy": "no", "train_file": WORK + "/train.jsonl",
           **keys}
    with open(out + ".yaml", "w", encoding="utf-8") as f:
        for k, v in run.items():
            f.write(f"{k}: {v}\n")
    subprocess.run([TRAIN, out + ".yaml"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return out + "/model"


def written():
    with open(WORK + "/train.jsonl", "w", encoding="utf-8") as f:
        for t in texts()[:32]:
            f.write(json.dumps({"text": t}) + "\n")
    ids = [1, 403, 407, 261, 378, 432, 383, 286, 261, 376]
    for dtype in ("float32", "bfloat16"):
        folder = train(f"{WORK}/stories-{dtype}", model_name_or_path=STORIES,
                       dtype=dtype)
        model, odd = load(folder)
        off = worst(score(folder, [{"ids": ids}]), [logps(model, ids)])
        before = AutoTokenizer.from_pretrained(STORIES)
        after = AutoTokenizer.from_pretrained(folder)
        same = all(before(t)["input_ids"] == after(t)["input_ids"]
                   for t in texts())
        moved = (logps(load(STORIES)[0], ids) - logps(model, ids)).abs().max()
        result(off <= DEEP and not odd and same and moved > 1e-2,
               f"stories260K trained in {dtype}: the folder loads, "
               f"log-probabilities differ by at most {off:.1e} {odd or ''}")
    small = "abc hello world\nthe quick brown fox".replace(" ", "")
    with open(WORK + "/train.jsonl", "w", encoding="utf-8") as f:
        for i in range(16):
            f.write(json.dumps({"text": small[i % 8:].replace("\n", "")})
                    + "\n")
    for name in sorted(os.listdir(VARIANTS)):
        folder = train(f"{WORK}/trained-{name}",
                       model_name_or_path=f"{WORK}/{name}", max_length=32)
        model, odd = load(folder)
        seq = [(7 * i + i * i) % 97 for i in range(200)]
        off = worst(score(folder, [{"ids": seq}]), [logps(model, seq)])
        moved = (logps(load(f"{WORK}/{name}")[0], seq)
                 - logps(model, seq)).abs().max()
        result(off <= SMALL and not odd and moved > 1e-4,
               f"{name} trained: the folder loads, log-probabilities differ "
               f"by at most {off:.1e} {odd or ''}")


variants()
stories()
written()
sys.exit(len(FAILED) > 0)

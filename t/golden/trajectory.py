"""Compare a run of burnish-train with the golden trajectories.

    trajectory.py data KIND.json OUT.jsonl        write the training rows
    trajectory.py yaml KIND.json RUN MODEL DATA OUT_DIR   write a run file
    trajectory.py check KIND.json RUN OUT_DIR     compare metrics and weights
    trajectory.py near KIND.json RUN OUT_DIR STEPS   of a run in bf16, that has
        so many steps: compare metrics

KIND.json is sft-stories260K.json or orpo-stories260K.json; RUN the index of
one of its runs. Tolerances of fp32 are those of the README beside the golden
files.
"""
import json
import struct
import sys

LOOSE = {  # relative, absolute
    "loss": (5e-6, 0), "nll_loss": (5e-6, 0), "grad_norm": (5e-5, 0),
    "log_odds_ratio": (0, 2e-5), "log_odds_chosen": (0, 2e-5),
    "rewards/chosen": (0, 5e-6), "rewards/rejected": (0, 5e-6),
    "rewards/margins": (0, 5e-6), "rewards/accuracies": (0, 1e-9),
    "logps/chosen": (0, 1e-5), "logps/rejected": (0, 1e-5),
    "learning_rate": (1e-12, 1e-18),
}

# bf16 has 8 bits: what is computed is off by up to 2^-9 of itself, and means
# over some hundred tokens by less. Over all 12 steps losses were off by 2.6e-3
# at most and norms of gradients by 1.4e-2. In the first four steps a learning
# rate that is 5 % off comes to 1.5e-2 and 5e-2.
NEAR = {
    "loss": (5e-3, 0), "nll_loss": (5e-3, 0), "grad_norm": (3e-2, 0),
    "log_odds_ratio": (0, 1e-2), "rewards/chosen": (5e-3, 0),
    "rewards/rejected": (5e-3, 0), "logps/chosen": (5e-3, 0),
    "logps/rejected": (5e-3, 0), "learning_rate": (1e-12, 1e-18),
}


def rows(doc):
    for step in doc["data"]:
        for micro in step["micro"]:
            yield from micro


def sft_row(r):
    turns = r["text"]
    return {"prompt": [t[0] for t in turns],
            "completion": [t[1] for t in turns]}


def orpo_row(r):
    return {"prompt": r["prompt_text"], "chosen": r["chosen_text"],
            "rejected": r["rejected_text"]}


def write_data(doc, path):
    make = orpo_row if "orpo" in doc["kind"] else sft_row
    with open(path, "w", encoding="utf-8") as f:
        for r in rows(doc):
            f.write(json.dumps(make(r), ensure_ascii=False) + "\n")


def yaml(doc, run, model, data, out):
    h = doc["runs"][run]["hyper"]
    orpo = "orpo" in doc["kind"]
    keys = {
        "task": "orpo" if orpo else "sft",
        "model_name_or_path": model, "train_file": data, "output_dir": out,
        "shuffle": "false", "max_steps": h["total_steps"],
        "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
        "learning_rate": h["lr"], "adam_beta1": h["betas"][0],
        "adam_beta2": h["betas"][1], "adam_epsilon": h["eps"],
        "weight_decay": h["weight_decay"], "weight_decay_groups": h["decay"],
        "max_grad_norm": h["max_grad_norm"],
        "warmup_steps": h["warmup_steps"], "warmup_first": h["warmup_first"],
        "lr_scheduler_type": h["schedule"], "max_length": doc["max_length"],
        "logging_steps": 1, "save_strategy": "no", "dtype": "float32",
    }
    if orpo:
        keys["beta"] = h["beta"]
        keys["max_prompt_length"] = doc["max_length"] - 1
        keys["nll_span"] = ("full" if h["nll_span"] == "prompt+chosen"
                            else "answer")
        keys["loss_reduction"] = ("exact" if h["normalisation"] == "global"
                                  else "trl")
    for k, v in keys.items():
        print(f"{k}: {v}")


def tensors(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
        body = f.read()
    for name, t in head.items():
        if name == "__metadata__":
            continue
        a, b = t["data_offsets"]
        yield name, struct.unpack(f"<{(b - a) // 4}f", body[a:b])


class Judge:
    def __init__(self):
        self.bad = 0
        self.worst = {}

    def near(self, what, key, got, want, rel, absolute):
        off = abs(got - want)
        allowed = rel * abs(want) + absolute
        self.worst[key] = max(self.worst.get(key, 0), off / (allowed or 1e-30))
        if not off <= allowed:
            self.bad += 1
            print(f"{what}: {key} {got!r}, expected {want!r}")


def check_metrics(judge, run, out, tolerances, steps):
    want = run["float64"]
    with open(out + "/metrics.jsonl", encoding="utf-8") as f:
        records = [json.loads(line) for line in f]
    train = [r for r in records if r["kind"] == "train"]
    assert len(train) == steps <= len(want["loss"]), (len(train), "records")
    for s, r in enumerate(train):
        for key, (rel, absolute) in tolerances.items():
            if key == "learning_rate":
                judge.near(f"step {s}", key, r[key], run["lr"][s], rel,
                           absolute)
            elif key in want:
                judge.near(f"step {s}", key, r[key], want[key][s], rel,
                           absolute)


def check_type(out, dtype):
    with open(out + "/model/model.safetensors", "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
    head.pop("__metadata__", None)
    got = {t["dtype"] for t in head.values()}
    assert got == {dtype}, got


def check_weights(judge, run, out):
    want = run["float64"]["weights"]
    seen = set()
    for name, v in tensors(out + "/model/model.safetensors"):
        seen.add(name)
        w = want[name]
        judge.near(name, "l2", sum(x * x for x in v) ** 0.5, w["l2"], 2e-6, 0)
        judge.near(name, "sum", sum(v), w["sum"], 0, 2e-3)
        for i, x in enumerate(w["first"]):
            judge.near(f"{name}[{i}]", "first", v[i], x, 0, 2e-5)
    assert seen == set(want), seen ^ set(want)


def main():
    what, kind = sys.argv[1:3]
    with open(kind, encoding="utf-8") as f:
        doc = json.load(f)
    if what == "data":
        write_data(doc, sys.argv[3])
    elif what == "yaml":
        yaml(doc, int(sys.argv[3]), *sys.argv[4:7])
    else:
        judge = Judge()
        run = doc["runs"][int(sys.argv[3])]
        out = sys.argv[4]
        if what == "near":
            check_metrics(judge, run, out, NEAR, int(sys.argv[5]))
            check_type(out, "BF16")
        else:
            check_metrics(judge, run, out, LOOSE, len(run["float64"]["loss"]))
            check_weights(judge, run, out)
        print(run["name"], "part of the tolerance used:",
              {k: round(v, 3) for k, v in judge.worst.items()})
        sys.exit(judge.bad > 0)


main()

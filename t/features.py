"""What a run's records must say, computed another way.

    features.py CHECK ARG...     each CHECK is a function below; silence and
                                 status 0 if all is as it should be
"""
import json
import math
import subprocess
import sys

import tiny


def records(out, kind="train"):
    with open(out + "/metrics.jsonl", encoding="utf-8") as f:
        return [r for r in map(json.loads, f) if r["kind"] == kind]


def near(what, got, want, rel=1e-6, absolute=1e-9):
    assert abs(got - want) <= rel * abs(want) + absolute, (what, got, want)


def burnish(*args):
    r = subprocess.run(["burnish-train", *args], stdout=subprocess.PIPE,
                       check=True)
    return [json.loads(x) for x in r.stdout.splitlines()]


def encode(text):
    vocab = tiny.tokenizer()["model"]["vocab"]
    return [vocab[c.replace(" ", "\u0120")] for c in text]


def read_rows(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(x) for x in f]


# --- learning rates -------------------------------------------------------

def schedule(out, kind, lr, total, warm, first="zero", floor="0", decay="0",
             form="cosine"):
    """Formulas of transformers' get_scheduler, and min_lr_ratio."""
    lr, total, warm = float(lr), int(total), int(warm)
    floor, decay = float(floor), int(decay)

    def cosine(u):
        return (1 + math.cos(math.pi * u)) / 2

    def rate(s):
        if s < warm:
            return lr * (s + (first == "one")) / warm
        u = (s - warm) / max(1, total - warm)
        if kind == "constant":
            return lr
        if kind == "wsd":
            r = max(0, s - (total - decay)) / decay
            shape = cosine(r) if form == "cosine" else 1 - r
        else:
            shape = cosine(u) if kind == "cosine" else 1 - u
        return lr * (floor + (1 - floor) * shape)

    got = records(out)
    assert [r["step"] for r in got] == list(range(1, total + 1))
    for s, r in enumerate(got):
        near(f"step {s + 1}", r["learning_rate"], rate(s), 1e-12, 1e-18)


# --- losses from log-probabilities ----------------------------------------

def score(run, rows):
    tiny.jsonl("score.jsonl", rows)
    return burnish("--score", "score.jsonl", run)


def smoothing(run, eps):
    """The loss of transformers' LabelSmoother from the log-probability of
    every id of the vocabulary at every target."""
    eps = float(eps)
    rows = tiny.sft_rows(3)
    nll = flat = count = 0
    for r in rows:
        p, c = encode(r["prompt"]), encode(r["completion"]) + [2]
        ids = p + c
        asked = [{"ids": ids[:at] + [v], "mask": [0] * at + [1]}
                 for at in range(len(p), len(ids)) for v in range(97)]
        got = [x["logp"][0] for x in score(run, asked)]
        for k, target in enumerate(c):
            logp = got[97 * k:97 * k + 97]
            near("sum of p", sum(map(math.exp, logp)), 1, 1e-5)
            nll -= logp[target]
            flat -= sum(logp) / 97
            count += 1
    tiny.jsonl("three.jsonl", rows)
    args = ["--eval-only", "--set", "eval_file=three.jsonl", run]
    plain, = burnish(*args)
    smooth, = burnish("--set", f"label_smoothing_factor={eps}", *args)
    near("nll", plain["eval_loss"], nll / count)
    near("nll", smooth["eval_nll_loss"], nll / count)
    near("loss", smooth["eval_loss"],
         (1 - eps) * nll / count + eps * flat / count)


def packed_sft(run, batch):
    """Rows alone, by --score, against evaluation over batches."""
    rows = tiny.sft_rows(24)
    asked = []
    for r in rows:
        p, c = encode(r["prompt"]), encode(r["completion"]) + [2]
        asked.append({"ids": p + c, "mask": [0] * len(p) + [1] * len(c)})
    got = score(run, asked)
    want = -sum(x["sum"] for x in got) / sum(x["count"] for x in got)
    e, = burnish("--eval-only", "--set", "eval_file=sft.jsonl", "--set",
                 f"per_device_eval_batch_size={batch}", run)
    assert e["eval_examples"] == 24
    near("loss", e["eval_loss"], want)
    near("perplexity", e["eval_perplexity"], math.exp(want), 1e-4)


def pair_numbers(x, beta):
    """ORPO of one scored pair: sums and counts to metrics."""
    mean = {k: x[k]["sum"] / x[k]["count"] for k in ("chosen", "rejected")}
    odds = {k: v - math.log(-math.expm1(v)) for k, v in mean.items()}
    z = odds["chosen"] - odds["rejected"]
    return {
        "nll": -x["prompt"]["sum"] - x["chosen"]["sum"],
        "tokens": x["prompt"]["count"] + x["chosen"]["count"],
        "log_odds_chosen": z,
        "log_odds_ratio": -math.log1p(math.exp(-z)),
        "rewards/chosen": beta * mean["chosen"],
        "rewards/rejected": beta * mean["rejected"],
        "rewards/margins": beta * (mean["chosen"] - mean["rejected"]),
        "rewards/accuracies": float(mean["chosen"] > mean["rejected"]),
        "logps/chosen": mean["chosen"], "logps/rejected": mean["rejected"],
    }


def orpo_of(scored, beta):
    each = [pair_numbers(x, beta) for x in scored]
    out = {k: sum(e[k] for e in each) / len(each) for k in each[0]
           if k not in ("nll", "tokens")}
    out["nll_loss"] = (sum(e["nll"] for e in each)
                       / sum(e["tokens"] for e in each))
    out["loss"] = out["nll_loss"] - beta * out["log_odds_ratio"]
    return out


def pair_ids(r):
    return {"prompt": encode(r["prompt"]),
            "chosen": encode(r["chosen"]) + [2],
            "rejected": encode(r["rejected"]) + [2]}


def packed_orpo(run, batch):
    scored = score(run, [pair_ids(r) for r in tiny.pair_rows(24)])
    e, = burnish("--eval-only", "--set", "eval_file=pairs.jsonl", "--set",
                 f"per_device_eval_batch_size={batch}", run)
    for key, v in orpo_of(scored, 0.1).items():
        near(key, e["eval_" + key], v, 2e-6, 1e-7)


def shared_prompt(run):
    """A pair's parts against prompt + answer as one text each."""
    for r in tiny.pair_rows(4):
        ids = pair_ids(r)
        pair, = score(run, [ids])
        for k in ("chosen", "rejected"):
            n = len(ids["prompt"])
            alone, = score(run, [{"ids": ids["prompt"] + ids[k], "mask":
                                  [0] * n + [1] * len(ids[k])}])
            assert alone["targets"] == pair[k]["targets"] == ids[k]
            near(k, alone["sum"], pair[k]["sum"])


# --- which rows a step takes ----------------------------------------------

def row_losses(run):
    asked = []
    for r in tiny.sft_rows(24):
        p, c = encode(r["prompt"]), encode(r["completion"]) + [2]
        asked.append({"ids": p + c, "mask": [0] * len(p) + [1] * len(c)})
    return [-x["sum"] / x["count"] for x in score(run, asked)]


def order(run, out, shuffled):
    """Runs of one row a step that do not learn: the loss names the row."""
    rows = row_losses(run)
    assert min(abs(a - b) for i, a in enumerate(rows) for b in rows[:i]) > 1e-4
    seen = [min(range(24), key=lambda i: abs(rows[i] - r["loss"]))
            for r in records(out)]
    assert len(seen) == 48
    for r, i in zip(records(out), seen):
        near("loss", r["loss"], rows[i], 1e-5)
    first, second = seen[:24], seen[24:]
    assert sorted(first) == sorted(second) == list(range(24)), seen
    if shuffled == "yes":
        assert first != second and first != sorted(first), seen
    else:
        assert first == second == sorted(first), seen


# --- one run against another ----------------------------------------------

SPEED = {"time", "tokens_per_second", "model_flops_per_second",
         "step_seconds", "runtime", "samples_per_second", "train_runtime"}


def equal(a, b, rel="0"):
    """The same records, to a relative difference."""
    for kind in ("train", "eval"):
        x, y = records(a, kind), records(b, kind)
        assert len(x) == len(y) and (x or kind == "eval")
        for r, s in zip(x, y):
            assert r.keys() == s.keys()
            for k in r:
                if k == "kind" or k.removeprefix("eval_") in SPEED:
                    continue
                near(f"{kind} {r['step']} {k}", r[k], s[k], float(rel),
                     float(rel) * 0.1)


def differ(a, b):
    x, y = records(a), records(b)
    assert all(r["loss"] != s["loss"] for r, s in zip(x, y))


def averages(every, several, n):
    """Records of n steps hold the means of the losses, the last of the rest
    and running totals."""
    n = int(n)
    one = records(every)
    many = records(several)
    assert [r["step"] for r in many] == [
        min(s, len(one)) for s in range(n, len(one) + n, n)]
    for r in many:
        end = r["step"]
        part = one[(end - 1) // n * n:end]
        for k in ("loss", "nll_loss", "mean_token_accuracy"):
            near(k, r[k], sum(x[k] for x in part) / len(part), 1e-12)
        for k in ("grad_norm", "learning_rate", "num_tokens", "num_examples",
                  "epoch"):
            near(k, r[k], part[-1][k], 0, 0)


def micro_means(micro, step, n, kind):
    """loss_reduction trl: the mean of what the micro-batches alone give.
    exact: another number where their sizes differ."""
    n = int(n)
    a, b = records(micro), records(step)
    off = 0
    for i, r in enumerate(b):
        part = a[n * i:n * i + n]
        assert len(part) == n
        mean = sum(x["loss"] for x in part) / n
        if kind == "trl":
            near("loss", r["loss"], mean, 2e-6)
        off = max(off, abs(r["loss"] - mean))
    assert kind == "trl" or off > 1e-3, off


def evaluations(out, *steps):
    """Evaluation after these steps, with TRL's names."""
    e = records(out, "eval")
    assert [r["step"] for r in e] == list(map(int, steps)), e
    keys = {"eval_loss", "eval_nll_loss", "eval_mean_token_accuracy",
            "eval_perplexity", "eval_runtime", "eval_samples_per_second"}
    for r in e:
        assert r.keys() == keys | {"step", "epoch", "time", "kind"}, r
        near("perplexity", r["eval_perplexity"], math.exp(r["eval_nll_loss"]))


def orpo_keys(out):
    want = {"loss", "nll_loss", "log_odds_ratio", "log_odds_chosen",
            "rewards/chosen", "rewards/rejected", "rewards/accuracies",
            "rewards/margins", "logps/chosen", "logps/rejected"}
    for r in records(out):
        assert want <= r.keys(), want - r.keys()
    for r in records(out, "eval"):
        assert {"eval_" + k for k in want} <= r.keys()


def tensorboard(out, listing):
    """t/tb-read.py's lines hold all numbers of the records, no others."""
    want = []
    for kind in ("train", "eval"):
        for r in records(out, kind):
            for k, v in r.items():
                if k in ("step", "epoch", "time", "kind"):
                    continue
                want.append((r["step"], f"{kind}/{k.removeprefix('eval_')}",
                             v))
    with open(listing, encoding="utf-8") as f:
        got = []
        for line in f:
            step, tag, v = line.split(" ")
            got.append((int(step), tag, float(v)))
    for a, b in zip(sorted(want), sorted(got)):
        assert a[:2] == b[:2], (a, b)
        near(a[1], b[2], a[2], 1e-5)
    assert len(want) == len(got) > 20


globals()[sys.argv[1]](*sys.argv[2:])

"""The figures of generated answers, by code of its own.

    evaluate.py ANSWERS.jsonl FIGURES.json [ROWS.jsonl MEMBER]

Fails unless FIGURES are those of the answers. Distinct-n intervals are made by
leaving each answer out in turn.
"""
import json
import math
import sys

Z = 1.959964


def wilson(k, n):
    p, d = k / n, 1 + Z * Z / n
    mid = (p + Z * Z / (2 * n)) / d
    half = Z / d * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    return p, max(0, mid - half), min(1, mid + half)


def mean(x):
    m = sum(x) / len(x)
    s = math.sqrt(sum((v - m) ** 2 for v in x) / (len(x) - 1)) \
        if len(x) > 1 else 0
    half = Z * s / math.sqrt(len(x))
    return m, m - half, m + half


def grams(a, n):
    return [tuple(a[i:i + n]) for i in range(len(a) - n + 1)]


def distinct(answers, n):
    g = [x for a in answers for x in grams(a, n)]
    return len(set(g)) / len(g) if g else 0


def jackknife(answers, n):
    t, k = distinct(answers, n), len(answers)
    left = [distinct(answers[:i] + answers[i + 1:], n) for i in range(k)]
    m = sum(left) / k
    half = Z * math.sqrt((k - 1) / k * sum((v - m) ** 2 for v in left))
    return t, max(0, t - half), min(1, t + half)


def main(argv):
    rows = [json.loads(x) for x in open(argv[0], encoding="utf-8")]
    got = json.load(open(argv[1], encoding="utf-8"))
    eos = [r["stop_reason"] == "eos" for r in rows]
    ids = [r["ids"][:-1] if e else r["ids"] for r, e in zip(rows, eos)]
    rep = [1 - len(set(grams(a, 4))) / len(grams(a, 4)) for a in ids
           if len(a) >= 4]
    want = {"length": mean([len(a) for a in ids]),
            "eos_rate": wilson(sum(eos), len(rows))}
    if rep:
        m, low, high = mean(rep)
        want["repetition_4"] = m, max(0, low), min(1, high)
    for n in (1, 2):
        if any(len(a) >= n for a in ids):
            want[f"distinct_{n}"] = jackknife(ids, n)
    if len(argv) > 2:
        ref = [json.loads(x)[argv[3]] for x in open(argv[2], encoding="utf-8")]
        hit = sum(r["text"].strip() == s.strip() for r, s in zip(rows, ref))
        want["exact_match"] = wilson(hit, len(rows))
    flat = {"eval_gen_examples": len(rows)}
    for k, (v, low, high) in want.items():
        flat.update({f"eval_gen_{k}": v, f"eval_gen_{k}_low": low,
                     f"eval_gen_{k}_high": high})
    print(json.dumps(flat, indent=1))
    if set(flat) != set(got):
        sys.exit(f"keys differ: {set(flat) ^ set(got)}")
    for k, v in flat.items():
        if abs(v - got[k]) > 1e-9 * max(1, abs(v)):
            sys.exit(f"{k} is {got[k]}, not {v}")


main(sys.argv[1:])

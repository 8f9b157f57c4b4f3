"""Hold the metrics of two runs against each other.

    compare.py A B [STEPS]   metrics.jsonl of two output directories
    compare.py --bits A B    the same, bit for bit (times left out)

Exit 0 if they agree within the tolerances of a correct fp32 build: loss 5e-6
and gradient norm 5e-5 relative, means of log-probabilities and odds 2e-5
absolute. STEPS: this many training records are expected.
"""
import json
import sys

TIMES = {"time", "tokens_per_second", "model_flops_per_second",
         "step_seconds", "runtime", "samples_per_second", "train_runtime"}
OBSERVED = ("time/", "memory/", "mfu")
EXACT = {"step", "epoch", "learning_rate", "num_tokens", "num_examples",
         "kind"}


def records(path):
    with open(path + "/metrics.jsonl", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def bare(key):
    return key[5:] if key.startswith("eval_") else key


def limit(key, x):
    if key in EXACT:
        return 0.0
    if key in ("loss", "nll_loss", "perplexity"):
        return 5e-6 * abs(x)
    if key == "grad_norm":
        return 5e-5 * abs(x)
    if key == "mean_token_accuracy":
        return 5e-3  # two tokens may be as likely to rounding
    return 2e-5


def differs(key, x, y, bits):
    if isinstance(x, str) or bits:
        return 0.0 if x == y else 9e9
    room = limit(bare(key), x)
    return abs(x - y) / room if room else (0.0 if x == y else 9e9)


def compare(ra, rb, bits=False):
    """The largest difference, in tolerances, and where it is."""
    if len(ra) != len(rb):
        return 9e9, f"{len(ra)} and {len(rb)} records"
    worst = (0.0, "nothing")
    for x, y in zip(ra, rb):
        if set(x) != set(y):
            return 9e9, f"keys differ at step {x['step']}"
        for key in x:
            if bare(key) not in TIMES and not key.startswith(OBSERVED):
                d = differs(key, x[key], y[key], bits)
                worst = max(worst, (d, f"{key} at step {x['step']}: "
                                       f"{x[key]} {y[key]}"))
    return worst


def main(argv):
    bits = argv[0] == "--bits"
    a, b = argv[bits], argv[bits + 1]
    ra, rb = records(a), records(b)
    worst = compare(ra, rb, bits)
    if len(argv) > 2 + bits:
        n = sum("grad_norm" in r for r in ra)
        if n != int(argv[2 + bits]):
            sys.exit(f"{n} training records")
    print(f"{a} {b}: {worst[0]:.3f} of the tolerance ({worst[1]})")
    sys.exit(worst[0] > 1)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Stop runs, and hold what they end with against a run never stopped.

    resume.py stop SIGNAL WHEN DIR ARG...   start burnish-train ARG... and send
        SIGNAL when WHEN is so in DIR: records:N (lines of metrics.jsonl),
        phase:NAME (of rank 0), file:GLOB (is there). Exits with the status
        of the run, 128 + SIGNAL if it was killed, 0 if it ended before.
    resume.py same DIR DIR     same model, same last checkpoint, same records
        but for what tells times
"""
import glob
import json
import os
import signal
import subprocess
import sys
import time

TIMES = {"time", "tokens_per_second", "model_flops_per_second",
         "step_seconds", "runtime", "samples_per_second", "train_runtime"}


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return b""


def reached(when, out):
    what, value = when.split(":", 1)
    phase = read(out + "/phase.0")
    if not phase:
        return False  # it does not listen to signals yet
    if what == "records":
        return read(out + "/metrics.jsonl").count(b"\n") >= int(value)
    if what == "phase":
        return f'"phase":"{value}"'.encode() in phase
    return bool(glob.glob(f"{out}/{value}"))


def stop(sig, when, out, *args):
    number = getattr(signal, "SIG" + sig)
    # What an earlier run published must not be taken for this one's.
    for name in ("phase.0", "exit-class"):
        if os.path.exists(f"{out}/{name}"):
            os.remove(f"{out}/{name}")
    p = subprocess.Popen(["burnish-train", *args])
    try:
        while p.poll() is None and not reached(when, out):
            time.sleep(0.0005)
        if p.poll() is None:
            p.send_signal(number)
        p.wait(60)
    finally:
        if p.poll() is None:
            p.kill()
            p.wait()
    return 128 - p.returncode if p.returncode < 0 else p.returncode


def records(out):
    rows = [json.loads(x) for x in read(out + "/metrics.jsonl").splitlines()]
    return [{k: v for k, v in r.items()
             if k not in TIMES and k.removeprefix("eval_") not in TIMES
             and not k.startswith(("time/", "memory/")) and k != "mfu"}
            for r in rows]


def last_state(out):
    steps = [int(x.rsplit("-", 1)[1])
             for x in glob.glob(glob.escape(out) + "/checkpoint-*")]
    if not steps:
        return None, b""
    path = f"{out}/checkpoint-{max(steps)}/state-pp0-tp0-dp0.bin"
    return max(steps), read(path)


def same(a, b):
    bad = []
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        x, y = (read(f"{d}/model/{name}") for d in (a, b))
        if not x or x != y:
            bad.append(f"model/{name} differs")
    if last_state(a) != last_state(b):
        bad.append("the last checkpoint differs")
    x, y = records(a), records(b)
    if len(x) != len(y):
        bad.append(f"{len(x)} and {len(y)} records")
    for r, s in zip(x, y):
        if r != s:
            bad.append(f"{r}\n    and {s}")
            break
    left = [n for d in (a, b) for n in os.listdir(d)
            if n.startswith("tmp.") or n.endswith(".old")]
    if left:
        bad.append("left: " + " ".join(left))
    print("\n".join(bad))
    return bool(bad)


if __name__ == "__main__":
    if sys.argv[1] == "stop":
        sys.exit(stop(*sys.argv[2:]))
    sys.exit(same(*sys.argv[2:]))

"""Checkpoints against raw files, memcpy and PyTorch; see bench.sh.

    bench.py BENCH_CKPT BURNISH_TRAIN FOLDER MIB

All of a round follow each other, a figure is the ratio of the least times of
several rounds. Where this Python has torch, torch.save and torch.load of the
same bytes are in the round. Then one run of burnish-train saves every few
steps: what it stops for, and how its steps do while a checkpoint is written.
    bench NAME RATIO target T ours A peer B UNIT
1 is as fast as the peer. Leaves with 1 if a figure falls short.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import time

BENCH, TRAIN, FOLDER, MIB = *sys.argv[1:4], int(sys.argv[4])
ROUNDS = 8
FAILED = []
try:
    import torch
except ImportError:
    torch = None


def note(text):
    print(f"# {text}", flush=True)


def report(name, ratio, target, ours, peer, unit):
    print(f"bench {name} {ratio:.3f} target {target} ours {ours:.4g} "
          f"peer {peer:.4g} {unit}", flush=True)
    if not ratio >= target:
        FAILED.append(name)


class Ours:
    """bench-ckpt: a word in, seconds out."""

    def __init__(self, mib):
        self.p = subprocess.Popen([BENCH, FOLDER, str(mib)], text=True,
                                  stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        self.bytes = int(self.p.stdout.readline())

    def __call__(self, word):
        self.p.stdin.write(word + "\n")
        self.p.stdin.flush()
        return float(self.p.stdout.readline())

    def end(self):
        self.p.stdin.close()
        if self.p.wait() != 0:
            sys.exit(1)


# --- the same bytes through torch -------------------------------------------

class Torch:
    def __init__(self, size):
        self.path = FOLDER + "/t.pt"
        self.state = {k: torch.rand(size // 12) for k in ("p", "m", "v")}
        self.into = {k: torch.zeros(size // 12) for k in self.state}

    def save(self):
        t0 = time.monotonic()
        with open(self.path, "wb") as f:
            torch.save(self.state, f)
            f.flush()
            os.fsync(f.fileno())
        return time.monotonic() - t0

    def load(self):
        t0 = time.monotonic()
        state = torch.load(self.path)
        t = time.monotonic() - t0
        if not torch.equal(state["v"], self.state["v"]):
            sys.exit("torch: other bytes came back")
        return t

    def restore(self):
        """Into tensors that are there, as load_state_dict does."""
        t0 = time.monotonic()
        state = torch.load(self.path)
        for k, v in self.into.items():
            v.copy_(state[k])
        t = time.monotonic() - t0
        if not torch.equal(self.into["v"], self.state["v"]):
            sys.exit("torch: other bytes came back")
        return t

    def load_cold(self):
        fd = os.open(self.path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
        return self.load()


def files():
    ours = Ours(MIB)
    least = {}
    peer = Torch(ours.bytes) if torch else None

    def take(name, seconds):
        least[name] = min(seconds, least.get(name, seconds))

    for _ in range(ROUNDS):
        for word in ("save", "write"):
            take(word, ours(word))
        if peer:
            take("torch-save", peer.save())
        for word in ("load", "read"):
            take(word, ours(word))
        if peer:
            take("torch-load", peer.load_cold())
        ours("load-warm")  # into the page cache, out of which "read" put it
        for word in ("load-warm", "restore-warm", "read-warm"):
            take(word, ours(word))
        if peer:
            take("torch-load-warm", peer.load())
            take("torch-restore-warm", peer.restore())
        for word in ("pause", "copy"):
            take(word, ours(word))
    ours.end()

    def mb(name):
        return ours.bytes / 1e6 / least[name]

    def speeds(name, a, b, target):
        report(name, least[b] / least[a], target, mb(a), mb(b), "MB/s")

    speeds("ckpt-save", "save", "write", 0.90)
    speeds("ckpt-load", "load", "read", 0.85)
    speeds("ckpt-pause", "pause", "copy", 0.833)
    note(f"from the page cache {least['read-warm'] / least['load-warm']:.2f} "
         "of a raw read")
    if peer:
        speeds("ckpt-save-torch", "save", "torch-save", 1.3)
        # Both from the page cache, where all of it can be used in the end: from
        # the disk both wait for it, and neither can be ten times the other.
        # Ours is mapped, and checked; theirs is copied to fresh memory.
        speeds("ckpt-load-torch", "load-warm", "torch-load-warm", 10)
        note("copied to where training has it "
             f"{least['torch-restore-warm'] / least['restore-warm']:.2f} "
             f"times torch.load and copy_, {mb('restore-warm'):.0f} MB/s; "
             "from the disk "
             f"{least['torch-load'] / least['load']:.2f} times torch.load")
    else:
        note("no torch for this Python (BN_PEERS_VENV): not held against "
             "torch.save and torch.load")
    return least["copy"] / ours.bytes


# --- a run that saves -------------------------------------------------------

BIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"],
       "vocab_size": 97, "hidden_size": 512, "intermediate_size": 1408,
       "num_hidden_layers": 4, "num_attention_heads": 8,
       "num_key_value_heads": 8, "max_position_embeddings": 512,
       "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
       "tie_word_embeddings": True, "attention_bias": False,
       "initializer_range": 0.02, "bos_token_id": 1, "eos_token_id": 2,
       "torch_dtype": "float32"}
STEPS, EVERY = 32, 8


def train():
    tiny = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "../../../t/tiny.py")
    subprocess.run([sys.executable, tiny, "."], cwd=FOLDER, check=True)
    os.mkdir(FOLDER + "/big")
    with open(FOLDER + "/big/config.json", "w", encoding="utf-8") as f:
        json.dump(BIG, f)
    sets = {"init": "random", "config_name": "big", "output_dir": "run",
            "tokenizer_name_or_path": "model", "max_steps": STEPS,
            "save_steps": EVERY, "save_total_limit": 2,
            "per_device_train_batch_size": 2,
            "num_threads": min(2, len(os.sched_getaffinity(0)))}
    with open(FOLDER + "/run.yaml", encoding="utf-8") as f:
        lines = [x for x in f if x.split(":")[0] not in
                 ("model_name_or_path", *sets)]
    with open(FOLDER + "/run.yaml", "w", encoding="utf-8") as f:
        f.writelines(lines)
    command = [os.path.abspath(TRAIN)]
    for k, v in sets.items():
        command += ["--set", f"{k}={v}"]
    done = subprocess.run(command + ["run.yaml"], cwd=FOLDER, text=True,
                          stderr=subprocess.PIPE, check=False,
                          env={**os.environ, "BURNISH_LOG": "debug"})
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stderr


def in_flight(log, seconds):
    """Steps that began while a checkpoint was being written."""
    busy = set()
    for m in re.finditer(r"checkpoint of step (\d+): training paused "
                         r"([\d.]+) s, committed ([\d.]+) s later", log):
        left, step = float(m[3]), int(m[1]) + 1
        while left > 0 and step in seconds:
            busy.add(step)
            left -= seconds[step]
            step += 1
    return busy


def run(copy):
    log = train()
    with open(FOLDER + "/run/metrics.jsonl", encoding="utf-8") as f:
        seconds = {r["step"]: r["step_seconds"]
                   for r in map(json.loads, f) if "step_seconds" in r}
    state = os.path.getsize(
        FOLDER + f"/run/checkpoint-{STEPS}/state-pp0-tp0-dp0.bin")
    pauses = [float(x) for x in re.findall(r"training paused ([\d.]+)", log)]
    report("ckpt-pause-run", copy * state / min(pauses), 0.833,
           1e3 * min(pauses), 1e3 * copy * state, "ms")
    note(f"pauses of {state / 1e6:.0f} MB: "
         + " ".join(f"{1e3 * p:.0f}" for p in pauses) + " ms")
    busy = in_flight(log, seconds)
    during = [t for s, t in seconds.items() if s in busy]
    others = [t for s, t in seconds.items() if s not in busy and s > 3]
    a, b = statistics.median(during), statistics.median(others)
    report("ckpt-steps", b / a, 0.909, 1e3 * a, 1e3 * b, "ms")
    note(f"{len(during)} steps while saving, {len(others)} others")


note(f"load average {os.getloadavg()[0]:.2f}, "
     f"{len(os.sched_getaffinity(0))} processors")
run(files())
sys.exit(1 if FAILED else 0)

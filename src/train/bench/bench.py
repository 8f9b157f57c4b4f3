"""Time training steps against PyTorch; see bench.sh.

    bench.py BENCH_STEP [NAME...]

Both programs take their steps in turn, on the same weights and tokens; a
figure is the ratio of the least times. The losses of the first steps must
agree to 1e-4 (fp32) or 1e-2 (bf16) before a time counts. A short figure is
measured on, up to ROUNDS times, while the machine is busy with other work.
Prints one line a figure,
  bench NAME RATIO target T ours A peer B UNIT
and leaves with 1 if one falls short.
"""
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
STEP, ONLY = sys.argv[1], sys.argv[2:]
CPUS = min(2, len(os.sched_getaffinity(0)))
WARM, PAIRS, ROUNDS = 3, 8, 3
FINALISTS, SIGHT = 3, 1.5
WAIT = float(os.environ.get("BENCH_WAIT", "60"))  # seconds for a quiet machine
CLOSE = {"float32": 1e-4, "bfloat16": 1e-2}
FAILED = []

MODELS = {
    "28m": dict(num_hidden_layers=8, hidden_size=512, num_attention_heads=8,
                num_key_value_heads=4, intermediate_size=1408,
                vocab_size=8192, tie_word_embeddings=False),
    "135m": dict(num_hidden_layers=30, hidden_size=576, num_attention_heads=9,
                 num_key_value_heads=3, intermediate_size=1536,
                 vocab_size=49152, tie_word_embeddings=True),
    "64k": dict(num_hidden_layers=4, hidden_size=256, num_attention_heads=4,
                num_key_value_heads=2, intermediate_size=704,
                vocab_size=65536, tie_word_embeddings=False),
}
SFT = ["--batch", "2", "--length", "512"]
# Lengths at the quantiles of what a public set of 1,100 pairs has: nearly log
# normal, with 0.37 (prompts) and 0.54 (answers) as the deviation of their
# logarithms; scaled until the longest row has 512 tokens. There, batches of 4
# pairs have 2.0 times as many tokens when they are padded; here it is 1.8.
ORPO = ["--pairs", "112,144,92:152,319,204:193,92,319:262,204,144"]


def note(text):
    print(f"# {text}", flush=True)


SFT = {f"sft-{name}-{short}": (name, dtype, target)
       for name in ("28m", "135m")
       for short, dtype, target in (("fp32", "float32", 1.5),
                                    ("bf16", "bfloat16", 1.6))}
FIGURES = [*SFT, "second-core", "orpo"]


def wanted(name):
    return not ONLY or any(name.startswith(o) for o in ONLY)


def check_names():
    for o in ONLY:
        if not any(name.startswith(o) for name in FIGURES):
            sys.exit(f"no figures begin with '{o}': {', '.join(FIGURES)}")


def report(name, ratio, target, ours, peer, unit):
    print(f"bench {name} {ratio:.2f} target {target} ours {ours:.4g} "
          f"peer {peer:.4g} {unit}", flush=True)
    if not ratio >= target:
        FAILED.append(name)


def busy():
    return os.getloadavg()[0] > 1.5


def quiet():
    """Wait for other work to end, but not for ever."""
    end = time.time() + WAIT
    while busy() and time.time() < end:
        time.sleep(2)
    note(f"load average {os.getloadavg()[0]:.2f}")


# --- models and tokens ------------------------------------------------------

def tensors(c):
    hd, kv = 64, c["num_key_value_heads"] * 64
    h, f, q = c["hidden_size"], c["intermediate_size"], \
        c["num_attention_heads"] * hd
    yield "model.embed_tokens.weight", (c["vocab_size"], h)
    for i in range(c["num_hidden_layers"]):
        n = f"model.layers.{i}."
        yield n + "input_layernorm.weight", (h,)
        for x, rows in (("q", q), ("k", kv), ("v", kv)):
            yield f"{n}self_attn.{x}_proj.weight", (rows, h)
        yield n + "self_attn.o_proj.weight", (h, q)
        yield n + "post_attention_layernorm.weight", (h,)
        yield n + "mlp.gate_proj.weight", (f, h)
        yield n + "mlp.up_proj.weight", (f, h)
        yield n + "mlp.down_proj.weight", (h, f)
    yield "model.norm.weight", (h,)
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], h)


def make_model(name, folder):
    c = MODELS[name]
    os.makedirs(folder)
    with open(folder + "/config.json", "w", encoding="utf-8") as f:
        json.dump(dict(architectures=["LlamaForCausalLM"],
                       model_type="llama", head_dim=64, hidden_act="silu",
                       rms_norm_eps=1e-5, rope_theta=10000.0,
                       max_position_embeddings=2048, attention_bias=False,
                       mlp_bias=False, initializer_range=0.02, bos_token_id=1,
                       eos_token_id=2, **c), f)
    head, at = {}, 0
    for key, shape in tensors(c):
        size = 4 * int(np.prod(shape))
        head[key] = {"dtype": "F32", "shape": shape,
                     "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.default_rng(1)
    with open(folder + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for key, shape in tensors(c):
            if len(shape) == 1:
                w = np.ones(shape, np.float32)
            else:
                w = rng.standard_normal(shape, np.float32) * np.float32(0.02)
            w.tofile(f)
    rng.integers(0, c["vocab_size"], 1 << 16, np.int32).tofile(
        folder + "/ids")
    return folder


# --- programs that take steps -----------------------------------------------

class Program:
    """Started, and then one step whenever it is told to."""

    def __init__(self, command, env=None):
        self.times, self.losses, self.last = [], [], {}
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, env=env,
                                  stdout=subprocess.PIPE, text=True)
        self.hello = self.read()

    def read(self):
        line = self.p.stdout.readline()
        if not line:
            self.p.wait()
            raise RuntimeError(f"{self.p.args[:2]} ended with "
                               f"{self.p.returncode}")
        return json.loads(line)

    def step(self, count=True):
        self.p.stdin.write("\n")
        self.p.stdin.flush()
        r = self.read()
        self.losses.append(r["loss"])
        if count:
            self.times.append(r["seconds"])
        return r["seconds"]

    def end(self):
        self.p.stdin.close()
        self.last = self.read()
        self.p.wait()
        return self.last

    def best(self):
        return min(self.times)


def ours(folder, work, dtype, threads=CPUS, floor=False):
    return Program([STEP, folder, "--ids", folder + "/ids", "--wait",
                    "--steps", "1000", "--threads", str(threads), "--dtype",
                    "bf16" if dtype == "bfloat16" else "fp32", *work,
                    *(["--floor"] if floor else [])])


def allocators():
    """Settings under which large tensors keep their pages."""
    base = {k: v for k, v in os.environ.items()
            if k != "OPENBLAS_CORETYPE"}  # some set it, to a slower kind
    huge = 1 << 36
    yield "glibc", {**base, "GLIBC_TUNABLES": ":".join(
        f"glibc.malloc.{k}={v}" for k, v in
        (("mmap_max", 0), ("trim_threshold", huge), ("top_pad", 1 << 28),
         ("hugetlb", 1)))}
    for lib in glob.glob("/usr/lib/*/libjemalloc.so.2"):
        yield "jemalloc", {**base, "LD_PRELOAD": lib, "MALLOC_CONF":
                           "thp:always,dirty_decay_ms:-1,muzzy_decay_ms:-1,"
                           "oversize_threshold:0,background_thread:false"}


class Variant:
    def __init__(self, mode, threads, alloc, env, compiled):
        self.name = (f"{mode} {threads} threads {alloc}"
                     + (" compiled" if compiled else ""))
        self.env = env
        self.args = ["--mode", mode, "--threads", str(threads),
                     *(["--compile"] if compiled else [])]

    def start(self, folder, work):
        return Program([sys.executable, HERE + "/peer.py", folder,
                        folder + "/ids", "--wait", "--steps", "1000", *work,
                        *self.args], self.env)


def variants(dtype):
    for mode in (("fp32", "onednn") if dtype == "float32"
                 else ("autocast", "bf16")):
        for alloc, env in allocators():
            yield Variant(mode, CPUS, alloc, env, False)
        yield Variant(mode, 1, alloc, env, False)
        if os.environ.get("BENCH_COMPILE", "1") == "1" and mode != "onednn":
            yield Variant(mode, CPUS, alloc, env, True)


class Peers:
    """PyTorch in its fastest configurations, started: it has as many tries
    at each step, and the least time of all counts."""

    def __init__(self, found, folder, work):
        self.tries = [v.start(folder, work) for v in found]
        self.names = [v.name for v in found]
        self.torch = self.tries[0].hello["torch"]
        self.losses = self.tries[0].losses

    def step(self, count=True):
        for t in self.tries:
            t.step(count)

    def best(self):
        return min(t.best() for t in self.tries)

    def name(self):
        return self.names[min(range(len(self.tries)),
                              key=lambda i: self.tries[i].best())]

    def end(self):
        """Of the one that needs least memory."""
        return min((t.end() for t in self.tries),
                   key=lambda r: r["peak_bytes"])


def best_peers(folder, work, dtype):
    """The fastest of PyTorch's configurations, by a few steps each. What is
    close at first sight is settled by the pairs."""
    found = []
    for v in variants(dtype):
        try:
            p = v.start(folder, work)
            p.step(False)
            p.step(False)
            for _ in range(3):
                p.step()
            p.end()
        except (RuntimeError, BrokenPipeError) as e:
            note(f"peer {v.name}: {e}")
            continue
        note(f"peer {v.name}: {p.best():.4f} s a step")
        found.append((p.best(), v))
    if not found:
        sys.exit("bench-step: PyTorch takes no step here")
    found.sort(key=lambda x: x[0])
    return Peers([v for s, v in found if s < SIGHT * found[0][0]][:FINALISTS],
                 folder, work)


def same_losses(a, b, dtype):
    off = max(abs(x / y - 1) for x, y in zip(a.losses[:WARM],
                                             b.losses[:WARM]))
    note(f"losses of {WARM} steps differ by at most {off:.1e}: "
         f"{a.losses[0]:.7g}, {b.losses[0]:.7g}")
    if not off <= CLOSE[dtype]:
        sys.exit(f"bench-step: not the same computation: {a.losses[:WARM]} "
                 f"and PyTorch {b.losses[:WARM]}")


def take_turns(a, b, target):
    for _ in range(WARM):
        a.step(False)
        b.step(False)
    for _ in range(ROUNDS):
        for _ in range(PAIRS):
            a.step()
            b.step()
        if b.best() / a.best() >= target or not busy():
            return
        quiet()


# --- figures ----------------------------------------------------------------

def against_torch(name, folder, dtype, target):
    short = "fp32" if dtype == "float32" else "bf16"
    quiet()
    b = best_peers(folder, SFT, dtype)
    a = ours(folder, SFT, dtype, floor=True)
    take_turns(a, b, target)
    note(f"peer of sft-{name}-{short}: PyTorch {b.torch}, {b.name()}")
    same_losses(a, b, dtype)
    b.end()
    last = a.end()
    tokens = last["tokens"]
    report(f"sft-{name}-{short}", b.best() / a.best(), target,
           tokens / a.best(), tokens / b.best(), "tokens/s")
    least = last["peak_seconds"]
    note(f"multiply-adds at this processor's peak take {least:.4g} s a step: "
         f"at most {b.best() / least:.2f} times as fast as PyTorch")
    floor = last["floor_seconds"]
    report(f"floor-{name}-{short}", floor / a.best(),
           0.70 if short == "fp32" else 0.60, a.best(), floor, "s")
    each = last["faults_a_step"]
    report(f"faults-{name}-{short}", 100 / max(each, 1), 1, each, 100,
           "faults/step")


def second_core(folder, dtype):
    short = "fp32" if dtype == "float32" else "bf16"
    quiet()
    a, b = ours(folder, SFT, dtype), ours(folder, SFT, dtype, 1)
    take_turns(a, b, 1.8)
    a.end()
    b.end()
    report(f"second-core-28m-{short}", b.best() / a.best(), 1.8,
           1 / a.best(), 1 / b.best(), "steps/s")


def preference(folder):
    quiet()
    b = best_peers(folder, ORPO, "float32")
    a = ours(folder, ORPO, "float32")
    take_turns(a, b, 2)
    note(f"peer of orpo-64k: PyTorch {b.torch}, {b.name()}")
    same_losses(a, b, "float32")
    mine, its = a.end(), b.end()
    report("orpo-64k-fp32", b.best() / a.best(), 2, 4 / a.best(),
           4 / b.best(), "pairs/s")
    # PyTorch's own code is not counted, ours is.
    peak = its["peak_bytes"] - its["import_bytes"]
    report("orpo-64k-memory", peak / mine["peak_bytes"], 2,
           mine["peak_bytes"] / 1e6, peak / 1e6, "MB")


def main():
    check_names()
    tmp = tempfile.mkdtemp(prefix="bench-step.")
    try:
        models = {}

        def model(name):
            if name not in models:
                models[name] = make_model(name, f"{tmp}/{name}")
            return models[name]

        for figure, (name, dtype, target) in SFT.items():
            if wanted(figure):
                against_torch(name, model(name), dtype, target)
        for dtype in CLOSE:
            if CPUS > 1 and wanted("second-core"):
                second_core(model("28m"), dtype)
        if wanted("orpo"):
            preference(model("64k"))
    finally:
        shutil.rmtree(tmp)
    sys.exit(len(FAILED) > 0)


main()

#!/usr/bin/env python3
"""PyTorch's figures for whole training steps, by the names, the model, the
weights and the tokens of src/train/bench/cuda_step.c. Prints
"measure NAME VALUE UNIT" lines.

    torch-steps.py [--smoke] WEIGHTS                 SFT and ORPO steps, the head
    torch-steps.py [--smoke] --first SINCE WEIGHTS   one step, from process start

Plain functions on tensors in the way that runs fastest: q, k, v and gate, up
as one matrix each, scaled_dot_product_attention, every layer compiled, fp32
weights under autocast to bf16, fused AdamW. --smoke: a small model on the CPU,
to see that both sides compute the same.
"""
import gc
import sys
import time

import torch
import torch.nn.functional as F

smoke = "--smoke" in sys.argv
first = float(sys.argv[sys.argv.index("--first") + 1]) \
    if "--first" in sys.argv else None
path = sys.argv[-1]
dev = "cpu" if smoke else "cuda"
if smoke:
    V, H, FFN, LAYERS, HEADS, KV, HD = 256, 64, 128, 2, 2, 1, 64
    LENGTH, PROMPT, ROWS, PAIRS, STEPS = 24, 8, 2, 1, 3
else:
    V, H, FFN, LAYERS, HEADS, KV, HD = 65536, 3072, 8192, 28, 24, 8, 128
    LENGTH, PROMPT, ROWS, PAIRS, STEPS = 1536, 512, 16, 8, 6
EPS, THETA, BETA = 1e-5, 500000.0, 0.1
PEAK = 989e12


def report(name, value, unit):
    print(f"measure {name} {value:.6g} {unit}", flush=True)


def shapes():
    """The flat parameters in their order: model/params.h."""
    yield "embed", (V, H)
    for i in range(LAYERS):
        yield f"{i}.qkv", ((HEADS + 2 * KV) * HD, H)
        yield f"{i}.o", (H, HEADS * HD)
        yield f"{i}.gate_up", (2 * FFN, H)
        yield f"{i}.down", (H, FFN)
        yield f"{i}.norm_a", (H,)
        yield f"{i}.norm_m", (H,)
    yield "norm", (H,)
    yield "head", (V, H)


def weights():
    size = sum(torch.Size(s).numel() for _, s in shapes())
    flat = torch.from_file(path, size=size, dtype=torch.bfloat16)
    at, p = 0, {}
    for name, shape in shapes():
        n = torch.Size(shape).numel()
        p[name] = flat[at:at + n].to(dev).float().view(shape) \
            .requires_grad_(True)
        at += n
    return p


def angles():
    freq = THETA ** (-torch.arange(0, HD, 2, dtype=torch.float64) / HD)
    a = torch.outer(torch.arange(LENGTH, dtype=torch.float64), freq)
    a = torch.cat((a, a), 1).to(dev)
    return a.cos().bfloat16(), a.sin().bfloat16()


def rotate(x, cos, sin):
    swapped = torch.cat((-x[..., HD // 2:], x[..., :HD // 2]), -1)
    return x * cos + swapped * sin


def norm(x, w):
    return F.rms_norm(x, (H,), w.to(x.dtype), EPS)


def layer(x, qkv, o, gate_up, down, norm_a, norm_m, cos, sin):
    b, t, _ = x.shape
    q, k, v = F.linear(norm(x, norm_a), qkv).view(b, t, -1, HD) \
        .transpose(1, 2).split([HEADS, KV, KV], 1)
    a = F.scaled_dot_product_attention(rotate(q, cos, sin),
                                       rotate(k, cos, sin), v,
                                       is_causal=True, enable_gqa=True)
    x = x + F.linear(a.transpose(1, 2).reshape(b, t, -1), o)
    gate, up = F.linear(norm(x, norm_m), gate_up).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, down)


def token_logp(logits, ids):
    return -F.cross_entropy(logits[:, :-1].float().flatten(0, 1),
                            ids[:, 1:].flatten(), reduction="none"
                            ).view(len(ids), -1)


def log1mexp(x):
    return torch.where(x > -0.6931472, torch.log(-torch.expm1(x)),
                       torch.log1p(-torch.exp(x)))


def sft(lp):
    return -lp.mean()


def orpo(lp):
    """TRL's formula; rows: all chosen, then all rejected. The prompt counts
    in the likelihood of the chosen, once."""
    n = len(lp) // 2
    mean = lp[:, PROMPT - 1:].mean(1)
    w, x = mean[:n], mean[n:]
    odds = (w - x) - (log1mexp(w) - log1mexp(x))
    return -lp[:n].mean() - BETA * F.logsigmoid(odds).mean()


def token(n):
    i = torch.arange(1, n + 1, dtype=torch.int64)
    return ((i * 2654435761 & 0xffffffff) >> 7) % V


def rows(task):
    each = 2 * LENGTH - PROMPT if task == "orpo" else LENGTH
    n = PAIRS if task == "orpo" else ROWS
    ids = token(n * each).view(n, each)
    if task == "orpo":
        ids = torch.cat((ids[:, :LENGTH],
                         torch.cat((ids[:, :PROMPT], ids[:, LENGTH:]), 1)))
    return ids.to(dev)


def trainer(task, compiled):
    p = weights()
    params = list(p.values())
    opt = torch.optim.AdamW(params, lr=1e-4, weight_decay=0.01, fused=True)
    cos, sin = angles()
    ids = rows(task)
    f, logp = layer, token_logp
    if compiled:
        f, logp = torch.compile(layer), torch.compile(token_logp)

    def loss():
        x = F.embedding(ids, p["embed"]).bfloat16()
        for i in range(LAYERS):
            x = f(x, *(p[f"{i}.{k}"] for k in ("qkv", "o", "gate_up", "down",
                                                "norm_a", "norm_m")),
                  cos, sin)
        lp = logp(F.linear(norm(x, p["norm"]), p["head"]), ids)
        return sft(lp) if task == "sft" else orpo(lp)

    def step():
        opt.zero_grad(set_to_none=True)
        with torch.autocast(dev, torch.bfloat16):
            value = loss()
        value.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        return value.item()

    return step


def memory():
    return 0 if smoke else torch.cuda.max_memory_allocated()


def task(name):
    step = trainer(name, not smoke)
    step()
    step()  # the optimizer's state is there now
    held = 0 if smoke else torch.cuda.memory_allocated()
    if not smoke:
        torch.cuda.reset_peak_memory_stats()
    best, value = float("inf"), 0
    for _ in range(STEPS - 2):
        start = time.perf_counter()
        value = step()
        best = min(best, time.perf_counter() - start)
    if name == "sft":
        rate = ROWS * LENGTH / best
        n = LAYERS * (H * (2 * HEADS + 2 * KV) * HD + 3 * H * FFN) + H * V
        report("step_sft", rate, "tokens/s")
        report("step_sft_mfu", rate * (6 * n + 6 * LAYERS * HEADS * HD
                                       * LENGTH) / PEAK, "of peak")
    else:
        report("step_orpo", PAIRS / best, "pairs/s")
        report("step_orpo_memory", (memory() - held) / 1e9 / PAIRS, "GB/pair")
    report(f"step_{name}_loss", value, "nats")


def head():
    """The head of an ORPO step alone, with all logits: from hidden states to
    the loss, and to the gradients of the states and of the matrix."""
    ids = rows("orpo")
    x, w = (torch.randn(*s, device=dev, dtype=torch.bfloat16)
            .mul_(0.02).requires_grad_() for s in ((*ids.shape, H), (V, H)))
    logp = token_logp if smoke else torch.compile(token_logp)
    held, best = 0, float("inf")
    for i in range(STEPS):
        if i == 2 and not smoke:
            torch.cuda.synchronize()
            held = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        value = orpo(logp(F.linear(x, w), ids))
        grads = torch.autograd.grad(value, (x, w))
        value.item()
        if not smoke:
            torch.cuda.synchronize()
        if i >= 2:
            best = min(best, time.perf_counter() - start)
        del value, grads
    # What both sides have for results does not count.
    result = 2 * (x.numel() + w.numel())
    report("head_orpo", PAIRS / best, "pairs/s")
    report("head_orpo_memory",
           max(0, memory() - held - result) / 1e9 / PAIRS, "GB/pair")


torch.manual_seed(0)
if first is not None:
    trainer("sft", False)()
    report("first_step", time.time() - first, "s")
else:
    for name in ("sft", "orpo", "head"):
        try:
            head() if name == "head" else task(name)
        except RuntimeError as e:  # out of memory: a figure less, and said
            print(f"{name}: {e}", file=sys.stderr)
        gc.collect()
        if not smoke:
            torch.cuda.empty_cache()

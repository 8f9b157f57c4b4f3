#!/usr/bin/env python3
"""PyTorch's figures for the bars of a GPU, by the names, the shapes and the
counts of bytes and products that src/ops/bench/cuda.c has. Prints
"measure NAME VALUE UNIT" lines; each is what PyTorch does best by itself.
"""
import torch
import torch.nn.functional as F

T, H, FFN, V, CHUNK = 24576, 3072, 8192, 65536, 4096
HEADS, KV, HD, PARAMS = 24, 8, 128, 1 << 30
dev = "cuda"
torch.backends.cuda.matmul.allow_tf32 = False


def seconds(f, reps=10):
    for _ in range(3):
        f()
    best = float("inf")
    for _ in range(reps):
        a = torch.cuda.Event(enable_timing=True)
        b = torch.cuda.Event(enable_timing=True)
        a.record()
        f()
        b.record()
        b.synchronize()
        best = min(best, a.elapsed_time(b) / 1e3)
    return best


def report(name, work, s, unit):
    print(f"measure {name} {work / s:.6g} {unit}", flush=True)


def rand(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device=dev, dtype=dtype) * 0.5


def products():
    for name, rows, cols in (("qkv", (HEADS + 2 * KV) * HD, H),
                             ("out", H, HEADS * HD),
                             ("gate_up", 2 * FFN, H), ("down", H, FFN)):
        w, x, y = rand(rows, cols), rand(T, cols), rand(T, rows)
        flop = 2 * T * rows * cols / 1e12
        report(f"gemm_{name}", flop, seconds(lambda: x @ w.T), "TFLOP/s")
        report(f"gemm_{name}_dx", flop, seconds(lambda: y @ w), "TFLOP/s")
        report(f"gemm_{name}_dw", flop, seconds(lambda: y.T @ x), "TFLOP/s")


def attention(length):
    n = T // length
    q = rand(n, HEADS, length, HD).requires_grad_()
    k, v = (rand(n, KV, length, HD).requires_grad_() for _ in range(2))
    g = rand(n, HEADS, length, HD)
    flop = n * length * (length + 1) / 2 * HEADS * HD / 1e12
    from torch.nn.attention import SDPBackend, sdpa_kernel
    best = {}
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        try:
            with sdpa_kernel(backend):
                def forward():
                    return F.scaled_dot_product_attention(
                        q, k, v, is_causal=True, enable_gqa=True)

                fwd = seconds(lambda: forward().detach())
                o = forward()
                bwd = seconds(lambda: torch.autograd.grad(
                    o, (q, k, v), g, retain_graph=True))
        except RuntimeError:
            continue
        for key, t in (("fwd", fwd), ("bwd", bwd), ("both", fwd + bwd)):
            best[key] = min(best.get(key, float("inf")), t)
    if best:
        report(f"attn_{length}", 4 * flop, best["fwd"], "TFLOP/s")
        report(f"attn_grad_{length}", 10 * flop, best["bwd"], "TFLOP/s")
        report(f"attn_both_{length}", 14 * flop, best["both"], "TFLOP/s")


def rest():
    x, delta, w = rand(T, H), rand(T, H), rand(H)
    report("copy", 4 * T * H / 1e9, seconds(lambda: delta.copy_(x)), "GB/s")
    report("rmsnorm", 8 * T * H / 1e9,
           seconds(lambda: F.rms_norm(x + delta, (H,), w, 1e-5)), "GB/s")
    gu = rand(T, 2 * FFN)
    report("swiglu", 6 * T * FFN / 1e9,
           seconds(lambda: F.silu(gu[:, :FFN]) * gu[:, FFN:]), "GB/s")
    x, (cos, sin) = rand(T, HEADS + KV, HD), (rand(T, 1, HD), rand(T, 1, HD))
    report("rope", 4 * T * (HEADS + KV) * HD / 1e9,
           seconds(lambda: x * cos + torch.cat(
               (-x[..., HD // 2:], x[..., :HD // 2]), -1) * sin), "GB/s")
    del gu, x, delta, cos, sin
    t = torch.randint(0, V, (CHUNK,), device=dev)
    x = rand(CHUNK, V, dtype=torch.float32).requires_grad_()
    report("ce", 10 * CHUNK * V / 1e9,
           seconds(lambda: torch.autograd.grad(
               F.cross_entropy(x, t, reduction="sum"), x)), "GB/s")
    del x
    h = rand(CHUNK, H).requires_grad_()
    wv = rand(V, H).requires_grad_()

    def head():
        loss = F.cross_entropy((h @ wv.T).float(), t, reduction="sum")
        torch.autograd.grad(loss, (h, wv))

    report("head", 6 * CHUNK * V * H / 1e12, seconds(head), "TFLOP/s")
    del h, wv
    p = torch.randn(PARAMS, device=dev, requires_grad=True)
    p.grad = torch.randn(PARAMS, device=dev)
    opt = torch.optim.AdamW([p], lr=1e-5, fused=True)
    report("adamw", 28 * PARAMS / 1e9, seconds(opt.step), "GB/s")


with torch.inference_mode():
    products()
for n in (1024, 2048, 4096):
    attention(n)
rest()

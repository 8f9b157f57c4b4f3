"""The steps of bench-step in PyTorch: the same model, weights, tokens, loss
and optimizer, and the same lines on standard input and output.

    peer.py MODEL IDS [--batch B --length T | --pairs P,C,R:P,C,R...]
        [--mode fp32|onednn|autocast|bf16] [--threads N] [--steps N]
        [--compile] [--wait]

Plain functions on tensors in the way that runs fastest: q, k, v and gate, up
as one matrix each, scaled_dot_product_attention, fused AdamW. --mode:
  fp32      F.linear, which is MKL's or OpenBLAS's sgemm
  onednn    fp32 by way of oneDNN, which no setting of PyTorch asks for in
            training: an autograd function over the operator of inductor
  autocast  fp32 weights, torch.autocast to bf16
  bf16      weights, gradients and optimizer state in bf16: less work than
            the other side does, which keeps fp32 masters
"""
import argparse
import json
import os
import resource
import struct
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("ids")
    p.add_argument("--batch", type=int)
    p.add_argument("--length", type=int)
    p.add_argument("--pairs")
    p.add_argument("--mode", default="fp32")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--compile", action="store_true")
    p.add_argument("--wait", action="store_true")
    return p.parse_args()


def say(**keys):
    print(json.dumps(keys), flush=True)


def read_safetensors(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
    body = np.memmap(path, np.float32, "r", offset=8 + n)
    return {k: torch.from_numpy(
                np.array(body[t["data_offsets"][0] // 4:
                              t["data_offsets"][1] // 4])).view(t["shape"])
            for k, t in head.items() if k != "__metadata__"}


class Onednn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return product(x, w)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        flat = dy.reshape(-1, dy.shape[-1])
        return (product(dy, w.t()),
                product(flat.t(), x.reshape(-1, x.shape[-1]).t()))


def product(x, w):
    return torch.ops.mkldnn._linear_pointwise(x, w, None, "none", [], "")


class Llama:
    def __init__(self, folder, mode, length):
        with open(folder + "/config.json", encoding="utf-8") as f:
            c = json.load(f)
        self.layers = c["num_hidden_layers"]
        self.heads = c["num_attention_heads"]
        self.kv = c["num_key_value_heads"]
        self.hd = c["head_dim"]
        self.eps = c["rms_norm_eps"]
        self.linear = Onednn.apply if mode == "onednn" else F.linear
        dtype = torch.bfloat16 if mode == "bf16" else torch.float32
        self.p = {}
        self.load(read_safetensors(folder + "/model.safetensors"), dtype)
        if "lm_head.weight" not in self.p:
            self.head = self.p["model.embed_tokens.weight"]
        else:
            self.head = self.p["lm_head.weight"]
        freq = c["rope_theta"] ** (-torch.arange(0, self.hd, 2).double()
                                   / self.hd)
        angle = torch.outer(torch.arange(length).double(), freq)
        angle = torch.cat((angle, angle), 1)
        rot = torch.bfloat16 if mode in ("bf16", "autocast") else torch.float32
        self.cos, self.sin = angle.cos().to(rot), angle.sin().to(rot)

    def load(self, t, dtype):
        for i in range(self.layers):
            a, m = f"model.layers.{i}.self_attn.", f"model.layers.{i}.mlp."
            t[a + "qkv"] = torch.cat([t.pop(a + x + "_proj.weight")
                                      for x in "qkv"])
            t[m + "gate_up"] = torch.cat([t.pop(m + x + "_proj.weight")
                                          for x in ("gate", "up")])
        for k, v in t.items():
            self.p[k] = v.to(dtype).requires_grad_(True)

    def norm(self, x, w):
        if hasattr(F, "rms_norm"):
            return F.rms_norm(x, (x.shape[-1],), w.to(x.dtype), self.eps)
        y = x.float() * torch.rsqrt(x.float().square().mean(-1, True)
                                    + self.eps)
        return y.to(x.dtype) * w.to(x.dtype)

    def rotate(self, x):
        half = self.hd // 2
        swapped = torch.cat((-x[..., half:], x[..., :half]), -1)
        return x * self.cos + swapped * self.sin

    def attention(self, x, a):
        b, t, _ = x.shape
        q, k, v = self.linear(x, self.p[a + "qkv"]).view(
            b, t, -1, self.hd).transpose(1, 2).split(
                [self.heads, self.kv, self.kv], 1)
        q, k = self.rotate(q), self.rotate(k)
        if self.kv != self.heads:
            k = k.repeat_interleave(self.heads // self.kv, 1)
            v = v.repeat_interleave(self.heads // self.kv, 1)
        if hasattr(F, "scaled_dot_product_attention"):
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            s = q @ k.transpose(2, 3) * self.hd ** -0.5
            mask = torch.ones(t, t, dtype=torch.bool).tril().logical_not()
            o = s.masked_fill(mask, float("-inf")).softmax(-1).to(v.dtype) @ v
        return self.linear(o.transpose(1, 2).reshape(b, t, -1),
                           self.p[a + "o_proj.weight"])

    def forward(self, ids):
        x = F.embedding(ids, self.p["model.embed_tokens.weight"])
        for i in range(self.layers):
            n = f"model.layers.{i}."
            y = self.norm(x, self.p[n + "input_layernorm.weight"])
            x = x + self.attention(y, n + "self_attn.")
            y = self.norm(x, self.p[n + "post_attention_layernorm.weight"])
            gate, up = self.linear(y, self.p[n + "mlp.gate_up"]).chunk(2, -1)
            x = x + self.linear(F.silu(gate) * up,
                                self.p[n + "mlp.down_proj.weight"])
        return self.linear(self.norm(x, self.p["model.norm.weight"]),
                           self.head)

    def logp(self, ids):
        """log p of every token but the first of a row."""
        logits = self.forward(ids)[:, :-1].float()
        return -F.cross_entropy(logits.reshape(-1, logits.shape[-1]),
                                ids[:, 1:].reshape(-1), reduction="none"
                                ).view(len(ids), -1)


def log1mexp(x):
    return torch.where(x > -0.6931472, torch.log(-torch.expm1(x)),
                       torch.log1p(-torch.exp(x)))


def orpo(lp, text, answer, beta=0.1):
    """TRL's formula; rows: all chosen, then all rejected. 'text' and 'answer'
    are 1 at the targets of a row and of its answer, 0 elsewhere."""
    n = len(lp) // 2
    mean = (lp * answer).sum(1) / answer.sum(1)
    w, x = mean[:n], mean[n:]
    odds = (w - x) - (log1mexp(w) - log1mexp(x))
    nll = -(lp[:n] * text[:n]).sum() / text[:n].sum()
    return nll - beta * F.logsigmoid(odds).mean()


def sft_rows(o):
    ids = np.fromfile(o.ids, np.int32, o.batch * o.length)
    return (torch.from_numpy(ids).long().view(o.batch, o.length),)


def orpo_rows(o):
    """A pair's tokens lie as bench-step has them: its prompt, the chosen
    answer, the rejected one. Here its prompt stands in two rows, and all rows
    are padded to the longest."""
    pairs = [tuple(map(int, x.split(","))) for x in o.pairs.split(":")]
    stream = torch.from_numpy(np.fromfile(o.ids, np.int32)).long()
    wide = max(p + max(c, r) for p, c, r in pairs)
    ids = torch.zeros(2 * len(pairs), wide, dtype=torch.long)
    text = torch.zeros(2 * len(pairs), wide - 1)
    answer = torch.zeros_like(text)
    at = 0
    for i, (p, c, r) in enumerate(pairs):
        prompt = stream[at:at + p]
        for row, n, start in ((i, c, at + p), (len(pairs) + i, r, at + p + c)):
            ids[row, :p + n] = torch.cat((prompt, stream[start:start + n]))
            text[row, :p + n - 1] = 1
            answer[row, p - 1:p + n - 1] = 1
        at += p + c + r
    return ids, text, answer


def optimizer(params):
    keys = dict(lr=1e-4, weight_decay=0.01)
    try:
        return torch.optim.AdamW(params, fused=True, **keys)
    except (RuntimeError, TypeError):  # older ones have no fused one for CPUs
        return torch.optim.AdamW(params, foreach=True, **keys)


def main():
    o = arguments()
    torch.set_num_threads(o.threads)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    batch = orpo_rows(o) if o.pairs else sft_rows(o)
    model = Llama(o.model, o.mode, batch[0].shape[1])
    params = list(model.p.values())
    opt = optimizer(params)

    def loss_of(ids, *masks):
        lp = model.logp(ids)
        return orpo(lp, *masks) if masks else -lp.mean()

    if o.compile:
        loss_of = torch.compile(loss_of)
    say(ready=True, torch=torch.__version__)
    for step in range(o.steps):
        if o.wait and not sys.stdin.readline():
            break
        start = time.perf_counter()
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16,
                            enabled=o.mode == "autocast"):
            loss = loss_of(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        value = loss.item()
        say(step=step, seconds=time.perf_counter() - start, loss=value)
    say(peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        import_bytes=rss)
    sys.stdout.flush()
    os._exit(0)


main()

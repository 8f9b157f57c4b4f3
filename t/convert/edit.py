"""Copy a safetensors file with one thing changed:

    edit.py IN OUT drop NAME          without a tensor
    edit.py IN OUT pad NAME ROWS      with rows of zeros at the end
    edit.py IN OUT copy NAME NEW      a second tensor of the same data
    edit.py IN OUT turn NAME NEW      the same, its rows in reverse order
    edit.py IN OUT fp8 SCALE SUFFIX BLOCK [TYPE [CODE]]
                                      matrices as E4M3 or CODE, E5M2 (TYPE:
                                      what the file calls it) and their
                                      scales as F32
                                      tensors, NAME + SUFFIX; SCALE is tensor,
                                      row or block (BLOCK x BLOCK)
    edit.py IN OUT shard RANK RANKS KV
                                      a rank's part of a megatron checkpoint
                                      with KV key-value heads
    edit.py IN OUT minus-one GLOB     1 taken from every element (F32)
"""
import fnmatch
import json
import math
import struct
import sys


def read(path):
    raw = open(path, "rb").read()
    (n,) = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"],
                raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in head.items()}


def write(path, tensors):
    head, at = {}, 0
    for k, (t, shape, b) in sorted(tensors.items()):
        head[k] = {"dtype": t, "shape": shape,
                   "data_offsets": [at, at + len(b)]}
        at += len(b)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, (_, _, b) in sorted(tensors.items()):
            f.write(b)


def floats(b):
    return list(struct.unpack("<%df" % (len(b) // 4), b))


def pack(v):
    return struct.pack("<%df" % len(v), *v)


def e4m3(x):
    """The nearest code, ties to even; |x| <= 448."""
    sign = 0x80 if math.copysign(1, x) < 0 else 0
    x = abs(x)
    if x == 0:
        return sign
    e = max(math.frexp(x)[1] - 1, -6)
    q = round(x / 2.0 ** (e - 3))  # Python rounds ties to even
    if q == 16:
        q, e = 8, e + 1
    return sign | ((q if e == -6 and q < 8 else (e + 7) * 8 + q - 8))


def e5m2(x):
    """The code nearest to the half nearest to x: its upper byte, rounded."""
    (h,) = struct.unpack("<H", struct.pack("<e", x))
    return (h + 0x7f + (h >> 8 & 1)) >> 8


def fp8(tensors, kind, suffix, block, dtype="F8_E4M3", code="E4M3"):
    most, encode = {"E4M3": (448.0, e4m3), "E5M2": (57344.0, e5m2)}[code]
    out = {}
    for k, (t, shape, b) in tensors.items():
        if len(shape) != 2 or "embed" in k or "lm_head" in k:
            out[k] = (t, shape, b)
            continue
        rows, cols = shape
        v = floats(b)
        h = {"tensor": rows, "row": 1, "block": block}[kind]
        w = {"tensor": cols, "row": cols, "block": block}[kind]
        nr, nc = -(-rows // h), -(-cols // w)
        scale = [0.0] * (nr * nc)
        for r in range(rows):
            for c in range(cols):
                i = r // h * nc + c // w
                scale[i] = max(scale[i], abs(v[r * cols + c]))
        scale = floats(pack([s / most or 1.0 for s in scale]))
        codes = bytes(
            encode(max(-most, min(most, v[r * cols + c]
                                  / scale[r // h * nc + c // w])))
            for r in range(rows) for c in range(cols))
        dims = {"tensor": [1], "row": [rows, 1], "block": [nr, nc]}[kind]
        out[k] = (dtype, shape, codes)
        out[k + suffix] = ("F32", dims, pack(scale))
    return out


def shard(name, tensor, rank, ranks, kv):
    """Megatron's tensor parallelism: whole groups of fused q, k and v; a
    share of the gate, then of the up rows; columns of what follows; a run of
    the vocabulary, padded to a multiple of the ranks."""
    dtype, shape, b = tensor
    n = len(b) // shape[0]
    rows = [b[i * n:(i + 1) * n] for i in range(shape[0])]
    if "linear_proj" in name or "linear_fc2" in name:
        part = n // ranks
        rows = [r[rank * part:(rank + 1) * part] for r in rows]
        return dtype, [shape[0], shape[1] // ranks], b"".join(rows)
    if "norm" in name:
        return tensor
    if "linear_fc1" in name:
        half = len(rows) // 2
        part = half // ranks
        at = rank * part
        rows = rows[at:at + part] + rows[half + at:half + at + part]
    else:
        rows += [b"\0" * n] * (-len(rows) % ranks)
        part = len(rows) // ranks
        rows = rows[rank * part:(rank + 1) * part]
    return dtype, [len(rows)] + shape[1:], b"".join(rows)


def main():
    source, out, what, *args = sys.argv[1:]
    t = read(source)
    if what == "drop":
        del t[args[0]]
    elif what == "pad":
        dtype, shape, b = t[args[0]]
        more = len(b) // shape[0] * int(args[1])
        t[args[0]] = (dtype, [shape[0] + int(args[1])] + shape[1:],
                      b + b"\0" * more)
    elif what == "copy":
        t[args[1]] = t[args[0]]
    elif what == "turn":
        dtype, shape, b = t[args[0]]
        n = len(b) // shape[0]
        rows = [b[i * n:(i + 1) * n] for i in range(shape[0])]
        t[args[1]] = (dtype, shape, b"".join(reversed(rows)))
    elif what == "fp8":
        t = fp8(t, args[0], args[1], int(args[2]), *args[3:])
    elif what == "shard":
        t = {k: shard(k, v, *map(int, args)) for k, v in t.items()}
    elif what == "minus-one":
        for k in fnmatch.filter(t, args[0]):
            dtype, shape, b = t[k]
            t[k] = (dtype, shape, pack([x - 1 for x in floats(b)]))
    write(out, t)


main()

"""Adapters for tests, and what to hold against each other.

    lora.py names DIR                     tensors of an adapter, with shapes
    lora.py near A B ABS                  models (folders) of equal tensors
    lora.py scores A B ABS                two outputs of --score
    lora.py break FROM DIR WHAT           a copy of an adapter with a fault
"""
import json
import os
import shutil
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tiny  # noqa: E402

WEIGHTS, CONFIG = "/adapter_model.safetensors", "/adapter_config.json"


def names(path):
    for name, dtype, shape, _ in sorted(tiny.read_tensors(path + WEIGHTS)):
        print(name, dtype, *shape)


def floats(dtype, data):
    if dtype == "BF16":
        data = b"".join(b"\0\0" + data[i:i + 2]
                        for i in range(0, len(data), 2))
    return struct.unpack(f"<{len(data) // 4}f", data)


def near(a, b, most):
    ta = sorted(tiny.read_tensors(a + "/model.safetensors"))
    tb = sorted(tiny.read_tensors(b + "/model.safetensors"))
    assert [t[0] for t in ta] == [t[0] for t in tb]
    worst = max(abs(x - y) for t, u in zip(ta, tb)
                for x, y in zip(floats(t[1], t[3]), floats(u[1], u[3])))
    print(f"{a} {b}: {worst:.3g}")
    sys.exit(worst > float(most))


def scores(a, b, most):
    ra, rb = ([json.loads(line) for line in open(p)] for p in (a, b))
    assert len(ra) == len(rb) > 0
    worst = max(abs(x - y) for r, s in zip(ra, rb)
                for x, y in zip(r["logp"], s["logp"]))
    print(f"{a} {b}: {worst:.3g}")
    sys.exit(worst > float(most))


def broken(source, path, what):
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(source, path)
    tensors = tiny.read_tensors(path + WEIGHTS)
    with open(path + CONFIG) as f:
        config = json.load(f)
    name, dtype, shape, data = tensors[0]
    if what == "missing":
        tensors = tensors[1:]
    elif what == "extra":
        tensors.append((name.replace("lora_", "lora_magnitude_"), dtype,
                        shape, data))
    elif what == "misshapen":
        tensors[0] = (name, dtype, shape[::-1], data)
    elif what == "nan":
        tensors[0] = (name, dtype, shape, b"\xff" * len(data))
    elif what == "no-weights":
        os.remove(path + WEIGHTS)
        return
    else:
        key, value = what.split("=", 1)
        config[key] = json.loads(value)
        with open(path + CONFIG, "w") as f:
            json.dump(config, f)
    tiny.write_tensors(path + WEIGHTS, tensors)


if __name__ == "__main__":
    {"names": names, "near": near, "scores": scores,
     "break": broken}[sys.argv[1]](*sys.argv[2:])

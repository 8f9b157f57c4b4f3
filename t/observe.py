"""Hold what a run says it took against itself and against its plan.

    observe.py times METRICS LIMIT   activities add up to the time that passed,
        which is LIMIT seconds at most
    observe.py plan METRICS PLAN     allocated as planned, class by class (PLAN:
        what `burnish plan --json` printed), arenas are whole
"""
import json
import sys

HUGE = 2 << 20


def end(path):
    with open(path, encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    assert rows[-1]["kind"] == "end", "no end record"
    return rows[-1]


def times(path, limit):
    r = end(path)
    spent = {k: v for k, v in r.items() if k.startswith("time/")}
    wall = spent.pop("time/wall")
    print(f"{wall:.6f} s in all: {spent}")
    assert len(spent) == 10, "ten activities"
    assert all(v >= 0 for v in spent.values())
    assert abs(sum(spent.values()) - wall) < 1e-6 * wall, "they do not add up"
    for name in ("forward", "backward", "optimizer", "data", "save", "start"):
        assert spent["time/" + name] > 0, f"no time in {name}"
    # the clock of the report starts before that of train_runtime
    assert r["train_runtime"] <= wall <= float(limit), f"limit {limit}"


def plan(path, planned):
    r = end(path)
    with open(planned, encoding="utf-8") as f:
        want = json.load(f)
    total = 0
    for name in ("weights", "gradients", "tables", "optimizer", "activations",
                 "comm", "copy"):
        got = {k: r[f"memory/{name}/{k}"]
               for k in ("planned", "allocated", "touched", "peak")}
        print(name, got)
        assert got["planned"] == want[name], f"{name}: plan {want[name]}"
        assert got["allocated"] == want[name], f"{name}: not as planned"
        assert 0 <= got["touched"] <= got["allocated"] <= got["peak"]
        assert got["touched"] > 0 or not got["allocated"], f"{name} unused"
        total += got["allocated"] if name != "comm" else 0
    total += r["memory/rounding/allocated"]
    assert total % HUGE == 0, "arenas are not whole huge pages"
    assert r["memory/data/touched"] > 0
    assert r["memory/resident_peak"] > total // 2
    assert 0 < r["mfu"] < 1


{"times": times, "plan": plan}[sys.argv[1]](*sys.argv[2:])

#!/usr/bin/env python3
"""Compare the losses of a bf16 run with the float64 trajectory: within 3%.
Usage: near.py GOLDEN.json METRICS.jsonl"""
import json
import sys

want = json.load(open(sys.argv[1]))["runs"][0]["float64"]["loss"]
got = [r["loss"] for r in map(json.loads, open(sys.argv[2])) if "loss" in r]
if len(got) != len(want):
    sys.exit(f"{len(got)} losses, {len(want)} expected")
worst = max(abs(g - w) / w for g, w in zip(got, want))
print(f"losses are off by {worst:.2%} at most")
sys.exit(worst > 0.03)

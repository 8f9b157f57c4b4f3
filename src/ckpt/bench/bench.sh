#!/bin/sh
# bench.sh BENCH_CKPT [MIB]: saves and loads of a checkpoint against raw files,
# and against torch.save and torch.load of the same bytes where python3 has
# torch (Debian: python3-torch). In BENCH_DIR, by default the current folder.
set -eu
bench=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
mib=${2:-512}
tmp=$(mktemp -d "${BENCH_DIR:-.}/bench-ckpt.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
rc=0
"$bench" "$tmp" "$mib" | tee "$tmp/out" || rc=1
grep -q '^bench ckpt-pause' "$tmp/out" || exit 1
if ! python3 -c 'import torch' 2>/dev/null; then
    echo "# no torch for python3: not held against torch.save and torch.load"
    exit $rc
fi
python3 - "$tmp" "$mib" <<'EOF' || rc=1
import os, re, sys, time
import torch
tmp, mib = sys.argv[1], int(sys.argv[2])
ours = {m[1]: float(m[2]) for m in re.finditer(
    r"bench (\S+) .* ours (\d+)", open(tmp + "/out").read())}
state = {k: torch.rand(mib * (1 << 20) // 12) for k in ("p", "m", "v")}
size = sum(t.numel() * 4 for t in state.values()) / 1e6
save = load = 1e9
for _ in range(5):
    t0 = time.monotonic()
    with open(tmp + "/t.pt", "wb") as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())
    save = min(save, time.monotonic() - t0)
    t0 = time.monotonic()
    torch.load(tmp + "/t.pt")
    load = min(load, time.monotonic() - t0)
short = 0
for name, t, target in (("save", save, 1.3), ("load", load, 10)):
    peer = size / t
    ratio = ours["ckpt-" + name] / peer
    short |= ratio < target
    print(f"bench ckpt-{name}-torch {ratio:.3f} target {target:.3f} "
          f"ours {ours['ckpt-' + name]:.0f} peer {peer:.0f} MB/s")
sys.exit(short)
EOF
exit $rc

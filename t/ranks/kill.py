"""Kill a run at seeded random moments, start it again, and so on.

    kill.py SEED KILLS EVERY OUTPUT_DIR COMMAND...

COMMAND starts all ranks of a run with output_dir OUTPUT_DIR and logging_steps
1. After 1 to EVERY further steps and up to 20 ms it loses one rank, or all of
them, to SIGKILL. In the end the command is run to its own end. Exit 0 if each
start ended within 60 s and the run lasted for all the kills.
"""
import json
import os
import random
import signal
import subprocess
import sys
import time


def last_step(path):
    try:
        with open(path + "/metrics.jsonl", "rb") as f:
            lines = f.read().split(b"\n")[:-1]
        return json.loads(lines[-1])["step"] if lines else 0
    except (OSError, ValueError):
        return 0


def ranks(path, start):
    """Processes of this start, by their phase files."""
    pids = []
    for name in os.listdir(path):
        if name.startswith("phase.") and not name.endswith(".tmp"):
            try:
                with open(path + "/" + name) as f:
                    o = json.load(f)
            except (OSError, ValueError):
                continue
            if o["time"] >= start:
                pids.append(o["pid"])
    return pids


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def one_start(rng, every, path, command):
    """True if it was killed, False if it ended first."""
    start = time.time()
    child = subprocess.Popen(command, start_new_session=True)
    before = last_step(path)
    target = before + rng.randint(1, every)
    seen_less = False
    while child.poll() is None and time.time() - start < 60:
        step = last_step(path)
        # a resumed run first cuts its records back
        seen_less = seen_less or step < before or step == 0
        if ranks(path, start) and step >= target:
            break
        time.sleep(0.002)
    time.sleep(rng.random() * 0.02)
    if child.poll() is not None:
        return False
    pids = ranks(path, start)
    if rng.random() < 0.5:
        kill([rng.choice(pids)])
    else:
        kill(pids)
        os.killpg(child.pid, signal.SIGKILL)
    child.wait(timeout=60)
    return True


def main(argv):
    rng = random.Random(int(argv[0]))
    wanted, every, path, command = int(argv[1]), int(argv[2]), argv[3], argv[4:]
    kills = 0
    while kills < wanted:
        if not one_start(rng, every, path, command):
            sys.exit(f"the run ended after {kills} kills")
        kills += 1
    print(f"{kills} kills, at step {last_step(path)}")
    return subprocess.call(command)


sys.exit(main(sys.argv[1:]))

"""Cases of broken input: make them, and judge what a program did with them.

    cases.py TABLE... DIR

A case lies in the folder DIR/NNN. DIR/names has a line 'NNN NAME' a case,
and DIR/NNN.verdict says what was not as it should be: nothing, if all was.

A table is text:

    # a comment
    == name of the case
    python statements that break a good world (the verbs are below)
    -- 65
    the one line expected on standard error, without "error: "

Of a run file the class is 64 and several lines may be expected; they bear no
"error: ". A line that begins with ~ is a regular expression. Each case is run twice: with --check, where it must be noticed
too and leave nothing at all, unless the statements call train_only(); then
for real, where it may leave phase.0 and exit-class in output_dir.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import tiny

DROP = object()
MODEL = "model/model.safetensors"


class Case:
    """The verbs. The current directory is the case's world."""

    def __init__(self, trained):
        self.keys = dict(tiny.RUN)
        self.spec = {"args": ["run.yaml"], "check": True, "made": ["out"],
                     "env": {}}
        self.run_text = None
        self.trained = trained

    def verbs(self):
        names = [n for n in dir(self) if not n.startswith("_")]
        out = {n: getattr(self, n) for n in names
               if callable(getattr(self, n))}
        out.update(DROP=DROP, MODEL=MODEL, json=json, os=os, tiny=tiny,
                   struct=struct, shutil=shutil)
        return out

    # --- the run
    def key(self, **kw):
        edit(self.keys, kw)

    def text(self, text):
        self.run_text = text

    def line(self, *lines):
        self.run_text = (self.run_text or tiny.yaml(self.keys)) + "".join(
            x + "\n" for x in lines)

    def args(self, *args):
        self.spec["args"] = list(args)

    def env(self, **kw):
        self.spec["env"].update(kw)

    def train_only(self):
        self.spec["check"] = False

    def no_output(self):
        """output_dir may not even be made"""
        self.spec["made"] = []

    def may_leave(self, *paths):
        self.spec["made"] += paths

    # --- files
    def write(self, path, text):
        if os.path.dirname(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        mode = "wb" if isinstance(text, bytes) else "w"
        with open(path, mode) as f:
            f.write(text)

    def rows(self, *rows, path="sft.jsonl"):
        tiny.jsonl(path, rows)

    def cut(self, path, n):
        """keep n bytes (all but -n if negative)"""
        size = os.path.getsize(path)
        os.truncate(path, n if n >= 0 else size + n)

    def poke(self, path, at, data):
        with open(path, "r+b") as f:
            f.seek(at)
            f.write(data)

    def flip(self, path, at):
        with open(path, "r+b") as f:
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 1]))

    # --- JSON
    def edit_json(self, path, **kw):
        with open(path, encoding="utf-8") as f:
            o = json.load(f)
        edit(o, kw)
        self.write(path, json.dumps(o))

    def config(self, **kw):
        self.edit_json("model/config.json", **kw)

    def tokenizer(self, **kw):
        self.edit_json("model/tokenizer.json", **kw)

    def bpe(self, **kw):
        with open("model/tokenizer.json", encoding="utf-8") as f:
            o = json.load(f)
        edit(o["model"], kw)
        self.write("model/tokenizer.json", json.dumps(o))

    # --- weights
    def tensors(self, f, path=MODEL):
        """replace the list of (name, dtype, shape, bytes) by f of it"""
        tiny.write_tensors(path, f(tiny.read_tensors(path)))

    def tensor(self, name, dtype=None, shape=None, data=None, drop=False,
               rename=None):
        def f(ts):
            assert any(t[0] == name for t in ts)
            return [(rename or t[0], dtype or t[1],
                     shape if shape is not None else t[2],
                     data(t[3]) if data else t[3]) if t[0] == name else t
                    for t in ts if not (drop and t[0] == name)]
        self.tensors(f)

    def header(self, text, body=b""):
        text = text if isinstance(text, bytes) else text.encode()
        self.write(MODEL, struct.pack("<Q", len(text)) + text + body)

    def floats(self, name, **at):
        """floats('model.norm.weight', _3=float('nan'))"""
        def data(b):
            b = bytearray(b)
            for k, v in at.items():
                struct.pack_into("<f", b, 4 * int(k[1:]), v)
            return bytes(b)
        self.tensor(name, data=data)

    # --- a run that went before
    def ran(self):
        """out/ holds a run of four steps with a checkpoint a step"""
        for name in ("out", "cache"):
            shutil.copytree(self.trained + "/" + name, name)


def edit(o, kw):
    for k, v in kw.items():
        if v is DROP:
            del o[k]
        else:
            o[k] = v


def parse(path):
    name, code, want, state = None, [], [], None
    with open(path, encoding="utf-8") as f:
        for line in f:
            line = line.rstrip("\n")
            if line.startswith("== "):
                if name:
                    yield name, code, status, want
                name, code, want, state = line[3:], [], [], code
                state = code
            elif line.startswith("-- "):
                status, state = int(line[3:]), want
            elif line and not line.startswith("#"):
                state.append(line)
    yield name, code, status, want


def burnish(*args, **kw):
    return subprocess.run(["burnish-train", *args], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          **kw)


def make_trained(path):
    tiny.world(path)
    r = burnish("--set", "save_steps=1", "run.yaml", cwd=path)
    assert r.returncode == 0, r.stderr


def make(tables, top):
    top = os.path.abspath(top)
    os.makedirs(top)
    make_trained(top + "/trained")
    tiny.world(top + "/good")
    n = 0
    for table in tables:
        for name, code, status, want in parse(table):
            n += 1
            path = f"{top}/{n:03d}"
            shutil.copytree(top + "/good", path)
            os.chdir(path)
            case = Case(top + "/trained")
            exec("\n".join(code), case.verbs())
            if case.run_text is None:
                case.run_text = tiny.yaml(case.keys)
            case.write("run.yaml", case.run_text)
            case.spec.update(name=name, status=status, want=want)
            with open(path + ".json", "w", encoding="utf-8") as f:
                json.dump(case.spec, f)
            with open(top + "/names", "a", encoding="utf-8") as f:
                f.write(f"{n:03d} {name}\n")
    os.chdir(top)
    return n


def listing(path):
    out = set()
    for top, dirs, files in os.walk(path):
        out |= {os.path.relpath(os.path.join(top, x), path)
                for x in dirs + files}
    return out


def allowed(top, path, spec, check):
    """Whether a run that failed may have made 'path'."""
    if re.fullmatch(r"cache(/files(/[0-9a-f]{32})?|/tokens(/[0-9a-f]{32}(/[a-z.]+)?)?)?", path):
        entry = re.match(r"cache/tokens/[0-9a-f]+", path)
        return not entry or os.path.exists(f"{top}/{entry[0]}/meta.json")
    if check:
        return False
    return path in spec["made"] or any(
        path == m + "/" + f for m in spec["made"]
        for f in ("phase.0", "exit-class"))


def matches(want, got):
    if want.startswith("~ "):
        return re.fullmatch(want[2:], got)
    return want == got


def judge(path, spec, r, before, check):
    bad = []
    err = r.stderr.decode("utf-8", "surrogateescape")
    lines = err.splitlines()
    if r.returncode != spec["status"]:
        bad.append(f"exit status {r.returncode}, expected {spec['status']}")
    errors = [x[7:] for x in lines if x.startswith("error: ")]
    if not errors and r.returncode == 64:
        errors = lines
    if len(errors) != len(spec["want"]) or not all(
            map(matches, spec["want"], errors)):
        bad += ["-" + x for x in spec["want"]] + ["+" + x for x in errors]
    if errors and not lines[-1].endswith(errors[-1]):
        bad.append("the error is not the last line:\n" + err)
    if r.stdout:
        bad.append("on standard output: " + r.stdout.decode()[:200])
    left = sorted(x for x in listing(path) - before
                  if not allowed(path, x, spec, check))
    if left:
        bad.append("left: " + " ".join(left))
    gone = sorted(before - listing(path))
    if gone:
        bad.append("removed: " + " ".join(gone))
    mark = path + "/out/exit-class"
    if not check and os.path.exists(path + "/out/phase.0"):
        text = "missing\n"
        if os.path.exists(mark):
            with open(mark, encoding="utf-8") as f:
                text = f.read()
        if text != f"{spec['status']}\n":
            bad.append("exit-class is " + text)
    return bad


def run(path):
    with open(path + ".json", encoding="utf-8") as f:
        spec = json.load(f)
    env = dict(os.environ, **spec["env"])
    out = []
    before = listing(path)
    for way in [["--check"], []] if spec["check"] else [[]]:
        r = burnish(*way, *spec["args"], env=env, cwd=path, timeout=60)
        bad = judge(path, spec, r, before, bool(way))
        if bad:
            out.append(" ".join(["burnish-train", *way, *spec["args"]]))
            out += ["    " + x for x in bad]
    with open(path + ".verdict", "w", encoding="utf-8",
              errors="surrogateescape") as f:
        f.write("".join(x + "\n" for x in out))


def main():
    top = os.path.abspath(sys.argv[-1])
    tables = [os.path.abspath(x) for x in sys.argv[1:-1]]
    n = make(tables, top)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(run, (f"{top}/{i:03d}" for i in range(1, n + 1))))


main()

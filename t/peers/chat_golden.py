#!/usr/bin/env python3
"""Render chat templates with Jinja, set up the way transformers does.

  chat_golden.py render  CASES.json TEMPLATE...   golden.json on stdout
  chat_golden.py expr    EXPRESSIONS.txt          expressions.json on stdout
  chat_golden.py live    CASES.json CONFIG.json   as render, for the
                         chat_template of a tokenizer_config.json

Output is JSON; offsets of spans are bytes of UTF-8. What Jinja refuses has
"error": its type and message, for people; the tests ask only that we refuse
too. Needs jinja2 >= 3.1 (Debian: python3-jinja2).
"""
import json
import os
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    """{% generation %}: remember where its text came out."""
    tags = {"generation"}

    def __init__(self, environment):
        super().__init__(environment)
        self.blocks = None
        self.spans = []
        environment.generation = self

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"],
                                       drop_needle=True)
        call = self.call_method("mark")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def mark(self, caller):
        text = caller()
        if self.blocks is not None:
            start = len("".join(self.blocks).encode())
            self.spans.append([start, start + len(text.encode())])
        return text


def environment():
    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None,
               sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent,
                          separators=separators, sort_keys=sort_keys)

    def now(fmt):
        import datetime
        return datetime.datetime.now().strftime(fmt)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = now
    return env


def run(env, source, variables):
    try:
        gen = env.generation
        template = env.from_string(source)
        gen.blocks, gen.spans = [], []
        for block in template.generate(**variables):
            gen.blocks.append(block)
        text = "".join(gen.blocks)
        text.encode()
        return {"text": text, "spans": gen.spans}
    except Exception as e:
        return {"error": "%s: %s" % (type(e).__name__, e)}


TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")


def render_cases(env, source, tokens, cases):
    out = []
    for case in cases:
        for prompt in (False, True):
            v = {"messages": case["messages"], "tools": case.get("tools"),
                 "documents": None, "add_generation_prompt": prompt}
            v = {**tokens, **case.get("extra", {}), **v}
            out.append({"case": case["name"], "add_generation_prompt": prompt,
                        **run(env, source, v)})
    return out


def main():
    what, env = sys.argv[1], environment()
    if what == "expr":
        out = []
        with open(sys.argv[2], encoding="utf-8") as f:
            variables = json.loads(f.readline())
            for line in f:
                line = line.rstrip("\n")
                if line and not line.startswith("##"):
                    source = line.replace("⏎", "\n")
                    out.append({"template": source,
                                **run(env, source, variables)})
        # Text that shows an address is not a result.
        out = [o for o in out if " at 0x" not in o.get("text", "")]
        json.dump({"variables": variables, "cases": out}, sys.stdout,
                  ensure_ascii=False, indent=0)
        print()
        return
    cases = json.load(open(sys.argv[2], encoding="utf-8"))
    out = []
    for path in sys.argv[3:]:
        if what == "live":
            config = json.load(open(path, encoding="utf-8"))
            source = config["chat_template"]
            tokens = {k: config[k] for k in TOKENS if config.get(k)}
        else:
            source = open(path, encoding="utf-8", newline="").read()
            tokens = {"bos_token": "<s>", "eos_token": "</s>"}
        out.append({"template": os.path.basename(path),
                    "source": source if what == "live" else None,
                    "tokens": tokens,
                    "cases": render_cases(env, source, tokens, cases)})
    json.dump(out, sys.stdout, ensure_ascii=False, indent=0)
    print()


main()

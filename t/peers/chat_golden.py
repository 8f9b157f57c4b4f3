#!/usr/bin/env python3
"""Render chat templates with Jinja, set up the way transformers does.

  chat_golden.py render  CASES.json TEMPLATE...   golden.json on stdout
  chat_golden.py expr    EXPRESSIONS.txt          expressions.json on stdout
  chat_golden.py live    CASES.json CONFIG.json   as render, for the
                         chat_template of a tokenizer_config.json
  chat_golden.py random  EXPRESSIONS.txt SEED N   as expr, for N templates
                         made at random over the variables of that file

Output is JSON; offsets of spans are bytes of UTF-8. What Jinja refuses has
"error": its type and message, for people; the tests ask only that we refuse
too. Needs jinja2 >= 3.1 (Debian: python3-jinja2).
"""
import copy
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
        # a copy: [] | indent changes the list that it is given
        for block in template.generate(**copy.deepcopy(variables)):
            gen.blocks.append(block)
        text = "".join(gen.blocks)
        text.encode()
        return {"text": text, "spans": gen.spans}
    except Exception as e:
        return {"error": "%s: %s" % (type(e).__name__, e)}


class Maker:
    """Templates at random. Depth-limited, of the constructs that we have;
    most are nonsense of one kind or other, which must be refused alike."""
    STRINGS = ["''", "'a'", "'Hello, World'", "' x '", "'é한🎉'", "'ß'",
               "'1'", "'-2.5'", "'a,b,,c'", "'\\n'", "'%s'", "'{}'", "'<b>'"]
    NUMBERS = ["0", "1", "2", "-1", "3.5", "0.1", "100", "-7", "1e3"]
    NAMES = ["s", "u", "n", "f", "z", "neg", "t", "no", "nil", "e", "l",
             "el", "ll", "d", "ed", "users", "nope", "csv", "m", "html"]
    FILTERS = ["trim", "upper", "lower", "title", "capitalize", "length",
               "string", "int", "float", "abs", "round", "first", "last",
               "list", "join", "join('-')", "sort", "unique|list", "reverse",
               "min", "max", "sum", "tojson", "tojson(indent=2)", "escape",
               "safe", "default('D')", "default('D', true)", "items|list",
               "dictsort", "replace('a', 'b')", "map('string')|list",
               "select|list", "reject|list", "batch(2)|list", "indent",
               "map(attribute='name')|list", "selectattr('name')|list",
               "sort(reverse=true)", "round(1)", "int(5)", "count", "e",
               "sort(attribute='age')", "trim('a')", "wordcount",
               "tojson(sort_keys=true)", "center(9)", "truncate(5)"]
    TESTS = ["defined", "undefined", "none", "string", "number", "integer",
             "float", "boolean", "mapping", "iterable", "sequence", "odd",
             "even", "true", "false", "lower", "upper", "callable", "in l",
             "eq 1", "divisibleby 2", "gt 1", "in 'abc'", "escaped"]
    METHODS = ["strip()", "strip('a ')", "lstrip()", "rstrip()", "split()",
               "split(',')", "split(' ', 1)", "upper()", "lower()",
               "title()", "capitalize()", "startswith('a')", "keys()|list",
               "endswith('c')", "replace('a', 'xx')", "find('a')",
               "items()|list", "values()|list", "get('a')", "get('b', 1)",
               "swapcase()", "splitlines()", "isdigit()", "isalpha()",
               "index(1)", "count('a')", "join(['p', 'q'])", "zfill(4)",
               "name", "age", "a", "b", "0", "format(1)", "partition(',')"]
    BINARY = ["+", "-", "*", "/", "//", "%", "~", "~", "==", "!=", "<",
              "<=", ">", ">=", "in", "not in", "and", "or", "+", "~"]

    def __init__(self, seed):
        import random
        self.r = random.Random(seed)

    def expr(self, depth):
        pick, e = self.r.choice, self.expr
        if depth <= 0 or self.r.random() < 0.1:
            return pick(pick([self.STRINGS, self.NUMBERS, self.NAMES,
                              self.NAMES]))
        k = self.r.randrange(13)
        if k < 2:
            return "%s %s %s" % (e(depth - 1), pick(self.BINARY),
                                 e(depth - 1))
        if k == 2:
            return "(%s)" % e(depth - 1)
        if k < 6:
            return "%s|%s" % (e(depth - 1), pick(self.FILTERS))
        if k < 8:
            return "(%s).%s" % (e(depth - 1), pick(self.METHODS))
        if k == 8:
            return "%s is %s%s" % (e(depth - 1), pick(["", "not "]),
                                   pick(self.TESTS))
        if k == 9:
            return "%s[%s]" % (pick(self.NAMES), pick(
                ["0", "-1", "1:", ":-1", "::-1", "'a'", "::2", "5", "1:2",
                 "-2:", "2:0:-1", e(depth - 1)]))
        if k == 10:
            return "%s if %s else %s" % (e(depth - 1), e(depth - 1),
                                         e(depth - 1))
        if k == 11:
            return "[%s, %s]" % (e(depth - 1), e(depth - 1))
        return pick(["not %s", "-%s", "{'a': %s}", "(%s,)"]) % e(depth - 1)

    def tag(self, depth):
        pick, e, body = self.r.choice, self.expr, self.body
        a = pick(["", "", "-", "+"])
        b = pick(["", "", "-", "+"])
        w = ("{%" + a, b + "%}")
        k = self.r.randrange(7)
        if k == 0:
            return "%s if %s %s%s%s else %s%s%s endif %s" % (
                w[0], e(1), w[1], body(depth), w[0], w[1], body(depth), *w)
        if k == 1:
            cond = pick(["", "", " if x", " if loop"])
            return "%s for x in %s%s %s%s%s endfor %s" % (
                w[0], e(1), cond, w[1], body(depth) + pick(
                    ["{{ x }}", "{{ loop.index }}", "{{ loop.last }}",
                     "{{ loop.length }}", "{{ loop.nextitem }}",
                     "{% if loop.first %}{% continue %}{% endif %}z"]), *w)
        if k == 2:
            return "%s set %s = %s %s" % (w[0], pick(["x", "y"]), e(2),
                                          w[1])
        if k == 3:
            return "%s set y %s%s%s endset %s{{ y }}" % (
                w[0], w[1], body(0), *w)
        if k == 4:
            return "%s macro g(p, q=%s) %s%s{{ p }}%s endmacro %s{{ g(%s) }}" \
                % (w[0], e(1), w[1], body(0), *w, e(1))
        if k == 5 and depth == 1:
            return "%s generation %s%s%s endgeneration %s" % (
                w[0], w[1], self.body(0), *w)
        return "{#%s %s #}" % (a, pick(["c", "{{ x", "-"]))

    def body(self, depth):
        pick = self.r.choice
        out = []
        for _ in range(self.r.randrange(1, 4)):
            out.append(pick(["", " ", "\n", "  \n", "a", "\n b", "\t"]))
            if depth > 0 and self.r.random() < 0.6:
                out.append(self.tag(depth - 1))
            else:
                out.append("{{%s %s %s}}" % (pick(["", "", "-"]),
                                             self.expr(2),
                                             pick(["", "", "-"])))
        return "".join(out) + pick(["", "\n", " "])

    def template(self):
        if self.r.random() < 0.6:
            return "{{ %s }}" % self.expr(3)
        return self.body(2)


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
    if what == "random":
        with open(sys.argv[2], encoding="utf-8") as f:
            variables = json.loads(f.readline())
        maker = Maker(int(sys.argv[3]))
        out = []
        for _ in range(int(sys.argv[4])):
            source = maker.template()
            out.append({"template": source, **run(env, source, variables)})
        out = [o for o in out if "0x7" not in o.get("text", "")]
        json.dump({"variables": variables, "cases": out}, sys.stdout)
        return
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
        out = [o for o in out if "0x7" not in o.get("text", "")]
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

#!/usr/bin/env python3
"""Time the encoder against the reference library, in one run, interleaved.

usage: bench.py BENCH_ENCODE TOKENIZERS TEXT_FOLDER

TEXT_FOLDER has html files under ko/ and en/. Prints one line a figure,
  bench NAME RATIO target T ours A peer B UNIT
and leaves with 1 if one falls short. Both encode the same list of texts on
one thread and must give the same ids. One-thread times are the least of
several of computing, so that other processes on the machine matter little;
what two threads gain is wall time.
"""
import html.parser
import os
import struct
import subprocess
import sys
import tempfile
import time

os.environ['TOKENIZERS_PARALLELISM'] = 'false'
os.environ['RAYON_NUM_THREADS'] = '1'
from tokenizers import Tokenizer  # noqa: E402

BENCH, TOKENIZERS, TEXTS = sys.argv[1:4]
SIZE = 4 << 20   # bytes of text
CHUNK = 4 << 10  # bytes of one text, about what a row of data has
ROUNDS = 3
FAILED = []


class Text(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.parts, self.skip = [], 0

    def handle_starttag(self, tag, attrs):
        self.skip += tag in ('script', 'style', 'head')

    def handle_endtag(self, tag):
        self.skip -= tag in ('script', 'style', 'head')

    def handle_data(self, data):
        if not self.skip:
            self.parts.append(data)


def read_texts(lang):
    folder = os.path.join(TEXTS, lang)
    texts = []
    for name in sorted(os.listdir(folder)):
        if not name.endswith('.html'):
            continue
        parser = Text()
        with open(os.path.join(folder, name), encoding='utf-8') as f:
            parser.feed(f.read())
        part, size = [], 0
        for line in ''.join(parser.parts).replace('\0', '').splitlines(True):
            if lang == 'ko' and not any('가' <= c <= '힣' for c in line) \
                    and line.strip():
                continue  # what was never translated
            part.append(line)
            size += len(line.encode())
            if size > CHUNK:
                texts.append(''.join(part))
                part, size = [], 0
        if part:
            texts.append(''.join(part))
    once = sum(len(t.encode()) for t in texts)
    return texts * max(1, SIZE // once), once


def ours(tokenizer, path, *what):
    run = subprocess.run([BENCH, tokenizer, path, *what], check=True,
                         capture_output=True, text=True)
    return run.stdout.split()


def same_ids(tokenizer, path, want):
    with tempfile.NamedTemporaryFile() as f:
        ours(tokenizer, path, 'ids', f.name)
        raw = f.read()
    at = 0
    for e in want:
        n, = struct.unpack_from('=i', raw, at)
        got = list(struct.unpack_from(f'={n}i', raw, at + 4))
        if got != e.ids:
            return False
        at += 4 + 4 * n
    return at == len(raw)


def line(name, target, a, b, unit, ratio=None):
    ratio = a / b if ratio is None else ratio
    print(f'bench {name} {ratio:.2f} target {target} ours {a:.4g} '
          f'peer {b:.4g} {unit}', flush=True)
    if ratio < target:
        FAILED.append(name)


def compare(name, lang, texts, path, target):
    tokenizer = os.path.join(TOKENIZERS, name, 'tokenizer.json')
    ref = Tokenizer.from_file(tokenizer)
    want = ref.encode_batch(texts, add_special_tokens=False)
    if not same_ids(tokenizer, path, want):
        print(f'bench {name}-{lang} failed: ids differ')
        FAILED.append(name)
        return
    best_ref = best_one = best_first = 1e30
    wall = [1e30, 1e30]
    for _ in range(ROUNDS):
        t0 = time.process_time()
        ref.encode_batch_fast(texts, add_special_tokens=False)
        best_ref = min(best_ref, time.process_time() - t0)
        for threads in (1, 2):
            size, _, first, least, cpu = ours(tokenizer, path, 'speed',
                                              str(threads), '20')
            wall[threads - 1] = min(wall[threads - 1], float(least))
            if threads == 1:
                best_one = min(best_one, float(cpu))
                best_first = min(best_first, float(first))
    mb = int(size) / 1e6
    line(f'encode-{name}-{lang}', target, mb / best_one, mb / best_ref,
         'MB/s')
    line(f'encode-{name}-{lang}-cold', target * 0.375, mb / best_first,
         mb / best_ref, 'MB/s')
    line(f'encode-{name}-{lang}-2-threads', 1.8, mb / wall[1], mb / wall[0],
         'MB/s')


def long_words(name, lang, path):
    """Words without a break: at most 5 times normal text a byte, and linear
    from 64 KB to 1 MB (within 1.5)."""
    tokenizer = os.path.join(TOKENIZERS, name, 'tokenizer.json')
    size, _, _, _, cpu = ours(tokenizer, path, 'speed', '1', '20')
    normal = float(cpu) * 1e9 / int(size)
    out = ours(tokenizer, path, 'words')
    rows = [(out[i], int(out[i + 1]), float(out[i + 2]))
            for i in range(0, len(out), 3)]
    for kind in dict.fromkeys(r[0] for r in rows):
        costs = [r[2] for r in rows if r[0] == kind]
        line(f'long-word-{name}-{kind}', 0.2, max(costs), normal, 'ns/byte',
             normal / max(costs))
        line(f'long-word-{name}-{kind}-linear', 0.667, costs[-1], costs[0],
             'ns/byte', costs[0] / costs[-1])


def main():
    only = sys.argv[4:]
    with tempfile.TemporaryDirectory() as tmp:
        paths = {}
        for lang in ('ko', 'en'):
            texts, once = read_texts(lang)
            path = os.path.join(tmp, lang)
            with open(path, 'wb') as f:
                for t in texts:
                    f.write(t.encode() + b'\0')
            paths[lang] = path
            print(f'# {lang}: {len(texts)} texts, {once} bytes of them '
                  f'different', flush=True)
            for name in ('gpt2', 'qwen3', 'torchtune', 'ko-bora', 'phi-3'):
                if only and name not in only:
                    continue
                pieces = name in ('ko-bora', 'phi-3')
                compare(name, lang, texts, path,
                        15 if pieces else 40 if lang == 'ko' else 50)
        for name in ('gpt2', 'qwen3', 'phi-3'):
            if not only or name in only:
                long_words(name, 'ko', paths['ko'])
    for name in FAILED:
        print(f'# short of its target: {name}')
    return 1 if FAILED else 0


sys.exit(main())

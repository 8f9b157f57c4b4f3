#!/usr/bin/env python3
"""Time the encoder against the reference library, in one run, interleaved.

usage: bench.py BENCH_ENCODE TOKENIZERS TEXT_FOLDER

TEXT_FOLDER has html files under ko/ and en/. Prints one line a figure,
  bench NAME RATIO target T ours A peer B UNIT
and leaves with 1 if one falls short. Both encode the same list of texts on
one thread and must give the same ids. One-thread times are the least of
several of computing, so that other processes on the machine matter little;
what two threads gain is wall time.

long-word-... compares words without a break with normal text of their
language on equal terms: as many bytes of each, no line of the text twice, and
both met for the first time by an encoder that has met other text before.
"""
import csv
import html.parser
import json
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
NEW = 1 << 20    # bytes of text without a line twice
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


def chunks(lines):
    """Texts of about CHUNK bytes each."""
    texts, part, size = [], [], 0
    for line in lines:
        part.append(line)
        size += len(line.encode())
        if size > CHUNK:
            texts.append(''.join(part))
            part, size = [], 0
    return texts + [''.join(part)] if part else texts


def guide(lang):
    """The installation guide's lines, by files."""
    folder = os.path.join(TEXTS, lang)
    for name in sorted(os.listdir(folder)):
        if not name.endswith('.html'):
            continue
        parser = Text()
        with open(os.path.join(folder, name), encoding='utf-8') as f:
            parser.feed(f.read())
        text = ''.join(parser.parts).replace('\0', '')
        yield [line for line in text.splitlines(True)
               if lang != 'ko' or not line.strip()
               or any('가' <= c <= '힣' for c in line)]  # was translated


def read_texts(lang):
    texts = [t for lines in guide(lang) for t in chunks(lines)]
    once = sum(len(t.encode()) for t in texts)
    return texts * max(1, SIZE // once), once


def data_lines(lang):
    """More of what people wrote: the data sets of the inputs, licences."""
    inputs = os.path.dirname(os.path.abspath(TOKENIZERS))
    if lang == 'ko':
        path = os.path.join(inputs, 'sft/ko-songys/ChatbotData.csv')
        with open(path, encoding='utf-8', newline='') as f:
            for row in csv.reader(f):
                yield from (cell + '\n' for cell in row[:2])
        return
    path = os.path.join(inputs, 'preference/rasbt/'
                        'instruction-data-with-preference.json')
    with open(path, encoding='utf-8') as f:
        for row in json.load(f):
            for value in row.values():
                yield from value.splitlines(True)
    path = os.path.join(inputs, 'sft/self-instruct/seed_tasks.jsonl')
    with open(path, encoding='utf-8') as f:
        for task in map(json.loads, f):
            for value in [task, *task['instances']]:
                for text in value.values():
                    if isinstance(text, str):
                        yield from text.splitlines(True)
    licences = '/usr/share/common-licenses'  # of Debian
    for name in sorted(os.listdir(licences) if os.path.isdir(licences) else []):
        with open(os.path.join(licences, name), encoding='utf-8') as f:
            yield from f


def new_texts(lang):
    """NEW bytes of texts without a line twice, or all there are."""
    lines = dict.fromkeys(line for part in guide(lang) for line in part)
    lines.update(dict.fromkeys(data_lines(lang)))
    size, some = 0, []
    for line in lines:
        if size >= NEW:
            break
        size += len(line.encode())
        some.append(line)
    return chunks(some)


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


def long_words(name, lang, path, other):
    """Words without a break: at most 5 times normal text a byte, and linear
    from 64 KB to 1 MB (within 1.5)."""
    tokenizer = os.path.join(TOKENIZERS, name, 'tokenizer.json')
    out = ours(tokenizer, path, 'words', other)
    rows = [(out[i], int(out[i + 1]), float(out[i + 2]))
            for i in range(0, len(out), 3)]
    normal = rows[0][2]
    for kind in dict.fromkeys(r[0] for r in rows[1:]):
        if (kind == 'hangul') != (lang == 'ko'):
            continue
        costs = [r[2] for r in rows if r[0] == kind]
        line(f'long-word-{name}-{kind}', 0.2, max(costs), normal, 'ns/byte',
             normal / max(costs))
        line(f'long-word-{name}-{kind}-linear', 0.667, costs[-1], costs[0],
             'ns/byte', costs[0] / costs[-1])


def write_texts(path, texts):
    with open(path, 'wb') as f:
        for t in texts:
            f.write(t.encode() + b'\0')


def main():
    only = sys.argv[4:]
    with tempfile.TemporaryDirectory() as tmp:
        paths = {}
        for lang in ('ko', 'en'):
            texts, once = read_texts(lang)
            path = os.path.join(tmp, lang)
            write_texts(path, texts)
            paths[lang] = os.path.join(tmp, lang + '-new')
            write_texts(paths[lang], new_texts(lang))
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
                long_words(name, 'en', paths['en'], paths['ko'])
                long_words(name, 'ko', paths['ko'], paths['en'])
    for name in FAILED:
        print(f'# short of its target: {name}')
    return 1 if FAILED else 0


sys.exit(main())

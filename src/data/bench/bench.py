#!/usr/bin/env python3
"""Time the way from a JSONL file to a committed token cache.

usage: bench.py BENCH_DATA TOKENIZERS [WORDNET]

Against the encoder alone on the same texts in memory (target 0.6), and
against datasets.map with tokenizers at the same number of workers (target
20). TOKENIZERS has a folder gpt2; WORDNET (/usr/share/wordnet, Debian's
wordnet-base) has the text. Prints one line a figure,
  bench NAME RATIO target T ours A peer B UNIT
and leaves with 1 if one falls short. Last, the time of 65,000 preference
pairs. Times are the least of several, in turn.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ['TOKENIZERS_PARALLELISM'] = 'false'
os.environ['RAYON_NUM_THREADS'] = '1'
os.environ['HF_DATASETS_OFFLINE'] = '1'
import datasets  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

BENCH, TOKENIZERS = sys.argv[1:3]
WORDNET = sys.argv[3] if len(sys.argv) > 3 else '/usr/share/wordnet'
ROUNDS = 3
FAILED = []

datasets.disable_progress_bars()


def report(name, ours, peer, target, unit):
    ratio = ours / peer
    print(f'bench {name} {ratio:.2f} target {target} ours {ours:.2f} '
          f'peer {peer:.2f} {unit}', flush=True)
    if ratio < target:
        FAILED.append(name)


def glosses():
    for kind in ('noun', 'verb', 'adj', 'adv'):
        with open(f'{WORDNET}/data.{kind}', encoding='latin-1') as f:
            for line in f:
                if ' | ' in line:
                    head, gloss = line.split(' | ', 1)
                    yield head.split()[4].replace('_', ' '), gloss.strip()


def write_texts(path):
    words = [f'{w}: {g}' for w, g in glosses()]
    with open(path, 'w', encoding='utf-8') as f:
        for i in range(0, len(words), 12):
            f.write(json.dumps({'text': '\n'.join(words[i:i + 12])}) + '\n')


def write_pairs(path, n):
    """Pairs of about 4 KB, as sets of real conversations have them."""
    words = list(glosses())

    def some(i, count):
        at = i * 7919
        return ' '.join(words[(at + 13 * k) % len(words)][1]
                        for k in range(count))

    with open(path, 'w', encoding='utf-8') as f:
        for i in range(n):
            f.write(json.dumps({'prompt': some(i, 8), 'chosen':
                                some(i + 1, 20), 'rejected': some(i + 2, 20)
                                }) + '\n')
    return os.path.getsize(path)


def ours(tokenizer, path, threads, task='sft'):
    out = subprocess.run([BENCH, tokenizer, path, str(threads), str(ROUNDS),
                          '0', task], check=True, capture_output=True,
                         text=True).stdout.split()
    return int(out[0]), int(out[2]), float(out[3]), float(out[4])


def peer(tokenizer, path, workers, cache):
    tok = Tokenizer.from_file(f'{tokenizer}/tokenizer.json')
    data = datasets.load_dataset('json', data_files=path, split='train',
                                 cache_dir=cache)

    def encode(batch):
        all_ = tok.encode_batch(batch['text'], add_special_tokens=False)
        return {'ids': [e.ids for e in all_]}

    least = 1e9
    for _ in range(2):
        start = time.perf_counter()
        done = data.map(encode, batched=True, remove_columns=['text'],
                        num_proc=workers if workers > 1 else None,
                        load_from_cache_file=False)
        least = min(least, time.perf_counter() - start)
    return least, sum(len(r['ids']) for r in done)


def main():
    tokenizer = f'{TOKENIZERS}/gpt2'
    with tempfile.TemporaryDirectory() as tmp:
        texts, pairs = f'{tmp}/texts.jsonl', f'{tmp}/pairs.jsonl'
        write_texts(texts)
        for threads in (1, 2):
            size, ids, alone, whole = ours(tokenizer, texts, threads)
            took, theirs = peer(tokenizer, texts, threads, tmp)
            if ids != theirs:
                sys.exit(f'{ids} ids here, {theirs} there')
            report(f'data-pipeline-{threads}', size / whole / 1e6,
                   size / alone / 1e6, 0.6, 'MB/s')
            report(f'data-datasets-{threads}', size / whole / 1e6,
                   size / took / 1e6, 20, 'MB/s')
        size = write_pairs(pairs, 65000)
        _, ids, _, whole = ours(tokenizer, pairs, 2, 'preference')
        print(f'# 65000 preference pairs, {size / 1e6:.0f} MB, {ids} tokens: '
              f'{whole:.2f} s on 2 threads, so 650000 in {10 * whole:.0f} s')
    return 1 if FAILED else 0


sys.exit(main())

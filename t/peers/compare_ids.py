#!/usr/bin/env python3
"""Compare `burnish encode/decode` with the reference library.

usage: compare_ids.py BURNISH INPUTS

Every tokenizer of the inputs, and variants of two of them that use every
supported component, over all text of the inputs and over random Unicode.
Prints one TAP line a tokenizer.
"""
import copy
import json
import os
import random
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer, models

BURNISH, INPUTS = sys.argv[1:3]


def walk(value, out):
    """All strings in a JSON value."""
    if isinstance(value, str):
        out.append(value)
    elif isinstance(value, list):
        for v in value:
            walk(v, out)
    elif isinstance(value, dict):
        for v in value.values():
            walk(v, out)


def input_texts():
    out = []
    for folder, _, names in os.walk(INPUTS):
        for name in names:
            path = os.path.join(folder, name)
            if name == 'tokenizer.json':
                continue
            if name.endswith('.json'):
                with open(path, encoding='utf-8') as f:
                    walk(json.load(f), out)
            elif name.endswith('.jsonl'):
                with open(path, encoding='utf-8') as f:
                    for line in f:
                        walk(json.loads(line), out)
            elif name.endswith(('.csv', '.md', '.txt', 'LICENSE')):
                with open(path, encoding='utf-8') as f:
                    text = f.read()
                out.append(text)
                out.extend(text.splitlines(True))
    return list(dict.fromkeys(out))


POOLS = [
    'abcdefgh', 'ABC xyz', ' \t\n\r', '0123456789', "'sStTrevmldLD ",
    '.,;:!?()[]{}<>|/\\"-_=+*&^%$#@~`', '안녕하세요 반갑습니다', '한글',
    'éèçñüßøÅ', 'e\u0301a\u0308\u0327\u0323', '中文日本語カナかな',
    '\u1100\u1161\u11a8\u1112', '▁ ▁', '\u00a0\u2003\u3000\u200b\u180e\u0085',
    '½²①Ⅳ٣৩', 'ſſ\'', '🙂👍🏽👨‍👩‍👧', 'мир Привет', 'مرحبا', 'नमस्ते', '\0\x01\x7f',
    'ĠĊ', '\ufeff\ufffd', '𝕳𝖊𐍈',
]


def random_texts(n, specials, lengths, seed=1):
    rng = random.Random(seed)
    out = []
    for i in range(n):
        parts = []
        for _ in range(rng.randrange(1, 30)):
            k = rng.random()
            if k < 0.04 and specials:
                parts.append(rng.choice(specials))
            elif k < 0.12:
                cp = rng.randrange(0x110000)
                if not 0xd800 <= cp < 0xe000:
                    parts.append(chr(cp))
            else:
                pool = rng.choice(POOLS)
                parts.append(''.join(rng.choice(pool) for _ in
                                     range(rng.randrange(1, 7))))
        out.append(''.join(parts))
    # Long words, which are encoded in windows.
    syllables = ''.join(chr(c) for c in range(0xac00, 0xd7a4))
    for length in lengths:
        for pool in ('ab', 'a', 'abcdefghijklmnopqrstuvwxyz', ' ', '가나다라',
                     '=', '0123456789', 'é한a', 'etaoinshrdlu', syllables,
                     'ABCDEFGHIJKLMNOPabcdefghijklmnop0123456789+/'):
            out.append(''.join(rng.choice(pool) for _ in range(length)))
    return out


def burnish(command, path, lines, *options):
    run = subprocess.run([BURNISH, command, '--tokenizer', path, *options],
                         input='\n'.join(lines) + '\n', text=True,
                         encoding='utf-8', capture_output=True)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip())
    return [json.loads(line) for line in run.stdout.split('\n')[:-1]]


def variants(base):
    """Tokenizers that differ from those of the inputs in one component."""
    def load(name):
        path = os.path.join(base, 'tokenizers', name, 'tokenizer.json')
        with open(path, encoding='utf-8') as f:
            return json.load(f)

    bytelevel, pieces = load('minimind'), load('phi-3')
    split = {'type': 'Split', 'behavior': 'Isolated', 'invert': False}
    level = {'type': 'ByteLevel', 'add_prefix_space': False,
             'trim_offsets': True, 'use_regex': True}
    bare = dict(level, use_regex=False)

    def seq(*steps):
        return {'type': 'Sequence', 'pretokenizers': list(steps)}

    def meta(scheme, cut):
        return {'type': 'Metaspace', 'replacement': '▁',
                'prepend_scheme': scheme, 'split': cut}

    pre = {
        'prefix-space': dict(level, add_prefix_space=True),
        'digits': seq({'type': 'Digits', 'individual_digits': True}, level),
        'digit-runs': seq({'type': 'Digits', 'individual_digits': False},
                          level),
        'punctuation': seq({'type': 'Punctuation',
                            'behavior': 'Contiguous'}, level),
        'white-space': seq({'type': 'WhitespaceSplit'}, level),
        'bytes-first': seq(level, {'type': 'Digits',
                                   'individual_digits': True}),
        'cl100k': seq(dict(split, pattern={'Regex': (
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}"
            r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")}), bare),
        'o200k': seq(dict(split, pattern={'Regex': (
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*"
            r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
            r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
            r"|\s+(?!\S)|\s+")}), bare),
        'words': seq(dict(split, pattern={'Regex': r'\w+'}), bare),
        'spaces': seq(dict(split, pattern={'Regex': r'[\s\d]+'}), bare),
        'empty-match': seq(dict(split, pattern={'Regex': r'\d*'}), bare),
    }
    for behavior in ('Removed', 'Isolated', 'MergedWithPrevious',
                     'MergedWithNext', 'Contiguous'):
        for invert in (False, True):
            pre[f'split-{behavior}-{invert}'] = seq(
                dict(split, pattern={'String': 'a'}, behavior=behavior,
                     invert=invert),
                dict(split, pattern={'Regex': r'\s|\p{P}'},
                     behavior=behavior, invert=invert), bare)
    for name, p in pre.items():
        yield name, dict(bytelevel, pre_tokenizer=p)
    for name, z in {
            'nfd': {'type': 'NFD'}, 'nfkc': {'type': 'NFKC'},
            'nfkd': {'type': 'NFKD'}, 'lower': {'type': 'Lowercase'},
            'strip': {'type': 'Strip', 'strip_left': True,
                      'strip_right': True},
            'replace': {'type': 'Sequence', 'normalizers': [
                {'type': 'NFC'}, {'type': 'Replace', 'content': '-',
                                  'pattern': {'Regex': r'\s+'}}]}}.items():
        yield 'norm-' + name, dict(bytelevel, normalizer=z)

    for scheme in ('never', 'first', 'always'):
        for cut in (False, True):
            yield f'metaspace-{scheme}-{cut}', dict(
                pieces, normalizer=None, pre_tokenizer=meta(scheme, cut),
                decoder={'type': 'Metaspace', 'replacement': '▁',
                         'prepend_scheme': scheme, 'split': cut})
    yield 'strip-first', dict(
        pieces, normalizer={'type': 'Strip', 'strip_left': True,
                            'strip_right': False},
        pre_tokenizer=meta('first', False))
    yield 'split-before-metaspace', dict(
        pieces, normalizer=None, pre_tokenizer=seq(
            dict(split, pattern={'String': ','}), meta('first', True)))
    for fuse in (False, True):
        for fallback in (False, True):
            t = copy.deepcopy(pieces)
            t['model'].update(fuse_unk=fuse, byte_fallback=fallback)
            yield f'unk-fuse-{fuse}-fallback-{fallback}', t
    t = copy.deepcopy(pieces)
    t['model'].update(unk_token=None, byte_fallback=False)
    yield 'no-unk', t
    t = copy.deepcopy(pieces)
    t['model']['vocab'] = {k: v for k, v in t['model']['vocab'].items()
                           if not k.startswith('<0xE')}
    yield 'fallback-with-holes', t
    t = copy.deepcopy(bytelevel)
    t['model']['ignore_merges'] = True
    yield 'ignore-merges', t
    yield 'no-decoder', dict(bytelevel, decoder=None)
    yield 'suffix-decoder', dict(pieces, decoder={'type': 'BPEDecoder',
                                                  'suffix': '▁'})

    def added(content, **flags):
        return dict({'content': content, 'single_word': False,
                     'lstrip': False, 'rstrip': False, 'normalized': False,
                     'special': False}, **flags)
    extra = [added('<L>', lstrip=True), added('<R>', rstrip=True),
             added('<LR>', lstrip=True, rstrip=True, special=True),
             added('word', single_word=True), added('Ab', normalized=True),
             added('ab'), added('  '), added('안녕', single_word=True),
             added('Xy z', normalized=True, special=True), added('é한')]
    for name, t in (('bytes', bytelevel), ('pieces', pieces),
                    ('lower', dict(bytelevel,
                                   normalizer={'type': 'Lowercase'}))):
        t = copy.deepcopy(t)
        top = max(max(t['model']['vocab'].values()),
                  max(a['id'] for a in t['added_tokens'])) + 1
        t['added_tokens'] += [dict(a, id=top + i)
                              for i, a in enumerate(extra)]
        yield 'added-' + name, t
    t = copy.deepcopy(pieces)
    t['post_processor'] = {
        'type': 'Sequence', 'processors': [
            {'type': 'ByteLevel', 'add_prefix_space': True,
             'trim_offsets': True, 'use_regex': True},
            {'type': 'TemplateProcessing',
             'single': [{'SpecialToken': {'id': '<s>', 'type_id': 0}},
                        {'Sequence': {'id': 'A', 'type_id': 0}},
                        {'SpecialToken': {'id': '</s>', 'type_id': 0}}],
             'pair': [], 'special_tokens': {
                 '<s>': {'id': '<s>', 'ids': [1], 'tokens': ['<s>']},
                 '</s>': {'id': '</s>', 'ids': [2], 'tokens': ['</s>']}}}]}
    yield 'template', t
    t = copy.deepcopy(bytelevel)
    t['post_processor'] = {'type': 'RobertaProcessing', 'cls': ['a', 1],
                           'sep': ['b', 2], 'trim_offsets': True,
                           'add_prefix_space': False}
    yield 'roberta', t


def differences(path, texts):
    """What differs, as lines; at most a few."""
    ref = Tokenizer.from_file(path)
    lines = [json.dumps(t) for t in texts]
    bad = []
    for special in (True, False):
        want = [e.ids for e in ref.encode_batch(texts,
                                                add_special_tokens=special)]
        got = burnish('encode', path, lines,
                      *([] if special else ['--no-special-tokens']))
        bad += [f'{t!r}: {w} but got {g}'
                for t, w, g in zip(texts, want, got, strict=True) if w != g]
    ids = [json.dumps(w) for w in want]
    for skip in (True, False):
        got = burnish('decode', path, ids,
                      *(['--skip-special-tokens'] if skip else []))
        want_text = ref.decode_batch(want, skip_special_tokens=skip)
        bad += [f'decode {w}: {t!r} but got {g!r}' for w, t, g in
                zip(want, want_text, got, strict=True) if t != g]
    return bad


def check(number, name, path, texts, lengths=(50, 100, 300, 2000)):
    with open(path, encoding='utf-8') as f:
        spec = json.load(f)
    specials = [a['content'] for a in spec['added_tokens']][:200]
    texts = texts + random_texts(1500, specials, lengths)
    try:
        bad = differences(path, texts)
    except RuntimeError as e:
        bad = [str(e)]
    print(f"{'not ok' if bad else 'ok'} {number} - {name}: {len(texts)} texts")
    for line in bad[:3]:
        print('#', line[:1000])
    if len(bad) > 3:
        print(f'# and {len(bad) - 3} more')
    sys.stdout.flush()
    return not bad


def main():
    texts = input_texts()
    number = failed = 0
    only = sys.argv[3:]
    for folder, _, names in sorted(os.walk(INPUTS)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not name.endswith('tokenizer.json') or (only and path
                                                       not in only):
                continue
            # Refused; an older file need not name the type.
            if isinstance(Tokenizer.from_file(path).model, models.Unigram):
                continue
            number += 1
            failed += not check(number, os.path.relpath(path, INPUTS), path,
                                texts, (50, 64, 100, 300, 2000, 20000))
    short = texts[:2000]
    with tempfile.TemporaryDirectory() as tmp:
        for name, spec in variants(INPUTS):
            if only and name not in only:
                continue
            path = os.path.join(tmp, 'tokenizer.json')
            with open(path, 'w', encoding='utf-8') as f:
                json.dump(spec, f)
            number += 1
            failed += not check(number, name, path, short)
    print(f'1..{number}')
    return failed > 0


sys.exit(main())

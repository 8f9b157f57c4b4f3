#!/usr/bin/env python3
"""Compare the targets of assistant_only_loss with TRL's.

usage: masks.py BURNISH INPUTS

TRL gives templates of known families generation blocks (its *_training
templates); burnish finds the turns of the plain templates by itself. Both
have to learn the same of the same conversations. (Not Qwen3's, whose
training template renders earlier turns in another way.) Prints TAP.
"""
import json
import os
import subprocess
import sys
import tempfile

import trl
from transformers.utils.chat_template_utils import render_jinja_template

BURNISH, INPUTS = sys.argv[1:3]
BOS = '<|endoftext|>'
TEMPLATES = os.path.join(os.path.dirname(trl.__file__), 'chat_templates')


def say(role, content):
    return {'role': role, 'content': content}


CHATS = [
    [say('user', 'q'), say('assistant', 'one')],
    [say('user', 'q'), say('assistant', 'one two'), say('user', '안녕'),
     say('assistant', '반갑습니다.\n\nyes'), say('user', 'r'),
     say('assistant', 'three')],
    [say('user', 'same'), say('assistant', 'same'), say('user', 'same'),
     say('assistant', 'same')],
    [say('user', 'q'), say('assistant', 'one'), say('user', 'r')],
]


def read(name):
    with open(os.path.join(TEMPLATES, name + '.jinja'), encoding='utf-8') as f:
        return f.read()


def trl_shows(name, chat):
    """The conversation with what TRL learns in brackets."""
    texts, spans = render_jinja_template(
        conversations=[chat], chat_template=read(name + '_training'),
        return_assistant_tokens_mask=True, bos_token=BOS, eos_token=BOS)
    text, out, at = texts[0], '', 0
    for begin, end in spans[0]:
        # TRL's block for Qwen2.5 begins within the generation prompt.
        begin += text[begin:end].startswith('\n')
        out += text[at:begin] + '[[' + text[begin:end] + ']]'
        at = end
    return (out + text[at:]).replace(']][[', '')


def write_tokenizer(folder):
    """One that knows the marks of all the templates as special tokens."""
    path = os.path.join(INPUTS, 'tokenizers', 'minimind', 'tokenizer.json')
    with open(path, encoding='utf-8') as f:
        spec = json.load(f)
    know = {t['content'] for t in spec['added_tokens']}
    top = max(spec['model']['vocab'].values())
    marks = ['<|im_start|>', '<|im_end|>', '<|eot_id|>', '<|end|>', BOS,
             '<|start_header_id|>', '<|end_header_id|>', '<|user|>',
             '<|assistant|>', '<start_of_turn>', '<end_of_turn>']
    for i, mark in enumerate(m for m in marks if m not in know):
        spec['added_tokens'].append(
            {'id': top + 1 + i, 'content': mark, 'special': True})
    with open(os.path.join(folder, 'tokenizer.json'), 'w',
              encoding='utf-8') as f:
        json.dump(spec, f)


def burnish_shows(name, folder):
    with open(os.path.join(folder, 'chat_template.jinja'), 'w',
              encoding='utf-8') as f:
        f.write(read(name))
    with open(os.path.join(folder, 'tokenizer_config.json'), 'w',
              encoding='utf-8') as f:
        json.dump({'bos_token': BOS, 'eos_token': BOS}, f)
    with open(os.path.join(folder, 'rows.jsonl'), 'w', encoding='utf-8') as f:
        for chat in CHATS:
            f.write(json.dumps({'messages': chat}) + '\n')
    with open(os.path.join(folder, 'run.yaml'), 'w', encoding='utf-8') as f:
        f.write(f'task: sft\ntrain_file: {folder}/rows.jsonl\n'
                f'tokenizer_name_or_path: {folder}\n'
                f'model_name_or_path: {INPUTS}/models/stories260K-hf\n'
                f'token_cache_dir: {folder}/cache\n'
                'assistant_only_loss: true\n')
    run = subprocess.run([BURNISH, 'tokenize', '--show', str(len(CHATS)),
                          os.path.join(folder, 'run.yaml')], check=True,
                         capture_output=True, text=True, encoding='utf-8')
    return run.stdout


def main():
    failed = 0
    names = sys.argv[3:] or ['qwen2_5', 'qwen3_instruct_2507', 'llama3',
                             'phi3', 'gemma', 'lfm2']
    for number, name in enumerate(names, 1):
        with tempfile.TemporaryDirectory() as folder:
            write_tokenizer(folder)
            try:
                got = burnish_shows(name, folder)
            except subprocess.CalledProcessError as e:
                got = e.stderr
            bad = [t for t in (trl_shows(name, c) for c in CHATS)
                   if t not in got]
        print(f"{'not ok' if bad else 'ok'} {number} - {name}")
        for t in bad[:2]:
            print('# TRL:', repr(t)[:600])
        if bad:
            print('# burnish:', repr(got)[:1500])
        failed += bool(bad)
    print(f'1..{len(names)}')
    return failed > 0


sys.exit(main())

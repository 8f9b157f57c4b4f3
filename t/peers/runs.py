"""Compare whole training runs of random options with TRL's trainers.

    runs.py BUILDDIR WORK [COUNT [SEED]]

A run is drawn from its seed: the task, a tokenizer, a tiny model, rows of one
shape, and the options that both sides have. burnish-train and SFTTrainer or
ORPOTrainer run it in fp32, in file order; then the steps and evaluations that
are on record, their metrics, and the final weights have to agree. A failure
prints the seed that makes the run again, and leaves its folder.

What has to be said for both to be the same computation: orpo_steps.py has it
for ORPO. TRL's SFT counts targets over the whole step, as loss_reduction:
exact does.

What is left out, because the two differ on purpose (doc/formats/tokens.md,
doc/formats/metrics.md):

  empty texts and answers, equal answers   TRL learns them; kept() takes them
                                           from TRL's rows alone
  prompts that fill max_length             cut here; TRL drops them (SFT), or
                                           makes 0/0 of them (ORPO)
  boundaries two tokens back, or not the   TRL refuses the row, or lets the two
  same for both answers                    answers have different prompts
  EOS behind templates that end without    added by TRL's ORPO
  evaluation in several batches            a mean of means in TRL: its run has
                                           one batch, ours any
  mean_token_accuracy with accumulation    likewise
  metrics of ORPO over steps with unlike   means over micro-batches in TRL, but
  numbers of micro-batches                 for its loss; here over steps
  a record at the end of the log           only here
  assistant_only_loss of ShareGPT's rows   refused by TRL
  packing                                  changes what TRL learns
"""
import json
import os
import random
import shutil
import subprocess
import sys

import datasets
import torch
from safetensors.torch import load_file
from tokenizers import (AddedToken, Tokenizer, decoders, models,
                        pre_tokenizers, processors, trainers)
from transformers import (AutoModelForCausalLM, AutoTokenizer, LlamaConfig,
                          EarlyStoppingCallback, PrinterCallback,
                          TrainerCallback)
from transformers import logging as hf_logging
from trl import SFTConfig, SFTTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

BUILD, WORK = sys.argv[1:3]
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 16
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
# The difference of a tensor, relative to how far it moved and to its norm:
# with small rates the rounding of weights is not small beside the steps.
MOVED, ROUNDED = 1e-3, 2e-7

TOLERANCE = {  # relative, absolute
    "loss": (2e-5, 0), "nll_loss": (2e-5, 0), "grad_norm": (2e-4, 1e-6),
    "mean_token_accuracy": (0, 1e-6), "num_tokens": (0, 0),
    "log_odds_ratio": (0, 4e-5), "log_odds_chosen": (0, 4e-5),
    "rewards/chosen": (1e-5, 1e-5), "rewards/rejected": (1e-5, 1e-5),
    "rewards/margins": (1e-5, 1e-5), "rewards/accuracies": (0, 1e-6),
    "logps/chosen": (1e-5, 1e-5), "logps/rejected": (1e-5, 1e-5),
    "learning_rate": (1e-9, 1e-18),
}
NOT_OURS = "eval_num_tokens"  # of training, once more
WORDS = """the cat sat on a mat and then it went home again 12 345 x = y+1;
été naïve 你好 안녕 반갑습니다 😀👍🏽 é Hello, WORLD! don't (no) </s> ...""".split()
CHAT = ("{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}"
        "{{ '<|assistant|>\\n' }}{% generation %}{{ m.content + eos_token }}"
        "{% endgeneration %}{% else %}{{ '<|' + m.role + '|>\\n' + m.content "
        "+ '\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|assistant|>\\n' }}{% endif %}")

hf_logging.set_verbosity_error()
hf_logging.disable_progress_bar()
datasets.disable_progress_bars()


# --- what a seed makes ------------------------------------------------------

def text(r, most=24):
    kind = r.random()
    if kind < 0.08:
        return ""
    n = r.choice([1, 2, r.randint(3, most), 3 * most])
    if kind < 0.16:  # one word over and over
        return " ".join([r.choice(WORDS)] * n)
    sep = r.choice([" ", " ", " ", "\n", "  ", ""])
    return sep.join(r.choice(WORDS) for _ in range(n))


def tokenizer(r, folder):
    t = Tokenizer(models.BPE(unk_token=None))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    own = ["<unk>", "<s>", "</s>", "<pad>"]
    if r.random() < 0.7:
        own += ["<|user|>", "<|assistant|>", "<|system|>"]
    t.train_from_iterator(
        [text(r) for _ in range(60)], trainers.BpeTrainer(
            vocab_size=r.choice([270, 320, 400]), show_progress=False,
            special_tokens=[AddedToken(x, special=True) for x in own],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if r.random() < 0.7:
        t.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    t.save(folder + "/tokenizer.json")
    with open(folder + "/tokenizer_config.json", "w", encoding="utf-8") as f:
        json.dump({"bos_token": "<s>", "eos_token": "</s>",
                   "pad_token": r.choice(["<pad>", "</s>"]),
                   "chat_template": CHAT,
                   "tokenizer_class": "PreTrainedTokenizerFast"}, f)
    return AutoTokenizer.from_pretrained(folder)


def model(r, seed, vocab, folder):
    torch.manual_seed(seed)
    heads = r.choice([2, 4])
    AutoModelForCausalLM.from_config(LlamaConfig(
        vocab_size=vocab, hidden_size=8 * heads, intermediate_size=40,
        num_hidden_layers=r.randint(1, 2), num_attention_heads=heads,
        num_key_value_heads=r.choice([1, 2]), initializer_range=0.15,
        max_position_embeddings=1024, bos_token_id=1, eos_token_id=2,
        tie_word_embeddings=r.random() < 0.5,
        attention_bias=r.random() < 0.3), dtype=torch.float32
    ).save_pretrained(folder)


def say(role, content):
    return {"role": role, "content": content}


def chat(r):
    """Turns up to one of the user, who is never empty-handed at the end."""
    turns = [say("system", text(r, 6))] if r.random() < 0.3 else []
    for _ in range(r.choice([0, 0, 1, 2])):
        turns += [say("user", text(r, 6)), say("assistant", text(r, 6))]
    return turns + [say("user", text(r, 12))]


def row(r, shape):
    talk = "chat" in shape
    prompt = chat(r) if talk else text(r)
    answers = [r.choice(["", " "]) + text(r) for _ in range(2)]
    if r.random() < 0.05:
        answers[1] = answers[0]
    if talk:
        answers = [[say("assistant", a.strip() or "a")] for a in answers]
    if shape == "text":
        return {"text": text(r, 40)}
    if shape == "chat":
        return {"messages": prompt + answers[0]}
    if shape == "sharegpt chat":
        return {"conversations": [{"from": m["role"], "value": m["content"]}
                                  for m in prompt + answers[0]]}
    if shape == "chat pair" and r.random() < 0.2:
        answers[0] += chat(r)[-1:] + answers[1]
    if shape.endswith("pair"):
        return {"prompt": prompt, "completion": answers[0]}
    if shape == "whole chat preference":
        return {"chosen": prompt + answers[0], "rejected": prompt + answers[1]}
    return {"prompt": prompt, "chosen": answers[0], "rejected": answers[1]}


def options(r, task):
    """Each has its default now and then, which has to be the same, too."""
    o = dict(
        per_device_train_batch_size=r.choice([1, 2, 3, 5]),
        gradient_accumulation_steps=r.choice([1, 1, 2, 3, 4]),
        learning_rate=r.choice([1e-4, 1e-3, 3e-3]),
        weight_decay=r.choice([0, 0.01, 0.3]),
        max_grad_norm=r.choice([0, 0.3, 1, 50]),
        adam_beta1=r.choice([0.9, 0.8]), adam_beta2=r.choice([0.999, 0.95]),
        adam_epsilon=r.choice([1e-8, 1e-6, 1e-4]),
        max_length=r.choice([8, 16, 33, 64, 200]),
        lr_scheduler_type=r.choice(["linear", "cosine", "constant",
                                    "constant_with_warmup"]),
        num_train_epochs=r.choice([1, 2, 0.6, 1.5, 3]))
    if task == "orpo":
        o["beta"] = r.choice([0.1, 0.25, 1])
    o = {k: v for k, v in o.items() if r.random() < 0.9}
    if r.random() < 0.5:
        o["max_steps"] = r.randint(1, 9)
    if r.random() < 0.9:
        o["logging_steps"] = r.choice([1, 1, 1, 2, 3])
    if task == "sft" and r.random() < 0.25:
        o["label_smoothing_factor"] = r.choice([0.1, 0.4])
    if o.get("lr_scheduler_type") != "constant":
        key = r.choice(["warmup_steps", "warmup_ratio", ""])
        if key == "warmup_steps":
            o[key] = r.randint(1, o.get("max_steps", 2))
        elif key:
            o[key] = r.choice([0.03, 0.1, 0.5])
    if r.random() < 0.7:
        evaluation(r, task, o)
    return o


def evaluation(r, task, o):
    kind = o["eval_strategy"] = r.choice(["steps", "steps", "epoch"])
    if kind == "steps" and r.random() < 0.9:
        o["eval_steps"] = r.randint(1, 4)
    if r.random() < 0.3:
        o["eval_on_start"] = True
    if r.random() < 0.5:
        return
    o["metric_for_best_model"] = r.choice(
        ["loss", "mean_token_accuracy"] if task == "sft" else
        ["loss", "rewards/accuracies", "rewards/margins", "log_odds_chosen"])
    o["greater_is_better"] = r.random() < 0.5
    if r.random() < 0.6:
        o["early_stopping_patience"] = r.randint(1, 2)
        o["early_stopping_threshold"] = r.choice([0, 1e-3, 0.1])
    if kind == "epoch" or "eval_steps" in o:
        o["load_best_model_at_end"] = True
        o["save_strategy"] = kind
        if kind == "steps":
            o["save_steps"] = o["eval_steps"]


# --- the rows that both learn -----------------------------------------------

def common(*lists):
    n = 0
    while all(n < len(x) and x[n] == lists[0][n] for x in lists):
        n += 1
    return n


def kept(row, tok, limit):
    """Whether 'both', only 'ours' (a rule of doc/formats/tokens.md drops it
    there) or 'none' of the sides get a row; and what tells its tokens."""
    def ids(x, more=False):
        if isinstance(x, str):
            return tok(x, add_special_tokens=False)["input_ids"]
        return tok.apply_chat_template(x, add_generation_prompt=more,
                                       return_dict=False)

    if "text" in row:
        x = tok(row["text"] + "</s>")["input_ids"][:limit]
        learnt = row["text"] and x != [2, 2]
        return "both" if learnt else "ours", x
    turns = row.get("messages", row.get("conversations"))
    if turns:
        turns = [say(m.get("role", m.get("from")),
                     m.get("content", m.get("value"))) for m in turns]
        return "both", ids(turns)[:limit]
    answers = [row[k] for k in ("completion", "chosen", "rejected")
               if k in row]
    p = row.get("prompt")
    if p is None:  # what the lists share
        p, answers = answers[0][:-1], [x[-1:] for x in answers]
    if "" in answers or answers[1:] == answers[:1]:
        return "ours", None
    alone, whole = ids(p, True), [ids(p + x) for x in answers]
    n = common(alone, *whole)
    room = limit - n - isinstance(p, str)  # BOS
    if room < 1 or (len(answers) == 2 and (
            n < len(alone) - 1 or any(common(alone, x) > n for x in whole))):
        return "none", None
    whole = [x[n:] if x[-1] == 2 else x[n:] + [2] for x in whole]
    if len(whole) == 2 and whole[0][:room] == whole[1][:room]:
        return "ours", None
    return "both", [alone[:n]] + [x[:room] for x in whole]


def rows(r, tok, shape, limit, n, held=()):
    """Rows for Burnish and, of them, those for TRL; without those whose tokens
    are 'held' by the evaluation, which Burnish leaves out."""
    own, other, seen = [], [], []
    for _ in range(100 * n):
        if len(own) >= n and other:
            break
        one = row(r, shape)
        who, ids = kept(one, tok, limit)
        if who == "none" or ids in held:
            continue
        own.append(one)
        if who == "both":
            other.append(one)
            seen.append(ids)
    return own, other, seen


# --- two runs ---------------------------------------------------------------

class Records(TrainerCallback):
    def __init__(self):
        self.lines = {}

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs or "eval_loss" in logs:
            kind = "train" if "loss" in logs else "eval"
            self.lines[kind, state.global_step] = dict(logs)


def theirs(task, folder, tok, train, evals, o):
    logs, o = Records(), {"save_strategy": "no", **o}
    calls = [logs]
    if "early_stopping_patience" in o:
        calls.append(EarlyStoppingCallback(o.pop("early_stopping_patience"),
                                           o.pop("early_stopping_threshold")))
    if "warmup_ratio" in o:  # transformers 5 has one key for both
        o["warmup_steps"] = o.pop("warmup_ratio")
    make, config = {"sft": (SFTTrainer, SFTConfig),
                    "orpo": (ORPOTrainer, ORPOConfig)}[task]
    trainer = make(
        model=AutoModelForCausalLM.from_pretrained(folder + "/hf",
                                                   dtype=torch.float32),
        args=config(
            output_dir=folder + "/trl", bf16=False, use_cpu=True,
            gradient_checkpointing=False, report_to=[], disable_tqdm=True,
            train_sampling_strategy="sequential",
            per_device_eval_batch_size=1000,
            remove_unused_columns=task == "sft", **o),
        processing_class=tok, callbacks=calls,
        train_dataset=datasets.Dataset.from_list(train),
        eval_dataset=datasets.Dataset.from_list(evals) if evals else None)
    trainer.remove_callback(PrinterCallback)
    # There is nothing to gather on one process, but at the end of an epoch
    # this cuts every micro-batch of the step to the rows of the last one.
    trainer.accelerator.gather_for_metrics = lambda x, **_: x
    trainer.train()
    return logs.lines, trainer.model.state_dict()


def write_rows(path, data):
    with open(path, "w", encoding="utf-8") as f:
        for one in data:
            f.write(json.dumps(one, ensure_ascii=False) + "\n")
    return path


def ours(task, folder, train, evals, o):
    run = {"task": task, "model_name_or_path": folder + "/hf",
           "train_file": write_rows(folder + "/train.jsonl", train),
           "output_dir": folder + "/burnish", "save_strategy": "no",
           "shuffle": "false", "max_dropped_fraction": 1,
           "max_prompt_length": o.get("max_length", 1024) - 1, **o}
    if evals:
        run["eval_file"] = write_rows(folder + "/eval.jsonl", evals)
    with open(folder + "/run.yaml", "w", encoding="utf-8") as f:
        for key, value in run.items():
            f.write(f"{key}: {json.dumps(value).strip(chr(34))}\n")
    done = subprocess.run([BUILD + "/burnish-train", folder + "/run.yaml"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr.strip().splitlines()[-1]
    with open(folder + "/burnish/metrics.jsonl", encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    return ({(x["kind"], x["step"]): x for x in lines if x["kind"] != "end"},
            load_file(folder + "/burnish/model/model.safetensors"))


# --- what has to be the same ------------------------------------------------

def compare(a, b, skip):
    """Raise at a difference; the number of values compared and the largest
    part of a tolerance that was used."""
    extra = set(a) ^ set(b)
    assert len(extra) <= 1 and all(
        k in a and k == ("train", max(s for _, s in a)) for k in extra), (
            f"on record: {sorted(a)}, TRL {sorted(b)}")
    n, most = 0, 0
    for at, want in sorted(b.items(), key=lambda x: x[0][1]):
        for key, value in want.items():
            bare = key.removeprefix("eval_")
            if bare not in TOLERANCE or bare in skip or key == NOT_OURS:
                continue
            rel, absolute = TOLERANCE[bare]
            off = abs(a[at][key] - value)
            allowed = rel * abs(value) + absolute
            assert off <= allowed, (f"{at[0]} {at[1]}: {key} "
                                    f"{a[at][key]:.9g}, TRL {value:.9g}")
            n += 1
            most = max(most, off / allowed if allowed else 0)
    return n, most


def compare_weights(folder, a, b):
    start = load_file(folder + "/hf/model.safetensors")
    worst = 0.0
    for key, w in a.items():
        off = (w - b[key]).double().norm().item()
        moved = (b[key] - start[key]).double().norm().item()
        assert off <= MOVED * moved + ROUNDED * w.norm().item(), (
            f"{key} differs by {off:.1e}, moved by {moved:.1e}")
        worst = max(worst, off / moved if off > 0 else 0)
    return worst


def one(seed):
    r = random.Random(seed)
    folder = f"{WORK}/run-{seed}"
    os.makedirs(folder + "/hf")
    tok = tokenizer(r, folder + "/hf")
    model(r, seed, len(tok), folder + "/hf")
    task = r.choice(["sft", "orpo"])
    shape = r.choice(
        ["text", "pair", "chat pair", "chat", "sharegpt chat"]
        if task == "sft" else
        ["preference", "chat preference", "whole chat preference"])
    o = options(r, task)
    if "chat" in shape:  # room for the marks of a prompt
        o["max_length"] = r.choice([64, 100, 200])
    if shape == "chat" and r.random() < 0.6:
        o["assistant_only_loss"] = True
    if shape.endswith("pair") and r.random() < 0.6:
        o["completion_only_loss"] = r.random() < 0.5
    limit, mine = o.get("max_length", 1024), {}
    own_eval, evals, held = [], [], []
    if "eval_strategy" in o:
        own_eval, evals, held = rows(r, tok, shape, limit, r.randint(1, 9))
        mine["per_device_eval_batch_size"] = r.choice([1, 3, 8])
    own, other, _ = rows(r, tok, shape, limit, r.randint(3, 40), held)
    if task == "orpo":
        mine.update(loss_reduction="trl", add_bos=True)
    skip = set()
    accum = o.get("gradient_accumulation_steps", 1)
    micros = -(-len(other) // o.get("per_device_train_batch_size", 8))
    if task == "sft" and accum > 1:
        skip.add("mean_token_accuracy")
    if task == "orpo" and o.get("logging_steps", 10) > 1 and micros % accum:
        skip = set(TOLERANCE) - {"loss", "grad_norm", "learning_rate"}
    what = f"seed {seed}, {task} of {shape}"
    try:
        b, bw = theirs(task, folder, tok, other, evals, o)
        a, aw = ours(task, folder, own, own_eval, {**o, **mine})
        n, most = compare(a, b, skip)
        off = compare_weights(folder, aw, bw)
    except Exception as e:  # of either side, not to lose the seed
        print(f"not ok - {what}: {e} ({folder})", flush=True)
        return False
    shutil.rmtree(folder)
    print(f"ok - {what}: {n} values, {len(b)} records (at most {most:.2f} of "
          f"the tolerance), weights differ by {off:.1e}", flush=True)
    return True


def main():
    torch.set_num_threads(1)
    bad = sum(not one(SEED + i) for i in range(COUNT))
    print(f"# {COUNT - bad} of {COUNT} runs agree")
    sys.exit(bad > 0)


main()

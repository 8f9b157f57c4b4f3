"""Hold runs of random shape on random layouts against one rank.

    layouts.py WORK COUNT [SEED]

Model, data, keys and two layouts are drawn. What one rank does is right: the
first layout has to come to the same records and weights, and the second one,
going on from the checkpoint in the middle. Answers of the first layout's
tensor ranks and stages have to be those of one process. A failure prints the
seed that draws the same again, and leaves its folder.
"""
import json
import os
import random
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                ".."))
import tiny
from compare import compare, records

# Models of odd sizes: of what compare.py allows this many times. Weights have
# moved by 1e-2; Adam divides by small numbers.
SLACK, WEIGHT = 20, 5e-4
ARCHITECTURE = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2",
                "qwen3": "Qwen3"}
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to",
          "none", "-n"]


def draw_model(r):
    kv, hd, layers = r.choice([1, 2, 3, 4]), r.choice([4, 6, 8, 16]), \
        r.randint(1, 6)
    heads = kv * r.choice([1, 2, 3])
    kind = r.choice(sorted(ARCHITECTURE))
    c = {"model_type": kind,
         "architectures": [ARCHITECTURE[kind] + "ForCausalLM"],
         "vocab_size": r.choice([97, 100, 101, 128]),
         "hidden_size": heads * hd if kind == "qwen2" else
         r.choice([heads * hd, 24, 40]),
         "intermediate_size": r.choice([16, 18, 24, 36, 48]),
         "num_hidden_layers": layers, "num_attention_heads": heads,
         "num_key_value_heads": kv, "head_dim": hd,
         "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
         "rope_theta": 1e4, "tie_word_embeddings": r.random() < 0.5,
         "hidden_act": "silu", "initializer_range": 0.08, "bos_token_id": 1,
         "eos_token_id": 2, "torch_dtype": "float32"}
    if kind in ("llama", "qwen3"):
        c["attention_bias"] = r.random() < 0.4
    if kind == "mistral":
        c["sliding_window"] = r.choice([None, 1, 5, 30])
    if kind == "qwen2" and r.random() < 0.6:
        c.update(use_sliding_window=True, sliding_window=r.choice([2, 9]),
                 max_window_layers=r.randint(0, layers))
    if r.random() < 0.3:
        c.update(max_position_embeddings=32, rope_scaling={
            "rope_type": "dynamic", "factor": 2.0})
    return c


def draw_layout(r, c, rows):
    """Ranks, and the keys of a run on them; 'rows' are those of a step."""
    tp = r.choice([n for n in (1, 2, 3, 4) if c["intermediate_size"] % n == 0
                   and c["num_attention_heads"] % n == 0
                   and (c["num_key_value_heads"] % n == 0
                        or n % c["num_key_value_heads"] == 0)])
    pp = r.choice([n for n in (1, 1, 2, 3) if n <= c["num_hidden_layers"]])
    cp, dp = r.choice([1, 1, 2, 3]), r.choice([1, 2, 3, 4])
    if tp * pp * cp * dp > 8:
        return draw_layout(r, c, rows)
    batch = r.choice([n for n in (1, 2, 3, 4, 6, 12) if rows // dp % n == 0])
    keys = {"tensor_parallel_size": tp, "pipeline_parallel_size": pp,
            "context_parallel_size": cp, "data_parallel_size": dp,
            "per_device_train_batch_size": batch,
            "gradient_accumulation_steps": rows // dp // batch,
            "per_device_eval_batch_size": r.choice([1, 2, 5]),
            "sequence_parallel": r.choice(["true", "false"]) if tp > 1
            else "false",
            "zero_stage": r.choice([1, 2]),
            "overlap_grad_reduce": r.choice(["true", "false"]),
            "overlap_param_gather": r.choice(["true", "false"]),
            "reduce_bucket_size": r.choice([1000, 5000, 4194304]),
            "activation_recompute": r.choice(["none", "attention", "full"])}
    if pp > 1 and r.random() < 0.5:
        cuts = [0, *sorted(r.sample(range(1, c["num_hidden_layers"]), pp - 1)),
                c["num_hidden_layers"]]
        keys["pipeline_layer_split"] = [b - a for a, b in zip(cuts, cuts[1:])]
    return tp * pp * cp * dp, keys


def draw_keys(r, task):
    keys = {"max_length": r.choice([64, 90, 128]), "max_steps": 6,
            "learning_rate": 2e-3, "adam_epsilon": 1e-5,
            "lr_scheduler_type": r.choice(["linear", "cosine", "constant"]),
            "eval_strategy": "steps", "eval_steps": r.choice([2, 3]),
            "eval_on_start": r.choice(["true", "false"]),
            "save_strategy": "steps", "save_steps": 3,
            "logging_steps": r.choice([1, 2]),
            "weight_decay": r.choice([0, 0.1]),
            "max_grad_norm": r.choice([0, 0.5]),
            "shuffle": r.choice(["true", "false"])}
    if task == "orpo":
        keys.update(beta=0.2, nll_span=r.choice(["full", "answer"]))
    else:
        keys["label_smoothing_factor"] = r.choice([0, 0.1])
    if r.random() < 0.25:
        keys.update(lora_r=r.choice([1, 3, 8]), lora_dropout=r.choice([0, 0.3]))
        if r.random() < 0.4:
            keys["lora_target_modules"] = r.choice(
                [["q_proj", "v_proj"], ["o_proj", "down_proj"], ["k_proj"]])
    if r.random() < 0.3:
        keys.update(load_best_model_at_end="true", eval_steps=3)
    if r.random() < 0.2:
        keys.update(max_steps=-1, num_train_epochs=r.choice([2, 3]))
    return keys


def call(ranks, *command):
    start = [*MPIRUN, str(ranks)] if ranks > 1 else []
    done = subprocess.run(["timeout", "-k", "5", "120", *start, *command],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    if done.returncode != 0:
        lines = [x for x in done.stderr.splitlines() if "error" in x]
        raise AssertionError(f"status {done.returncode} on {ranks} ranks: "
                             + (lines or ["?"])[0])
    return done.stdout


def train(folder, name, ranks, keys):
    keys = {**keys, "output_dir": f"{folder}/{name}"}
    tiny.write(f"{folder}/{name}.yaml", tiny.yaml(keys))
    call(ranks, "burnish-train", f"{folder}/{name}.yaml")


def weights(folder):
    """By name; the adapter's where there is one."""
    path = folder + "/adapter/adapter_model.safetensors"
    if not os.path.exists(path):
        path = folder + "/model/model.safetensors"
    return {name: struct.unpack(f"<{len(data) // 4}f", data)
            for name, _, _, data in tiny.read_tensors(path)}


def same(folder, name, first):
    """The records of steps behind 'first', and the weights at the end."""
    a, b = ([x for x in records(f"{folder}/{n}") if x["kind"] in
             ("train", "eval") and x["step"] > first] for n in ("one", name))
    off, where = compare(a, b)
    assert off <= SLACK, f"{name}: {where}"
    a, b = weights(folder + "/one"), weights(f"{folder}/{name}")
    assert a.keys() == b.keys(), f"{name}: other tensors"
    off, where = max((max(abs(x - y) for x, y in zip(a[k], b[k])), k)
                     for k in a)
    assert off <= WEIGHT, f"{name}: {where} differs by {off:.1e}"


def go_on(folder, ranks, keys):
    """From the middle of the run on the first layout, on another."""
    if not os.path.exists(folder + "/many/checkpoint-6"):
        return  # it was done before
    shutil.copytree(folder + "/many", folder + "/on", ignore=lambda _, names: [
        n for n in names if n in ("checkpoint-6", "model", "adapter")])
    train(folder, "on", ranks, keys)
    same(folder, "on", 3)


def answers(folder, layout, r):
    tp, pp = (layout[k + "_parallel_size"] for k in ("tensor", "pipeline"))
    ask = ["burnish-generate", "--input", folder + "/ask.jsonl",
           "--max-new-tokens", "12", "--batch-size", str(r.choice([1, 2, 8])),
           *r.choice([[], ["--temperature", "0.8", "--top-k", "20"]])]
    if os.path.exists(folder + "/one/adapter"):
        ask += ["--model", folder + "/base/model", "--adapter",
                folder + "/one/adapter"]
    else:
        ask += ["--model", folder + "/one/model"]
    tiny.jsonl(folder + "/ask.jsonl", [
        {"ids": [r.randrange(3, 97) for _ in range(r.choice([1, 2, 9]))]}
        for _ in range(r.choice([1, 3, 7]))])
    many = call(tp * pp, *ask, "--tensor-parallel-size", str(tp),
                "--pipeline-parallel-size", str(pp))
    assert call(1, *ask) == many, f"answers of tp {tp}, pp {pp} differ"


def check(folder, r):
    conf, task = draw_model(r), r.choice(["sft", "orpo"])
    tiny.write(folder + "/m/config.json", json.dumps(conf))
    rows = {"sft": tiny.sft_rows, "orpo": tiny.pair_rows}[task](60)
    tiny.jsonl(folder + "/train.jsonl", rows[:r.choice([7, 13, 24, 40])])
    tiny.jsonl(folder + "/eval.jsonl", rows[-r.choice([1, 5, 9]):])
    step = r.choice([12, 24])  # rows, as all numbers of ranks divide
    data = {"task": task, "train_file": folder + "/train.jsonl"}
    keys = {**data, **draw_keys(r, task), "num_threads": 1,
            "model_name_or_path": folder + "/base/model",
            "eval_file": folder + "/eval.jsonl", "max_dropped_fraction": 1}
    n, many = draw_layout(r, conf, step)
    m, on = draw_layout(r, conf, step)
    train(folder, "base", 1, {
        **data, "init": "random", "config_name": folder + "/m",
        "tokenizer_name_or_path": folder + "/m", "max_steps": 1,
        "max_length": 128, "num_threads": 1})
    train(folder, "one", 1, {**keys, "per_device_train_batch_size": step})
    train(folder, "many", n, {**keys, **many})
    same(folder, "many", -1)
    go_on(folder, m, {**keys, **on})
    answers(folder, many, r)
    return f"{task}, {conf['model_type']}, {n} ranks, then {m}"


def one(work, seed):
    folder = f"{work}/layout-{seed}"
    os.makedirs(folder + "/m")
    tiny.write_tokenizer(folder + "/m")
    try:
        print(f"seed {seed}: {check(folder, random.Random(seed))}", flush=True)
    except AssertionError as e:
        print(f"seed {seed}: {e} ({folder})", flush=True)
        return False
    shutil.rmtree(folder)
    return True


def main(work, count, seed=1):
    bad = sum(not one(os.path.abspath(work), int(seed) + i)
              for i in range(int(count)))
    sys.exit(bad > 0)


main(*sys.argv[1:])

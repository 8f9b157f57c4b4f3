"""A tokenizer of few ids, one a letter, for models that come without one."""
import json

from tokenizers import Tokenizer, models

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ["<unk>", "<s>", "</s>"]


def save_tokenizer(folder):
    vocab = {token: i for i, token in enumerate([*SPECIAL, *LETTERS])}
    t = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>"))
    t.add_special_tokens(SPECIAL)
    t.save(folder + "/tokenizer.json")
    with open(folder + "/tokenizer_config.json", "w", encoding="utf-8") as f:
        json.dump({"bos_token": "<s>", "eos_token": "</s>",
                   "tokenizer_class": "PreTrainedTokenizerFast"}, f)

#!/bin/sh
# shellcheck disable=SC2016,SC2034,SC2154
test_description='hostile inputs of the fuzz corpus: one line, or what they hold'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"

data=$BN_SRCDIR/t/data
BURNISH_CACHE=$PWD/cache
export BURNISH_CACHE

# What rows and templates need: a tokenizer of letters.
mkdir plain
echo '{"model": {"type": "BPE", "vocab": {"<s>": 0, "a": 1, "b": 2}, "merges": []}}' \
    >plain/tokenizer.json
echo '{"eos_token": "<s>"}' >plain/tokenizer_config.json
echo '{"vocab_size": 3}' >plain/config.json
echo '{"messages": [{"role": "user", "content": "a"}]}' >chat

# before FILE: what stands before its first byte 0
before() { tr '\n\0' '\1\n' <"$1" | head -n 1 | tr '\1' '\n'; }

# ends STATUS TEXT COMMAND...: nobody runs for long, an error is one line
ends() {
    want=$1 text=$2
    shift 2
    timeout 60 "$@" >out 2>err
    test $? -eq "$want" && cat out err >both && cat both &&
    grep -F -e "$text" both &&
    { test "$want" = 0 || { test_must_be_empty out &&
        test "$(wc -l <err)" -eq 1; }; }
}
tokenizer() {
    mkdir "t-$1" && before "$data/fuzz-tokenizer/$1" >"t-$1/tokenizer.json" &&
    echo '"ab"' >in && ends "$2" "$3" burnish encode --tokenizer "t-$1" in
}
chat() {
    before "$data/fuzz-chat/$1" >t.jinja &&
    ends "$2" "$3" burnish render --tokenizer plain --template t.jinja chat
}
rows() {
    case $1 in *quotes) kind=csv ;; *) kind=jsonl ;; esac
    cp "$data/fuzz-rows/$1" "rows.$kind" &&
    printf '%s\n' 'task: sft' 'model_name_or_path: plain' \
        "train_file: rows.$kind" >run.yaml &&
    ends "$2" "$3" burnish tokenize run.yaml
}

cat >cases <<'EOT'
chat|hostile-blocks|65|t.jinja:1:1997: nested too deep
chat|hostile-double|65|t.jinja:1:72: the template needs too much memory
chat|hostile-macro|65|t.jinja:1:21: macros call each other too deep
chat|hostile-nested|65|t.jinja:1:70: nested too deep
chat|hostile-numbers|65|t.jinja:1:4: number too large
chat|hostile-open|65|t.jinja:1:4: this string is never closed
chat|hostile-range|65|t.jinja:1:18: range too big
chat|hostile-surrogate|65|t.jinja:1:5: escape is not a Unicode character
chat|hostile-variables|65|t.jinja:1:6: 'x' is undefined
rows|hostile-cut|65|rows.jsonl:1: an unknown escape at byte 12
rows|hostile-duplicate|65|rows.jsonl:1: a key for the second time at byte 20
rows|hostile-nested|65|rows.jsonl:1: nesting too deep at byte 76
rows|hostile-nul|65|rows.jsonl:1: a control character in a string at byte 11
rows|hostile-nul-escape|0|1 kept
rows|hostile-nul-key|0|1 kept
rows|hostile-numbers|0|1 kept
rows|hostile-quotes|65|rows.csv:4: a quote opened in this row is never closed
rows|hostile-surrogate|65|rows.jsonl:1: a lone surrogate at byte 16
rows|hostile-utf8|65|rows.jsonl:1: not UTF-8 at byte 10
tokenizer|hostile-added|65|added_tokens[0]: 'id' must be an integer from 0 to 2097151
tokenizer|hostile-cycle|0|[2]
tokenizer|hostile-duplicate|65|tokenizer.json:1:47: invalid JSON: duplicate object key
tokenizer|hostile-empty|65|model.vocab is empty
tokenizer|hostile-nested|65|not a tokenizer.json
tokenizer|hostile-nul|65|tokenizer.json:1:42: invalid JSON: NUL byte in object key
tokenizer|hostile-numbers|65|tokenizer.json:1:66: invalid JSON: too big integer
tokenizer|hostile-surrogate|65|tokenizer.json:1:40: invalid JSON: invalid Unicode
EOT
while IFS='|' read -r what name status text; do
    test_expect_success "$what: $name" "$what $name $status \"\$text\""
done <cases

test_expect_success 'none of the corpus is left out' '
    for what in chat rows tokenizer; do
        (cd "$data/fuzz-$what" && ls hostile-*) | sed "s/^/$what|/" || return 1
    done >want &&
    cut -d"|" -f1,2 cases >got && test_cmp want got
'
test_done

#!/bin/sh
# shellcheck disable=SC2016,SC2034,SC2154
test_description='real data files become the rows that are in them'
. "$BN_SRCDIR/t/tlib.sh"

in=$BN_SHARED/inputs
model=$in/models/stories260K-hf
bn_require SHARED "no $in" test -d "$in/preference"
bn_require JQ 'no jq' command -v jq

BURNISH_CACHE=$PWD/cache
export BURNISH_CACHE

# run NAME FILE [LINE...]: a run file
run()
{
	name=$1 file=$2
	shift 2
	printf '%s\n' "model_name_or_path: $model" "train_file: $file" "$@" \
		>"$name.yaml"
}

# entry NAME: the directory of its cache
entry()
{
	burnish tokenize --show 0 "$1.yaml" >"$1.out" &&
	sed -n 's/^cache *\(.*\) (.*)$/\1/p' "$1.out" | head -n 1 >"$1.dir" &&
	test -d "$(cat "$1.dir")"
}

# same A B: equal tokens from different files
same()
{
	entry "$1" && entry "$2" &&
	! cmp -s "$1.dir" "$2.dir" &&
	cmp "$(cat "$1.dir")/ids.bin" "$(cat "$2.dir")/ids.bin"
}

pref=$in/preference/rasbt/instruction-data-with-preference.json

test_expect_success 'a JSON array of pairs: shape, counts and reasons' '
	run pref "$pref" "task: orpo" "max_length: 512" "eval_split: 0.1" &&
	burnish tokenize --show 1 pref.yaml >out &&
	equal=$(jq "map(select(.chosen == .rejected)) | length" "$pref") &&
	grep "^shape  *preference, detected from columns (chosen, rejected, instruction, input):" out &&
	grep "^rows  *1100 read .*, $((1100 - equal)) kept, 0 of them cut" out &&
	grep "^dropped  *$equal (.*): chosen equals rejected" out &&
	grep "^train: $((1100 - equal - 110)) examples" out &&
	grep "^eval: 110 examples" out &&
	grep -F "[[The spelling of the given phrase \"freind\" is incorrect" out
'

test_expect_success 'the same pairs as JSON lines, gzip and zstd' '
	jq -c ".[]" "$pref" >p.jsonl &&
	jq -c "map({rejected, chosen, more: [{}], instruction, input})" "$pref" \
		>q.json &&
	gzip -c q.json >q.json.gz &&
	run lines p.jsonl "task: orpo" "max_length: 512" &&
	run array "$pref" "task: orpo" "max_length: 512" &&
	run packed q.json.gz "task: orpo" "max_length: 512" &&
	same array lines &&
	same array packed
'

test_expect_success 'several files and a glob are read in order' '
	head -n 500 p.jsonl >p-1.jsonl && tail -n +501 p.jsonl >p-2.jsonl &&
	run list "[p-1.jsonl, p-2.jsonl]" "task: orpo" "max_length: 512" &&
	run glob "p-?.jsonl" "task: orpo" "max_length: 512" &&
	same lines list &&
	entry glob && test_cmp list.dir glob.dir
'

csv=$in/sft/ko-songys/ChatbotData.csv

test_expect_success 'a Korean CSV file through a column map' '
	run csv "$csv" "task: sft" "columns: {prompt: Q, completion: A}" &&
	burnish tokenize csv.yaml >out &&
	grep "^shape  *prompt_completion, detected from columns (Q, A)" out &&
	grep "^rows  *11823 read .*, 11823 kept, 0 of them cut" out &&
	grep -F "12시 땡![[하루가 또 가네요.</s>]]" out
'

if command -v python3 >/dev/null; then test_set_prereq PYTHON; fi

test_expect_success PYTHON "and as Python's csv module reads it" '
	python3 - "$csv" >ko.jsonl <<-\EOF &&
	import csv, json, sys
	with open(sys.argv[1], newline="", encoding="utf-8") as f:
	    for row in csv.DictReader(f):
	        print(json.dumps({"prompt": row["Q"], "completion": row["A"]}))
	EOF
	run ko ko.jsonl "task: sft" &&
	same csv ko
'

test_expect_success 'human-written tasks: a shape that is not known, then text' '
	seeds=$in/sft/self-instruct/seed_tasks.jsonl &&
	run seeds "$seeds" "task: sft" &&
	test_expect_code 65 burnish tokenize seeds.yaml 2>err &&
	grep "no sft shape has the columns .id., .name., .instruction., .instances., .is_classification." err &&
	run seeds "$seeds" "task: sft" "columns: {text: instruction}" &&
	burnish tokenize seeds.yaml >out &&
	grep "^rows  *175 read .*, 175 kept" out
'

test_expect_success 'a first row that lacks its answer is a bad row, not the shape' '
	{
		echo "{\"prompt\": \"a\", \"completion\": null}" &&
		for i in $(seq 40); do
			echo "{\"prompt\": \"a$i\", \"completion\": \"b\"}"
		done
	} >null.jsonl &&
	run null null.jsonl "task: sft" &&
	burnish tokenize null.yaml >out &&
	grep "^shape  *prompt_completion, detected from columns (prompt, completion)" out &&
	grep "^rows  *41 read .*, 40 kept" out &&
	grep "^note  *null.jsonl:1: no .completion." out
'

chat=$in/sft/openai-cookbook/toy_chat_first4.jsonl

test_expect_success 'chats need a template' '
	run chat "$chat" "task: sft" &&
	test_expect_code 65 burnish tokenize chat.yaml 2>err &&
	grep "rows of messages need a chat template" err
'

test_expect_success 'chats through a template, what is learnt in brackets' '
	run chat "$chat" "task: sft" "assistant_only_loss: true" \
		"tokenizer_name_or_path: $in/tokenizers/phi-3" &&
	burnish tokenize --show 4 chat.yaml >out &&
	grep "^rows  *4 read .*, 4 kept" out &&
	test "$(grep -c "^\[\[.*<|end|> *$" out)" -eq 6 &&
	test "$(grep -c "^\]\]" out)" -eq 7 &&
	grep -F "<s>[[You" out &&
	run last "$chat" "task: sft" "assistant_only_loss: true" \
		"last_turn_only: true" \
		"tokenizer_name_or_path: $in/tokenizers/qwen3" &&
	burnish tokenize --show 4 last.yaml >out &&
	grep "^rows  *4 read .*, 4 kept" out &&
	test "$(grep -c "<|im_end|>$" out)" -gt 4 &&
	grep "easy to learn.<|im_end|>" out
'

test_expect_success 'every turn, where a template renders earlier ones anew' '
	cat >turns.jsonl <<-\EOF &&
	{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"<think>\nwhy\n</think>\n\none"},{"role":"user","content":"r"},{"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","content":"42"},{"role":"assistant","content":"two"},{"role":"user","content":"s"},{"role":"assistant","content":"<think>\nhm\n</think>\n\nthree"}]}
	EOF
	run turns turns.jsonl "task: sft" "assistant_only_loss: true" \
		"tokenizer_name_or_path: $in/tokenizers/qwen3" &&
	burnish tokenize --show 1 turns.yaml >out &&
	sed -n "/^example/,\$p" out | grep -v "^example" >got &&
	cat >want <<-\EOF &&
	<|im_start|>user
	q<|im_end|>
	<|im_start|>assistant
	[[one<|im_end|>
	]]<|im_start|>user
	r<|im_end|>
	<|im_start|>assistant
	[[<tool_call>
	{"name": "f", "arguments": {"a": 1}}
	</tool_call><|im_end|>
	]]<|im_start|>user
	<tool_response>
	42
	</tool_response><|im_end|>
	<|im_start|>assistant
	[[two<|im_end|>
	]]<|im_start|>user
	s<|im_end|>
	<|im_start|>assistant
	[[<think>
	hm
	</think>

	three<|im_end|>
	]]
	EOF
	test_cmp want got
'

test_done

#!/bin/sh
test_description='burnish render turns messages into text'
. "$BN_SRCDIR/t/tlib.sh"

# A tokenizer needs a vocabulary to open; its template is what counts here.
cat >tokenizer.json <<'EOF'
{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
 "normalizer": null,
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
  "trim_offsets": true, "use_regex": true},
 "post_processor": null,
 "decoder": {"type": "ByteLevel", "add_prefix_space": false,
  "trim_offsets": true, "use_regex": true},
 "model": {"type": "BPE", "dropout": null, "unk_token": null,
  "continuing_subword_prefix": null, "end_of_word_suffix": null,
  "fuse_unk": false, "byte_fallback": false,
  "vocab": {"<s>": 0, "a": 1, "b": 2}, "merges": []}}
EOF
cat >tokenizer_config.json <<'EOF'
{"bos_token": "<s>", "eos_token": null,
 "chat_template": "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if tools %}{{ tools|tojson }}{% endif %}{% if add_generation_prompt %}[assistant]{% endif %}{% if eos_token is defined %}no{% endif %}{{ x }}"}
EOF
cat >rows <<'EOF'
{"messages": [{"role": "user", "content": "안녕 \"q\"\n"}]}

{"messages": [], "tools": [{"name": "f"}], "chat_template_kwargs": {"x": 5}}
EOF

test_expect_success 'one JSON string a line' '
	cat >want <<-\EOF &&
	"<s>[user]안녕 \"q\"\n"
	"<s>[{\"name\": \"f\"}]5"
	EOF
	burnish render --tokenizer . rows >got &&
	test_cmp want got
'

test_expect_success 'a generation prompt is added when asked for' '
	cat >want <<-\EOF &&
	"<s>[user]안녕 \"q\"\n[assistant]"
	"<s>[{\"name\": \"f\"}][assistant]5"
	EOF
	burnish render --tokenizer . --add-generation-prompt <rows >got &&
	test_cmp want got
'

test_expect_success 'another template can be given' '
	printf "{%% for m in messages %%}\n{{ m.content|length }}\n{%% endfor %%}\n" >t.jinja &&
	printf "%s\n" "\"7\\n\"" "\"\"" >want &&
	burnish render --tokenizer . --template t.jinja rows >got &&
	test_cmp want got
'

# status, error, arguments...
refused()
{
	want=$1 text=$2
	shift 2
	burnish render "$@" >out 2>errors
	test $? -eq "$want" && test_must_be_empty out && cat errors >&4 &&
	test "$(wc -l <errors)" -eq 1 && grep -F -e "$text" errors
}

test_expect_success 'what cannot be rendered is refused in one line' '
	echo "{\"messages\": 3}" >bad &&
	refused 65 "bad:1: must be an object with an array" --tokenizer . bad &&
	echo "{\"messages\": [], \"tools\": 1}" >bad &&
	refused 65 "bad:1: " --tokenizer . bad &&
	echo "{\"messages\": [{\"content\": \"\\ud800\"}]}" >bad &&
	refused 65 "bad:1:" --tokenizer . bad &&
	echo "{{ raise_exception(\"no way\") }}" >e.jinja &&
	refused 65 "e.jinja:1:19: the template refuses: no way" \
		--tokenizer . --template e.jinja rows &&
	printf "a\n{%% if %%}" >e.jinja &&
	refused 65 "e.jinja:2:7: the tag ends here, expected an expression" \
		--tokenizer . --template e.jinja rows &&
	refused 65 "none.jinja" --tokenizer . --template none.jinja rows &&
	refused 64 "unknown option" --frob &&
	refused 64 "tokenizer is missing" rows
'

test_expect_success 'a tokenizer without a template says so' '
	mkdir plain && cp tokenizer.json plain &&
	refused 65 "has no chat template; give one with --template" \
		--tokenizer plain rows
'

test_done

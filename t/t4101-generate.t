#!/bin/sh
# shellcheck disable=SC2016,SC2034,SC2154
test_description='burnish-generate: greedy, sampled, stopped, streamed, refused'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require PYTHON "no python3" python3 --version
bn_prereq SHARED "no shared inputs (set BN_SHARED)" \
    test -d "$BN_SHARED/golden"
bn_prereq PTY "no script(1) to stand in for a terminal" \
    script -qec true /dev/null

chain=$PWD/chain
stories=$BN_SHARED/inputs/models/stories260K-hf
hello=' Hi 안녕 STOP!é.'

# field NAME <LINES: one member of each object, as text or JSON
field()
{
    python3 -c '
import json, sys
for line in sys.stdin:
    v = json.loads(line).get(sys.argv[1])
    print(v if isinstance(v, str) else json.dumps(v, separators=(",", ":")))
' "$1"
}

generate()
{
    burnish-generate --model "$chain" "$@"
}

# says REASON TEXT ARGUMENTS...: what "a" is answered
says()
{
    printf '%s\n' "$1" "$2" >want
    shift 2
    generate "$@" a >out &&
    { field stop_reason <out && field text <out; } >got &&
    test_cmp want got
}

test_expect_success 'a model whose answers are known' '
    python3 "$BN_SRCDIR/t/generate/chain.py" "$chain"
'

test_expect_success 'an answer ends at the end of text, or not' '
    says eos "$hello" &&
    field ids <out >got && echo "[4,5,6,7,8,9,10,11,12,13,0]" >want &&
    test_cmp want got &&
    says length "${hello}a Hi" --ignore-eos --max-new-tokens 13 &&
    says eos " Hi" --stop-id 5 &&
    says eos "$hello" --stop "</s>" --ignore-eos
'

test_expect_success 'generation_config.json has a say in it' '
    cp -r chain config && chmod -R u+w config &&
    echo "{\"eos_token_id\": [9, 12]}" >config/generation_config.json &&
    burnish-generate --model config a | field text >got &&
    echo " Hi 안녕 ST" >want && test_cmp want got &&
    echo "{\"eos_token_id\": [9, 99]}" >config/generation_config.json &&
    test_expect_code 65 burnish-generate --model config a 2>errors &&
    grep "eos_token_id must be ids below" errors
'

test_expect_success 'a stop string may be cut anywhere by tokens' '
    says stop " Hi 안녕 " --stop STOP &&
    field stop <out >got && echo STOP >want && test_cmp want got &&
    says stop " Hi 안녕 S" --stop TOP! &&
    says stop " Hi 안" --stop 녕 &&
    says stop " Hi " --stop "안녕 STOP" &&
    says stop " Hi 안녕 STOP!" --stop é. &&
    says stop "" --stop " " &&
    says eos "$hello" --stop STOPPED --stop "é.." &&
    says stop " Hi 안녕 S" --stop é --stop TOP --stop "!"
'

test_expect_success 'a character that stays cut is replaced' '
    says length " Hi �" --max-new-tokens 2 &&
    says length " Hi 안�" --max-new-tokens 3
'

test_expect_success 'the positions of the model are the limit' '
    generate b >out &&
    field stop_reason <out >got && echo context >want &&
    test_cmp want got &&
    python3 -c "import json; r = json.load(open(\"out\"))
assert len(r[\"ids\"]) == 39 and r[\"prompt_tokens\"] == 1, r" &&
    generate --max-new-tokens 39 b | field stop_reason >got &&
    echo length >want && test_cmp want got
'

# An answer to "c" is long, one to "a" short: rows leave and enter.
test_expect_success 'rows come out in their order, whoever shares the batch' '
    for p in b a c cca a b bbc a aa c ab a ca; do
        echo "{\"prompt\": \"$p\", \"other\": 1}"
        echo
    done >rows &&
    generate --batch-size 1 --input rows >alone &&
    test "$(wc -l <alone)" -eq 13 &&
    python3 - <<-\EOF &&
	import json
	for i, line in enumerate(open("alone")):
	    r = json.loads(line)
	    p = "b a c cca a b bbc a aa c ab a ca".split()[i]
	    assert r["row"] == i + 1 and r["prompt_tokens"] == len(p)
	    want = (" Hi 안녕 STOP!é." if p[-1] == "a" else
	            ("bc" * 40)[p[-1] == "b":][:40 - len(p)])
	    assert r["text"] == want, (p, r)
	EOF
    for n in 2 3 8 100; do
        generate --batch-size $n --input rows >together &&
        test_cmp alone together || return 1
    done &&
    generate --input - <rows >together && test_cmp alone together
'

test_expect_success 'a chat goes through the template' '
    says eos "$hello" --chat &&
    cat >chats <<-\EOF &&
	{"messages": [{"role": "user", "content": "cb"}]}
	{"messages": [], "tools": null, "chat_template_kwargs": {"x": 1}}
	{"ids": [2, 3, 1]}
	EOF
    generate --input chats >out &&
    field text <out >got && printf "%s\n" "$hello" "$hello" "$hello" >want &&
    test_cmp want got &&
    field prompt_tokens <out >got && printf "%s\n" 3 1 3 >want &&
    test_cmp want got
'

test_expect_success 'an output file appears whole' '
    generate --input rows --output out.jsonl >nothing &&
    test_must_be_empty nothing && test_cmp alone out.jsonl &&
    cp out.jsonl before &&
    echo "{\"prompt\": 5}" >>rows &&
    test_expect_code 65 generate --input rows --output out.jsonl &&
    test_cmp before out.jsonl &&
    ls out.jsonl* >got && echo out.jsonl >want && test_cmp want got
'

test_expect_success PTY 'one prompt at a terminal is answered as text' '
    script -qec "burnish-generate --model \"$chain\" a" /dev/null \
        </dev/null >typed && tr -d "\015" <typed >got &&
    echo "$hello" >want && test_cmp want got &&
    script -qec "burnish-generate --model \"$chain\" --stop TOP! a" \
        /dev/null </dev/null >typed && tr -d "\015" <typed >got &&
    echo " Hi 안녕 S" >want && test_cmp want got
'

# refused STATUS TEXT ARGUMENTS...
refused()
{
    want=$1 text=$2
    shift 2
    generate "$@" >out 2>errors
    test $? -eq "$want" && test_must_be_empty out && cat errors >&4 &&
    test "$(wc -l <errors)" -eq 1 && grep -F -e "$text" errors
}

# row TEXT ROW: refused in line 2, nothing said to line 1
row()
{
    printf '{"prompt": "a"}\n%s\n' "$2" >bad &&
    refused 65 "$1" --input bad
}

test_expect_success 'bad rows are refused by file and line' '
    row "bad:2: expected an object with one of" "{}" &&
    row "bad:2: expected an object with one of" "[1]" &&
    row "bad:2: expected an object with one of" \
        "{\"prompt\": \"a\", \"ids\": [1]}" &&
    row "bad:2: '\''prompt'\'' must be text" "{\"prompt\": null}" &&
    row "bad:2: '\''messages'\'' must be an array" "{\"messages\": {}}" &&
    row "bad:2: '\''ids'\'' must be an array" "{\"ids\": 1}" &&
    row "bad:2: ids[1] is not an id of the model" "{\"ids\": [1, 14]}" &&
    row "bad:2: ids[0] is not an id of the model" "{\"ids\": [1.0]}" &&
    row "bad:2: the prompt has no tokens" "{\"prompt\": \"\"}" &&
    row "bad:2:" "{\"prompt\": \"a\"" &&
    row "bad:2: the prompt has 40 tokens; with an answer of at least one \
token the model has room for 39" \
        "{\"prompt\": \"$(printf %040d 0 | tr 0 b)\"}" &&
    refused 65 "prompt 2: the prompt has no tokens" a "" &&
    refused 65 "none.jsonl" --input none.jsonl
'

test_expect_success 'the longest prompt there is gets one token' '
    generate "$(printf %039d 0 | tr 0 b)" | field text >got &&
    echo c >want && test_cmp want got
'

test_expect_success 'wrong options are refused' '
    refused 64 "give a prompt, or a file" &&
    refused 64 "not both" --input rows a &&
    echo "{\"prompt\": \"a\"}" >p.jsonl &&
    refused 64 "continued as text; write --input p.jsonl" p.jsonl &&
    refused 64 "did you mean '\''--temperature'\''" --temprature 1 a &&
    refused 64 "temperature is -1" --temperature -1 a &&
    refused 64 "top-p is 0" --top-p 0 a &&
    refused 64 "min-p is 2" --min-p 2 a &&
    refused 64 "repetition-penalty is 0" --repetition-penalty 0 a &&
    refused 64 "--top-k is -1" --top-k -1 a &&
    refused 64 "--batch-size is 0" --batch-size 0 a &&
    refused 64 "--max-new-tokens is 0" --max-new-tokens 0 a &&
    refused 64 "--stop: the string is empty" --stop "" a &&
    refused 64 "--stop-id: '\''14'\''" --stop-id 14 a &&
    refused 64 "none of float32|bfloat16" --dtype float16 a &&
    refused 64 "rows of a file say" --chat --input rows &&
    refused 65 "none" --model none a &&
    test_expect_code 64 burnish-generate a
'

test_expect_success 'help lists every option' '
    burnish-generate --help >out &&
    for o in model tokenizer input output chat max-new-tokens temperature \
        top-k top-p min-p repetition-penalty stop stop-id ignore-eos seed \
        batch-size dtype device threads tensor-parallel-size pipeline-parallel-size timeout \
        help version; do
        grep -e "^  --$o\( \|$\)" out || return 1
    done
'

test_expect_success 'weights are loaded strictly' '
    cp -r chain holed && chmod -R u+w holed &&
    sed -i "s/lm_head.weight/lm_hood.weight/" holed/model.safetensors &&
    test_expect_code 65 burnish-generate --model holed a >out 2>errors &&
    test_must_be_empty out && grep lm_head.weight errors
'

test_expect_success SHARED 'greedy tokens are the golden ones' '
    cat >golden.py <<-\EOF &&
	import json, os, sys
	rows = json.load(open(os.environ["BN_SHARED"]
	                      + "/golden/generate.json"))["rows"]
	if sys.argv[1] == "rows":
	    for r in rows:
	        print(json.dumps({"prompt": r["prompt_text"]}))
	else:
	    got = [json.loads(line) for line in sys.stdin]
	    assert len(got) == len(rows)
	    for r, g in zip(rows, got):
	        assert g["ids"] == r["new"], (g, r)
	        assert r["prompt_text"] + g["text"] == r["text"], (g, r)
	        assert g["prompt_tokens"] == len(r["prompt"])
	EOF
    python3 golden.py rows >golden.jsonl &&
    for n in 1 2 8; do
        burnish-generate --model "$stories" --ignore-eos --batch-size $n \
            --max-new-tokens 40 --input golden.jsonl >out &&
        python3 golden.py check <out || return 1
    done
'

test_expect_success SHARED 'what is drawn depends on seed and row alone' '
    for i in 1 2 3 4 5; do cat golden.jsonl; done >many.jsonl &&
    draw()
    {
        burnish-generate --model "$stories" --temperature 1.2 --top-p 0.95 \
            --top-k 200 --min-p 0.001 --repetition-penalty 1.1 \
            --max-new-tokens 60 --input many.jsonl "$@"
    } &&
    draw --seed 1 --batch-size 1 >alone &&
    for n in 3 8 32; do
        draw --seed 1 --batch-size $n --threads 2 >together &&
        test_cmp alone together || return 1
    done &&
    draw --seed 2 --batch-size 8 >other &&
    ! cmp alone other &&
    test "$(field ids <alone | sort -u | wc -l)" -eq 20
'

test_expect_success SHARED 'bfloat16 answers too' '
    burnish-generate --model "$stories" --dtype bfloat16 \
        --max-new-tokens 10 "Once upon a time" | field text >got &&
    echo ", there was a little girl named Lily" >want && test_cmp want got
'

test_done

#!/bin/sh
# shellcheck disable=SC2016,SC2034,SC2154
test_description='burnish tokenize: once, whole or not at all, within bounds'
. "$BN_SRCDIR/t/tlib.sh"

in=$BN_SHARED/inputs
bn_require SHARED "no $in" test -d "$in/tokenizers/gpt2"

BURNISH_CACHE=$PWD/cache
export BURNISH_CACHE

cat >run.yaml <<EOF
task: sft
model_name_or_path: $in/models/stories260K-hf
train_file: rows.jsonl
EOF

# rows N: N rows of text that differ
rows()
{
	awk -v n="$1" 'BEGIN {
		for (i = 0; i < n; i++) {
			s = ""
			for (k = 0; k < 60; k++)
				s = s " w" (i * 7919 + k * k * 31) % 100003
			print "{\"text\": \"row " i s "\"}"
		}
	}'
}

# left: what the cache holds besides whole entries
left()
{
	find cache/tokens -mindepth 1 -maxdepth 1 \
		\( -name '*.lock*' -o -name '*.tmp*' \) | wc -l
}

test_expect_success 'one bad row of many is named and counted' '
	rows 30 >rows.jsonl && echo "{\"text\": \"\\ud800\"}" >>rows.jsonl &&
	burnish tokenize run.yaml >out 2>err &&
	grep "^rows  *31 read .*, 30 kept" out &&
	grep "^dropped  *1 (.*): bad row" out &&
	grep "^note  *rows.jsonl:31: a lone surrogate at byte 17" out
'

test_expect_success 'found at once the second time' '
	burnish tokenize run.yaml >again &&
	sed "s/(made)/(found)/" out >want &&
	test_cmp want again
'

test_expect_success 'the hash of a file that has settled is remembered' '
	test "$(ls cache/files | wc -l)" -eq 0 &&
	sleep 4 &&
	burnish tokenize run.yaml >again && test_cmp want again &&
	test "$(ls cache/files | wc -l)" -eq 1 &&
	burnish tokenize run.yaml >again && test_cmp want again &&
	cp rows.jsonl same && cat same >rows.jsonl &&
	burnish tokenize run.yaml >again && test_cmp want again &&
	sed -i "1s/row 0/row zero/" rows.jsonl &&
	burnish tokenize run.yaml >again && grep "(made)" again &&
	cp same rows.jsonl
'

test_expect_success 'too many of them are an error of one line, and no cache' '
	burnish tokenize --set max_dropped_fraction=0.01 run.yaml >out 2>err;
	test $? -eq 65 && test "$(wc -l <err)" -eq 1 &&
	grep "1 of 31 rows dropped, more than max_dropped_fraction 0.01: bad row 1; first: rows.jsonl:31: a lone surrogate" err
'

test_expect_success 'colours are for terminals only' '
	burnish tokenize --show 2 run.yaml >out &&
	! grep "$(printf "\033")" out &&
	grep -F "[[" out
'

test_expect_success 'wrong arguments are refused' '
	test_expect_code 64 burnish tokenize &&
	test_expect_code 64 burnish tokenize --shw 3 run.yaml &&
	test_expect_code 64 burnish tokenize --show x run.yaml &&
	burnish tokenize --help | grep -e "--show N"
'

test_expect_success 'SIGTERM and SIGINT leave nothing half done' '
	rows 200000 >rows.jsonl &&
	for sig in TERM INT; do
		sh -c "exec burnish tokenize --set dataset_num_proc=1 run.yaml" \
			2>err &
		pid=$! i=0
		while test "$(left)" -eq 0 && test $i -lt 200; do
			sleep 0.05; i=$((i + 1))
		done
		kill -s "$sig" $pid
		wait $pid
		rc=$?
		# a shell may start what runs beside it with SIGINT ignored
		case $sig in
		TERM) test $rc -eq 75 && grep "stopped by signal 15" err ;;
		INT) test $rc -eq 75 || test $rc -eq 0 ;;
		esac && test "$(left)" -eq 0 || return 1
	done
'

test_expect_success 'a killed process is taken over from, two do the work once' '
	rm -rf cache &&
	{ burnish tokenize run.yaml >first 2>err1 & } &&
	pid=$! && i=0 &&
	while test "$(left)" -eq 0 && test $i -lt 200; do
		sleep 0.05; i=$((i + 1))
	done &&
	kill -9 $pid && { wait $pid || :; } &&
	test "$(left)" -eq 2 &&
	{ burnish tokenize run.yaml >two 2>err2 & } &&
	pid=$! &&
	burnish tokenize run.yaml >three 2>err3 && wait $pid &&
	test "$(cat two three | grep -c "(made)")" -eq 1 &&
	test "$(cat two three | grep -c "(found)")" -eq 1 &&
	cat err2 err3 | grep "which is gone: taking over" &&
	test "$(left)" -eq 0
'

test_expect_success 'memory stays within 1 GiB and 64 MiB a thread' '
	{
		printf "{\"text\": \"short\"}\n{\"text\": \""
		head -c 100000000 /dev/zero | tr "\\0" x
		printf "\"}\n"
		for i in 1 2 3 4; do
			printf "{\"text\": \"$i"
			head -c 20000000 /dev/zero | tr "\\0" "y"
			printf "\"}\n"
		done
		rows 1000
	} >rows.jsonl &&
	(
		ulimit -v $(((1024 + 2 * 64 + 512) * 1024)) &&
		burnish tokenize --set dataset_num_proc=2 --show 0 run.yaml >out
	) &&
	grep "^note  *rows.jsonl:2: longer than 32 MiB" out &&
	grep "1004 of them cut\|, 1005 kept, 4 of them cut" out
'

if test "$(id -u)" -eq 0 && unshare -m true 2>/dev/null; then
	test_set_prereq MOUNT
fi

test_expect_success MOUNT 'a full disk is an error of one line, and nothing is left' '
	rows 5000 >rows.jsonl &&
	mkdir small &&
	unshare -m sh -c "
		mount -t tmpfs -o size=200k tmpfs small &&
		BURNISH_CACHE=small burnish tokenize run.yaml 2>err
		echo \$? >status
		find small/tokens -mindepth 1 >left
	" &&
	test "$(cat status)" -eq 65 &&
	grep "No space left on device" err &&
	test "$(grep -c error err)" -eq 1 &&
	test_must_be_empty left
'

test_done

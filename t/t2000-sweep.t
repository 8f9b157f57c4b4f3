#!/bin/sh
# No Slurm here: what a sweep file says, and what a report makes of metrics.
test_description='burnish sweep: points, problems, launch local, ranking'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
bn_require JQ "no jq" command -v jq
PATH=$PWD/bin:$PATH
BURNISH_TEMPLATES=$BN_SRCDIR/templates
export PATH BURNISH_TEMPLATES
mkdir bin && cp "$BN_BUILDDIR/burnish" bin/ && cp "$BN_SRCDIR/t/slurm/rank.sh" bin/burnish-train

head_of() { printf '%s\n' "output_dir: $1" "launch: local" "tokenize: no"; bn_base; }
names() { burnish sweep status --json "$1" | jq -r '.points[].name'; }

test_expect_success 'grid, zip, list and random make points with names' '
    { head_of out && cat <<-\END
	grid:
	  beta: [0.1, 0.2]
	  learning_rate: [1e-4, 2e-4, 3e-4]
	zip:
	  max_steps: [5, 6]
	  seed: [1, 2]
	list:
	  - name: first
	    beta: 0.9
	  - weight_decay: 0.1
	random:
	  count: 3
	  seed: 7
	  learning_rate: {min: 1e-6, max: 1e-3, scale: log}
	  max_length: {min: 64, max: 128}
	  beta: {choices: [0.3, 0.4]}
	END
    } >s.yaml &&
    names s.yaml >got && names s.yaml >again && test_cmp got again &&
    cat >want <<-\END &&
	first
	weight_decay=0.1
	beta=0.1,learning_rate=1e-4
	beta=0.1,learning_rate=2e-4
	beta=0.1,learning_rate=3e-4
	beta=0.2,learning_rate=1e-4
	beta=0.2,learning_rate=2e-4
	beta=0.2,learning_rate=3e-4
	max_steps=5,seed=1
	max_steps=6,seed=2
	random-0001
	random-0002
	random-0003
	END
    test_cmp want got
'

test_expect_success 'all problems of all points come in one list' '
    { head_of out && cat <<-\END
	tim: 5
	nodes: 0
	limit: 3
	grid:
	  beta: [0.1, x]
	  learnign_rate: [1e-4]
	zip: {seed: [1, 2], max_steps: [1]}
	list:
	  - {name: a, beta: 0.1}
	  - {name: a, beta: 0.2}
	  - {name: b, output_dir: /x}
	END
    } >bad.yaml &&
    test_expect_code 64 burnish sweep check bad.yaml 2>err && cat err >&2 &&
    grep "bad.yaml:[0-9]*:1: no key .tim. in a sweep; did you mean .time.?" err &&
    grep "nodes must be from 1" err &&
    grep "limit has no effect unless launch is array" err &&
    grep "unknown key .learnign_rate.; did you mean .learning_rate." err &&
    grep "beta: expected a number .* got x" err &&
    grep "max_steps has 1 values and seed 2" err &&
    grep "there are two points .a." err &&
    grep "output_dir is set by the sweep" err &&
    ! test -e out
'

test_expect_success 'the clash that killed six runs is found at the desk' '
    { head_of out && printf "%s\n" "  eval_split: 0.2" "  eval_strategy: steps" \
        "  eval_steps: 100" "  save_strategy: steps" "  save_steps: 9999" \
        "  load_best_model_at_end: true" "grid: {beta: [0.1, 0.2]}"
    } >clash.yaml && sed -i "s/max_steps: 10/max_steps: 200/" clash.yaml &&
    test_expect_code 64 burnish sweep submit clash.yaml 2>err &&
    grep "clash.yaml:[0-9]*:[0-9]*: load_best_model_at_end needs save_steps (9999) to be a multiple of eval_steps (100)" err &&
    grep "1 problem: nothing is submitted" err &&
    ! test -e out
'

test_expect_success 'weights that are missing are found at the desk' '
    cp -r "$BN_SRCDIR/t/data/arch-variants/llama-untied" model && chmod -R u+w model &&
    sed -i "s/self_attn.q_proj/self_attn.x_proj/g" model/model.safetensors &&
    { head_of out && echo "grid: {beta: [0.1]}"; } >weights.yaml &&
    sed -i "/init:/d; s|config_name: .*|model_name_or_path: model|" weights.yaml &&
    test_expect_code 64 burnish sweep check weights.yaml 2>err && cat err >&2 &&
    grep "q_proj" err
'

test_expect_success 'data that is not there is found at the desk' '
    { head_of out && echo "grid: {beta: [0.1, 0.2]}"; } >data.yaml &&
    sed -i "s|train_file: .*|train_file: none.jsonl|" data.yaml &&
    test_expect_code 64 burnish sweep check data.yaml 2>err &&
    grep "none.jsonl" err && test $(grep -c none.jsonl err) = 1
'

test_expect_success 'a tokenizer that cannot be opened is found at the desk' '
    { head_of out && echo "grid: {beta: [0.1, 0.2]}"; } >tok.yaml &&
    sed -i "s|tokenizer_name_or_path: .*|tokenizer_name_or_path: model|" tok.yaml &&
    test_expect_code 64 burnish sweep check tok.yaml 2>err &&
    grep "model/tokenizer.json" err
'

test_expect_success 'local: a failed point hides no other' '
    { head_of loc && echo "list: [{name: ok1}, {name: mute}, {name: ok2}]"; } >loc.yaml &&
    test_expect_code 65 burnish sweep submit loc.yaml 2>err &&
    grep "point mute ended with class 3" err &&
    burnish sweep status loc.yaml >out &&
    grep "3 points: 2 done 1 failed" out &&
    test_expect_code 65 burnish sweep submit loc.yaml >out 2>err &&
    grep "1 points run, 0 in the queue already, 2 done already" out
'

test_expect_success 'a submit that is killed takes its run along and blocks nobody' '
    { head_of killed && echo "list: [{name: slow}]"; } >killed.yaml &&
    { burnish sweep submit killed.yaml 2>err & pid=$!; } &&
    for i in $(seq 100); do
        grep -qs "\"step\":3" killed/slow/phase.0 && break
        sleep 0.1
    done &&
    test_expect_code 75 burnish sweep submit killed.yaml 2>err2 &&
    grep "another submit of this sweep is under way" err2 &&
    burnish sweep status --json killed.yaml | jq -e ".points[0].state == \"running\"" &&
    kill -KILL $pid && { wait $pid || :; } &&
    for i in $(seq 50); do
        grep -q "\"phase\":\"failed\"" killed/slow/phase.0 && break
        sleep 0.1
    done &&
    grep "\"class\":75" killed/slow/phase.0 && test -e killed/.burnish/lock &&
    burnish sweep status --json killed.yaml | jq -e ".points[0].state == \"lost\"" &&
    burnish sweep submit killed.yaml &&
    burnish sweep status --json killed.yaml | jq -e ".points[0].state == \"done\""
'

# metrics NAME STEP NLL ODDS ACC LOSS MARGIN
metrics()
{
    for step in $(($2 / 2)) $2; do
        echo "{\"step\":$step,\"epoch\":1,\"time\":1.5,\"kind\":\"train\",\"loss\":$6,\"learning_rate\":1e-5,\"grad_norm\":1.5,\"tokens_per_second\":100}"
        echo "{\"step\":$step,\"epoch\":1,\"time\":1.5,\"kind\":\"eval\",\"eval_nll_loss\":$3,\"eval_log_odds_chosen\":$4,\"eval_rewards/accuracies\":$5,\"eval_loss\":$6,\"eval_rewards/margins\":$7}"
    done >"rank/$1/metrics.jsonl"
}

test_expect_success 'ranked by what ranks, within equal data and lengths' '
    { head_of rank && cat <<-\END
	list:
	  - {name: ok-small, beta: 0.1}
	  - {name: ok-large, beta: 0.5}
	  - {name: ok-short, max_length: 100, max_prompt_length: 50}
	  - {name: ok-nan}
	  - {name: ok-none}
	  - {name: ok-early}
	  - {name: ok-half}
	END
    } >rank.yaml && burnish sweep submit rank.yaml &&
    metrics ok-small 200 1.80 0.50 0.70 1.85 0.01 &&
    metrics ok-large 200 1.75 0.90 0.80 2.50 0.90 &&
    metrics ok-short 200 1.00 2.00 0.90 1.10 0.50 &&
    metrics ok-early 100 1.00 3.00 0.99 1.00 0.99 &&
    metrics ok-half 200 1.90 0.10 0.60 1.70 0.01 &&
    printf "{\"step\":300,\"kind\":\"eval\",\"eval_nll" >>rank/ok-half/metrics.jsonl &&
    rm rank/ok-none/metrics.jsonl &&
    echo "{\"step\":200,\"epoch\":1,\"time\":1.5,\"kind\":\"eval\",\"eval_log_odds_chosen\":1,\"eval_rewards/accuracies\":1,\"nonfinite\":[\"eval_nll_loss\"]}" >rank/ok-nan/metrics.jsonl &&
    burnish sweep report rank.yaml >out && cat out >&2 &&
    burnish sweep report --csv rank.yaml | tr -d "\r" | cut -d, -f1-3 >got &&
    cat >want <<-\END &&
	group,rank,point
	1,1,ok-large
	1,2,ok-small
	1,3,ok-half
	1,4,ok-early
	1,,ok-nan
	1,,ok-none
	2,1,ok-short
	END
    test_cmp want got &&
    grep "ok-nan .*nll_loss is not finite at step 200" out &&
    grep "ok-none .*no evaluation" out &&
    grep "ok-early .*behind those that went further" out &&
    grep "ok-half .*half written" out &&
    grep "^loss: shown only" out
'

test_expect_success 'the page is whole in itself' '
    test -s rank/report.html &&
    ! grep -oE "(src|href)=\"[^\"]*\"" rank/report.html | grep -vE "=\"(data:image/svg|#)" &&
    ! grep -E "<script|@import|url\(" rank/report.html &&
    grep -c "<th scope=\"row\">" rank/report.html &&
    grep "<html lang=\"en\">" rank/report.html
'

test_expect_success 'pictures are drawn where there is gnuplot, and missed where not' '
    if command -v gnuplot; then
        test $(grep -o "data:image/svg" rank/report.html | wc -l) -ge 9 || return 1
    fi &&
    mkdir nobin && for p in burnish; do cp bin/$p nobin/ || return 1; done &&
    PATH=$PWD/nobin nobin/burnish sweep report --html plain.html rank.yaml >out2 2>err &&
    grep "no pictures: cannot run .gnuplot." err &&
    grep "There are no pictures" plain.html && test_cmp out out2
'

test_expect_success 'figures of generations are shown where there are any, and rank nothing' '
    burnish sweep report --csv rank.yaml | tr -d "\r" >plain.csv &&
    ! grep gen_ plain.csv && ! grep GENERATIONS out &&
    cp -R rank/ok-large/metrics.jsonl kept &&
    for n in 1 2; do
        echo "{\"step\":200,\"epoch\":1,\"time\":1.5,\"kind\":\"eval\",\"eval_gen_examples\":9,\"eval_gen_length\":7.5,\"eval_gen_length_low\":6.25,\"eval_gen_length_high\":8.75,\"eval_gen_eos_rate\":0.$n}" \
            >>rank/ok-large/metrics.jsonl
    done &&
    burnish sweep report rank.yaml >with && cat with >&2 &&
    grep "^GENERATIONS  *length  *eos_rate  *repetition_4" with &&
    grep "^ok-large  *7.5  *0.2  *-  *-  *-  *-$" with &&
    grep "   1  ok-large  *200  *1.75" with &&
    burnish sweep report --csv rank.yaml | tr -d "\r" >gen.csv &&
    head -n 1 gen.csv | grep ",eval_gen_length,eval_gen_eos_rate,.*,eval_gen_exact_match,eval_gen_length_low,eval_gen_length_high,.*,eval_gen_exact_match_high,settings,remark$" &&
    grep "^1,1,ok-large,.*,7.5,0.2,,,,,6.25,8.75,\{11\}[^,]" gen.csv &&
    burnish sweep report --html gen.html rank.yaml >/dev/null 2>&1 &&
    grep "<h3>Answers of group 1</h3>" gen.html && ! grep "Answers of" plain.html &&
    grep "<td class=\"n\">7.5<small>6.25 to 8.75</small></td><td class=\"n\">0.2</td><td class=\"n\">missing" gen.html &&
    cut -d, -f1-10 plain.csv >a && cut -d, -f1-10 gen.csv | test_cmp a - &&
    mv kept rank/ok-large/metrics.jsonl
'

test_expect_success '--best prints the full run of the winner' '
    burnish sweep report --best rank.yaml >best.yaml && cat best.yaml >&2 &&
    grep "^beta: 0.5" best.yaml && ! grep "^max_steps: [0-9]" best.yaml &&
    grep "output_dir: .*/rank/best" best.yaml &&
    sed "s/^list:/full: {num_train_epochs: 2, learning_rate: 3e-5}\nlist:/" rank.yaml >full.yaml &&
    burnish sweep report --best full.yaml >best.yaml &&
    grep "^learning_rate: 3e-0*5" best.yaml &&
    test_expect_code 65 burnish sweep report --best --group 9 rank.yaml
'

test_expect_success 'rank_by lets one column decide' '
    { echo "rank_by: rewards/margins" && cat rank.yaml; } >by.yaml &&
    burnish sweep report --csv by.yaml | tr -d "\r" | cut -d, -f1-3 | head -n 2 | tail -n 1 >got &&
    echo 1,1,ok-large >want && test_cmp want got &&
    sed -i "s/^rank_by.*/rank_by: nothing/" by.yaml &&
    test_expect_code 64 burnish sweep report by.yaml 2>err && grep "no metric .nothing." err
'

test_done

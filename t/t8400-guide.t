#!/bin/sh
# Every command of doc/GUIDE.md, in its order and from one shell, with the
# real programs on a private cluster.
test_description='the guide: its commands run, its messages are said'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
. "$BN_SRCDIR/t/mpi.sh"
. "$BN_SRCDIR/t/sweep-doc.sh"
bn_mpi
bn_cluster
bn_sweep_bin real
cp "$BN_BUILDDIR/burnish-generate" "$bn_dir/bin/" || exit 1
guide=$BN_SRCDIR/doc/GUIDE.md
HOME=$bn_dir/home # a short path without spaces, as homes are
export HOME
unset BURNISH_CACHE XDG_CACHE_HOME

# run_guide FILE: its sh blocks, until a command fails. A fence of another
# kind would be a command that nobody runs.
run_guide()
{
    rm -rf blocks && mkdir blocks &&
    awk '
        /^```/ && into { close(into); into = ""; next }
        /^```/ && $0 != "```sh" { print "not run: line " NR > "/dev/stderr"; exit 1 }
        /^```/ { into = sprintf("blocks/%03d", ++n)
                 print "echo \"== line " NR "\"" > into; next }
        into { print > into }
        END { if (into) exit 1 }' "$1" || return
    # shellcheck disable=SC2016
    bash -eo pipefail -c 'for b in "$0"/*; do . "$b"; done' "$PWD/blocks"
}

test_expect_success 'a command that fails is a failure, wherever it stands' '
    printf "%s\n" text "\`\`\`sh" "x=1" "\`\`\`" "\`\`\`sh" "echo \$x" "\`\`\`" >good.md &&
    run_guide good.md >out && grep -x 1 out &&
    sed "s/echo.*/false | cat/" good.md >bad.md && ! run_guide bad.md &&
    sed "s/^x=1/nosuchcommand/" good.md >bad.md && ! run_guide bad.md &&
    sed "1,/sh/s/sh/console/" good.md >bad.md && ! run_guide bad.md
'

test_expect_success 'every command of the guide' '
    mkdir -p ~/models ~/data && bn_tiny && mv tiny ~/models/my-sft-model &&
    cp "$BN_SRCDIR/t/data/arch-variants/llama-untied/model.safetensors" ~/models/my-sft-model/ &&
    bn_pairs 200 >~/data/pairs.jsonl &&
    run_guide "$guide" >out && cat out >&2 &&
    test $(grep -c "^== line" out) -gt 25
'

test_expect_success 'what it says of tokens, points and ranking is so' '
    grep "^count 1 \[\[1 is 1 and more</s>\]\]" out &&
    grep "orpo: 4 points, all well" out &&
    grep "orpo: 4 points submitted" out &&
    grep "^4 points: 4 done" out &&
    test -s ~/orpo/sweep/report.html &&
    tr -d "\r" <~/orpo/ranking.csv | cut -d, -f2 >got &&
    printf "%s\n" rank 1 2 3 4 >want && test_cmp want got
'

test_expect_success 'the full run is of the winner, longer, and whole' '
    sed -n 2p ~/orpo/ranking.csv |
        sed "s/.*,\"beta=\(.*\), learning_rate=\(.*\)\",.*/\1 \2/" >winner &&
    read -r beta rate <winner && test -n "$rate" &&
    grep -x "beta: $beta" ~/orpo/full/winner/run.yaml &&
    awk -v want="$rate" "/^learning_rate: / { exit \$2 + 0 != want + 0 }" ~/orpo/full/winner/run.yaml &&
    test $(sed -n "s/.*\"step\":\([0-9]*\).*/\1/p" ~/orpo/full/winner/phase.0) -gt 20 &&
    test -s ~/orpo/full/winner/model/model.safetensors &&
    grep "full/winner/checkpoint-.*whole" out && grep "\"text\":" out
'

test_expect_success 'doc/formats/sweep.md knows every file of both sweeps' '
    for dir in sweep full; do
        bn_doc_paths ~/orpo/$dir >unknown
        cat unknown && test_must_be_empty unknown || return 1
    done
'

# --- The messages of its last section --------------------------------------

# A second installation whose runs end as their names say (t/slurm/rank.sh).
mkdir stub noslurm nopmix &&
cp "$BN_BUILDDIR/burnish" stub/ && cp "$BN_BUILDDIR/burnish" noslurm/ &&
cp "$BN_SRCDIR/t/slurm/rank.sh" stub/burnish-train &&
printf '#!/bin/sh\necho "MPI plugin types are..."\necho none\n' >nopmix/srun &&
chmod +x nopmix/srun || exit 1
here=$PWD
stub=$PWD/stub/burnish

# with RUN-EDIT SWEEP-EDIT: the guide's files, changed, as odd.yaml
with()
{
    sed "$1" run.yaml >odd-run.yaml &&
    sed "s/run.yaml/odd-run.yaml/; $2" sweep.yaml >odd.yaml
}
# refused: sweep check says what is wrong with odd.yaml
refused() { test_expect_code 64 burnish sweep check odd.yaml 2>>said; }

test_expect_success 'problems that check finds' '
    cd ~/orpo && cp -r ../models/my-sft-model broken &&
    sed -i "s/self_attn.q_proj/self_attn.x_proj/g" broken/model.safetensors &&
    jq ".hidden_size = 8192 | .num_hidden_layers = 80 | .vocab_size = 128000" \
        broken/config.json >huge.json &&
    for i in 1 2 3; do echo "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"\"}"; done >empty.jsonl &&
    cat ../data/pairs.jsonl | head -n 4 >>empty.jsonl &&
    with "s/^max_length/max_lenght/" "" && refused &&
    with "s/^save_steps.*/save_steps: 7\nload_best_model_at_end: true/" "" && refused &&
    with "s/^model_name.*/model_name_or_path: broken/" "" && refused &&
    echo "{\"prompt\":\"a\"}" >shapeless.jsonl &&
    with "s/^train_file.*/train_file: shapeless.jsonl/" "" && refused &&
    with "" "s/^tasks_per_node.*/gpus_per_node: 1\ngpu_memory: 1M/" && refused &&
    with "" "s/^time.*/time: 3-00:00:00/" && refused &&
    with "" "s/^cpus_per_task.*/cpus_per_task: 100/" && refused &&
    with "s|^model_name.*|init: random\nconfig_name: huge.json\ntokenizer_name_or_path: broken|; s/^save_total.*//" "" && refused &&
    with "" "" && (PATH=$here/nopmix:$PATH && refused) &&
    (PATH=$here/noslurm && export PATH && exec burnish sweep check odd.yaml) 2>>said;
    test $? = 64 && cat said >&2
'

test_expect_success 'what ends runs' '
    cd ~/orpo &&
    test_expect_code 64 timeout 60 srun -n 2 --mpi=none burnish-train --set output_dir=odd run.yaml 2>>said &&
    with "s/^train_file.*/train_file: empty.jsonl/" "" &&
    test_expect_code 65 burnish tokenize odd-run.yaml 2>>said &&
    test_expect_code 71 burnish-train --set output_dir=odd --set learning_rate=10 \
        --set max_grad_norm=0 --set max_steps=100 run.yaml 2>>said &&
    test_expect_code 64 burnish-train --set output_dir=full/winner run.yaml 2>>said
'

stub_status() { "$stub" sweep status --silent 1.5 ends.yaml >status && cat status; }
says() { stub_status | grep -q -e "$1"; }

test_expect_success 'what status and submit say of points' '
    cd ~/orpo &&
    { echo "output_dir: ends"; sed "/^limit/d; /^grid/,\$d; s/array/jobs/" sweep.yaml &&
      printf "%s\n" "tokenize: no" "max_requeues: 0" "list:" "  - name: hang" \
        "  - name: bad" "  - name: again"; } |
        sed "/^output_dir: sweep/d" >ends.yaml &&
    "$stub" sweep submit ends.yaml &&
    bn_wait 60 says "ranks silent" &&
    bn_wait 60 says "(usage)" && bn_wait 60 says "(again)" && cat status >>said &&
    "$stub" sweep report ends.yaml >>said &&
    sed "s/name: hang/&\n    beta: 0.7/" ends.yaml >changed.yaml &&
    test_expect_code 64 "$stub" sweep submit changed.yaml 2>>said &&
    (exec 8>ends/.burnish/lock && flock 8 &&
        test_expect_code 75 "$stub" sweep submit ends.yaml 2>>said) &&
    "$stub" sweep cancel ends.yaml &&
    { echo "output_dir: later"; sed "1d; /- name: [ab]/d" ends.yaml; } |
        sed "s/^tokenize.*/&\nsbatch: [--begin=now+1hour]/; /^output_dir: ends/d" >later.yaml &&
    "$stub" sweep submit later.yaml && "$stub" sweep status later.yaml >>said &&
    scancel $("$stub" sweep status --json later.yaml | jq -r ".points[0].job") &&
    bn_wait 30 sh -c "\"$stub\" sweep status later.yaml | grep \"^hang *lost\"" >>said
'

test_expect_success 'each heading of the last section is a part of a message' '
    sed -n "s/^### \`\(.*\)\`\$/\1/p" "$guide" >messages &&
    test $(wc -l <messages) -gt 18 && bad=0 &&
    while read -r line; do
        grep -qF -e "$line" ~/orpo/said || { echo "nobody says: $line" >&2; bad=1; }
    done <messages && test $bad = 0
'

test_done

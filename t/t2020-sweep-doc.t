#!/bin/sh
# No Slurm here; t8400 holds its folders against the document.
test_description='doc/formats/sweep.md says what is so'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
. "$BN_SRCDIR/t/sweep-doc.sh"
bn_require JQ "no jq" command -v jq
BURNISH_TEMPLATES=$BN_SRCDIR/templates
PATH=$PWD/bin:$PATH
export BURNISH_TEMPLATES PATH
mkdir bin && cp "$BN_BUILDDIR/burnish" bin/ &&
cp "$BN_SRCDIR/t/slurm/rank.sh" bin/burnish-train || exit 1

test_expect_success 'every key of the file with its default' '
    bn_doc_table "The file" key | sed "s/ *$//" >want &&
    test $(wc -l <want) -gt 30 &&
    burnish sweep --help | sed -n "/^Keys of/,\$s/^  \([a-z_]*\)  .*/&/p" |
        sed "s/^  \([a-z_]*\)  .* \[\([^] ,]*\)\]\$/\1 \2/; s/^  \([a-z_]*\)  .*/\1/" >got &&
    test_cmp want got
'

test_expect_success 'choices are those of the help' '
    for key in launch tokenize scheduler; do
        burnish sweep --help | sed -n "s/^  $key  .* (\(.*\)) \[.*/\1/p" | sed "s/ | /\n/g" >choices &&
        test -s choices &&
        while read -r word; do
            grep "^| \`$key\`" "$bn_sweep_doc" | grep -q "\`$word\`: " || return 1
        done <choices || return 1
    done
'

test_expect_success 'files of a local sweep' '
    { printf "%s\n" "output_dir: out" "launch: local" "tokenize: no"; bn_base
      echo "list: [{name: ok}, {name: bad}, {name: mute}]"; } >s.yaml &&
    test_expect_code 65 burnish sweep submit s.yaml &&
    burnish sweep report s.yaml &&
    sed "s/name: ok/name: ok, beta: 0.7/; s/, {name: mute}/, {name: new}/" s.yaml >t.yaml &&
    burnish sweep submit t.yaml ok &&
    bn_doc_paths out >unknown; cat unknown && test_must_be_empty unknown &&
    find out -path "*/.burnish/old/ok-*/run.yaml" | grep . &&
    : >out/ok/other && bn_doc_paths out | grep -x ok/other
'

test_expect_success 'lines of history, keys of jobs.jsonl' '
    for f in out/*/history out/.burnish/old/*/history; do
        while read -r event rest; do
            n=$(bn_doc_table history line | sed -n "s/^$event //p" | wc -w) &&
            test "$(echo "$rest" | wc -w)" = "$n" || return 1
        done <$f || return 1
    done &&
    bn_doc_table jobs.jsonl key | sort >want &&
    jq -r "keys[]" out/.burnish/jobs.jsonl | sort -u >got && test_cmp want got
'

test_expect_success 'keys of status --json, states' '
    burnish sweep status --json t.yaml >json && cat json >&2 &&
    bn_doc_table "status --json" key >doc &&
    jq -r ".points[] | keys[]" json | sort -u >got &&
    sort doc >all && test -z "$(comm -23 got all)" &&
    grep -v "$(printf "%s\n" silent_ranks silent_since seconds_left stopped)" all >want &&
    test_cmp want got &&
    { grep -o "set_n[a-z]*(o, \"[a-z_]*\"" "$BN_SRCDIR/sweep/status.c" | cut -d\" -f2
      jq -r ".points[] | select(.state == \"new\") | keys[]" json; } | sort -u >made &&
    test_cmp all made &&
    bn_doc_table "status --json" state | tr "\n" " " >want &&
    sed -n "/^const char \*bn_state_name/,/};/p" "$BN_SRCDIR/sweep/state.c" |
        grep -o "\"[a-z]*\"" | tr -d "\"" | tr "\n" " " >got &&
    test_cmp want got
'

test_expect_success 'columns of report --csv' '
    bn_doc_table "report --csv" column >want &&
    burnish sweep report --csv s.yaml | head -n 1 | tr -d "\r" | tr , "\n" >got &&
    test_cmp want got
'

test_done

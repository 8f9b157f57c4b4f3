#!/bin/sh
test_description='completion in bash proposes what the programs take'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"

# shellcheck disable=SC2034
file=$BN_BUILDDIR/doc/completions/burnish
bn_prereq PYTHON 'no python3' command -v python3

# tab LINE: what is proposed at the end of LINE
tab()
{
    bash --norc -c '. "$1"; COMP_LINE=$2 COMP_POINT=${#2}
        _burnish; printf "%s\n" "${COMPREPLY[@]}"' tab "$file" "$1"
}
# proposes LINE WORD...: exactly these, in any order
proposes()
{
    tab "$1" | sort >got
    shift
    printf "%s\n" "$@" | sort >want
    test_cmp want got
}
# options PROGRAM [COMMAND]: those of its help
options() { "$BN_BUILDDIR/$1" ${2:+"$2"} --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p' | sort; }

test_expect_success 'commands, verbs' '
    "$BN_BUILDDIR/burnish" --help | sed -n "/^  --/q; s/^  \([a-z]*\) .*/\1/p" | sort >want &&
    test $(wc -l <want) -ge 10 && tab "burnish " | sort >got && test_cmp want got &&
    proposes "burnish sw" sweep && proposes "burnish sweep s" submit status &&
    proposes "/usr/bin/burnish ckpt " ls verify export &&
    proposes "burnish mps --job 5 st" start stop status
'

test_expect_success 'every option of every command, and no other' '
    for c in $(tab "burnish "); do
        options burnish $c >want && test -s want &&
        tab "burnish $c --" | sort >got && test_cmp want got || return 1
    done &&
    for p in burnish burnish-train burnish-generate; do
        options $p >want && test -s want &&
        tab "$p --" | sort >got && test_cmp want got || return 1
    done
'

test_expect_success 'keys after --set, and what they take' '
    "$BN_BUILDDIR/burnish-train" --help-keys | sed -n "s/^  \([a-z_0-9.]*\): .*/\1=/p" | sort >want &&
    test $(wc -l <want) -gt 90 &&
    tab "burnish-train --set " | sort >got && test_cmp want got &&
    proposes "burnish-train --set max_l" max_length= &&
    proposes "burnish-train --set=max_l" max_length= &&
    proposes "burnish tokenize --set truncation_mode=" keep_end keep_start &&
    proposes "burnish-train --set x=y run.yaml --set lr_scheduler_type=con" constant constant_with_warmup &&
    proposes "burnish-train --set=task=" sft orpo &&
    proposes "burnish-train --set add_eos=" true false &&
    proposes "burnish-train --set add_bos=" true false auto &&
    proposes "burnish-train --set report_to=t" tensorboard &&
    proposes "burnish-train --set seed=" "" && proposes "burnish-train --set nokey=" ""
'

test_expect_success 'words of options' '
    proposes "burnish-generate --device " auto cpu cuda &&
    proposes "burnish-generate --dtype=b" bfloat16 &&
    proposes "burnish ckpt export --dtype f" float32 float16 &&
    proposes "burnish-generate --top-k " "" && proposes "burnish-train -- --ch" ""
'

test_expect_success 'where a word does not end at =, the whole is proposed' '
    bash --norc -c ". \"\$1\"; COMP_WORDBREAKS=\" \" COMP_LINE=\"burnish-train --set=dtype=b\"
        COMP_POINT=\${#COMP_LINE}; _burnish; echo \"\${COMPREPLY[@]}\"" x "$file" >got &&
    echo "--set=dtype=bfloat16" >want && test_cmp want got
'

test_expect_success PYTHON 'a tab that is typed' '
    printf "%s\n" ". \"$file\"" "PS1=\"ready \"" >rc && : >"run one.yaml" && mkdir models &&
    cat >script <<-\END &&
	want ready
	send burnish swe\t
	want burnish sweep\x20
	send \x15
	send burnish-train --set dty\tb\t
	want --set dtype=bfloat16\x20
	send \x15
	send burnish-train --check run\t
	want run\\ one.yaml\x20
	send \x15
	send burnish-train --set output_dir=mod\t
	want output_dir=models/
	send \x15
	send burnish render --tokenizer mod\t
	want models/
	send \x15
	send exit\n
	end
	END
    INPUTRC=/dev/null TERM=dumb python3 "$BN_SRCDIR/t/talk.py" 20 bash --rcfile rc -i <script >screen; rc=$?
    cat -v screen >&2; test $rc = 0
'

test_expect_success 'make install puts it where bash looks' '
    make -C "$BN_BUILDDIR" install-nodist_completionsDATA DESTDIR="$PWD/root" >log 2>&1 &&
    for p in burnish burnish-train burnish-generate; do
        at=$(find root -path "*/share/bash-completion/completions/$p") &&
        cmp "$at" "$file" || return 1
    done
'

test_done

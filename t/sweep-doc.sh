# shellcheck shell=sh
# What doc/formats/sweep.md says, for tests that hold it against what is.
bn_sweep_doc=$BN_SRCDIR/doc/formats/sweep.md

# bn_doc_table SECTION HEADER: first column of the table that begins with
# HEADER in a section, without the marks; and the second, where it has a name
bn_doc_table()
{
    awk -F' *[|] *' -v section="$1" -v header="$2" '
        /^#/ { here = $0 ~ "^#+ " section "$"; on = 0 }
        here && $2 == header { on = 1; two = $3 != ""; next }
        !/^\|/ { on = 0 }
        on && $2 !~ /^-/ { gsub(/`/, ""); print two ? $2 " " $3 : $2 }' \
        "$bn_sweep_doc"
}

# bn_doc_paths DIR: files below the output_dir DIR that the document does not
# know
bn_doc_paths()
{
    bn_doc_table "The folder" path | sed 's/[.+]/\\&/g; s/NAME/[^.\/][^\/]*/g
        s/JOB\|TASK\|STEP\|RANK\|NUMBER\|TIME/[0-9][0-9]*/g
        s/\/$/\/.*/; s/.*/^&$/' >paths.re
    find "$1" -type f -printf '%P\n' | grep -v -f paths.re
}

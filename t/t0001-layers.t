#!/bin/sh
test_description='an include points to its own layer or one above it'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"

# check TREE: names of violations in a tree
check() {
    (cd "$1" && find src kernels sweep -name '*.[chy]' -o -name '*.cu' \
        -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cc' | LC_ALL=C sort |
        xargs awk -f "$BN_SRCDIR/t/layers.awk")
}

# plant FILE LINE: a tree with one file that holds one include
plant() {
    rm -rf tree && mkdir -p tree/src tree/kernels tree/sweep &&
    mkdir -p "tree/$(dirname "$1")" && echo "$2" >"tree/$1"
}

test_expect_success 'the tree keeps the order' '
    check "$BN_SRCDIR" >found &&
    test_must_be_empty found
'
test_expect_success 'the table is the one of doc/ARCHITECTURE.md, if there' '
    doc=$BN_SRCDIR/doc/ARCHITECTURE.md &&
    awk "/split\\(/,/\\)/" "$BN_SRCDIR/t/layers.awk" | tr -cs "a-z" "\n" |
        sed -n "/^base$/,/^cmd$/p" >want &&
    test "$(wc -l <want)" -eq 19 &&
    if test -f "$doc"; then
        sed -n "s/^| .\\(src\\/\\)\\{0,1\\}\\([a-z]*\\)\`.*/\\2/p" "$doc" >got &&
        test_cmp want got
    fi
'
for case in \
    'src/loss/a.c|model/x.h' 'kernels/ref/a.c|tensor/x.h' \
    'kernels/cuda/a.cu|ops/x.h' 'src/base/a.h|text/x.h' \
    'src/model/a.c|src/train/x.h' 'src/conf/a.c|train/x.h' \
    'sweep/a.c|cmd/x.h' 'src/data/test/a.c|nowhere/x.h' \
    'src/train/a.c|sweep/x.h' 'src/optim/a.c|nowhere/x.h' \
    'src/optim/a.c|x.h' 'src/other/a.c|base/x.h'
do
    file=${case%%|*} inc=${case#*|}
    test_expect_success "planted: $file with $inc is found" '
        plant "$file" "  #  include \"$inc\"" &&
        check tree >found &&
        grep -q "^$file:1: " found
    '
done
for case in \
    'src/loss/a.c|base/err.h' 'src/cmd/a.c|sweep/x.h' \
    'src/ops/a.c|kernels/x.h' 'src/conf/a.c|conf/key.h' \
    'kernels/cpu/a.c|kernels/x.h' 'src/base/a.c|config.h' \
    'src/data/test/a.c|comm/x.h'
do
    file=${case%%|*} inc=${case#*|}
    test_expect_success "allowed: $file with $inc" '
        plant "$file" "#include \"$inc\"" &&
        check tree >found &&
        test_must_be_empty found
    '
done
test_done

#!/bin/sh
# Print doc/CUDA-KERNELS.md from what ptxas -v said about each kernel.
# Usage: table.sh NVCC kernels/cuda/*.ptxas
nvcc=$1
shift
release=$("$nvcc" --version | sed -n 's/.*release [^,]*, V\(.*\)/\1/p')
cat <<END
# What the CUDA kernels use

Made by kernels/cuda/table.sh from \`ptxas -v\` of nvcc $release, at -O2. A test
compares it with the build and says how to renew it. For each architecture:
registers a thread, bytes of static shared memory a block, bytes of spills
(stores and loads) a thread. Dynamic shared memory depends on the shapes, and
is chosen by the launchers.

| kernel | sm_80 | sm_90 | sm_100 | sm_120 |
|---|---|---|---|---|
END
for file; do
    base=${file##*/}
    c++filt <"$file" | awk -v file="${base%.ptxas}" '
        /Compiling entry function/ {
            name = arch = $0
            sub(/.*entry function ./, "", name)
            sub(/\(.*/, "", name)
            sub(/. for .*/, "", name)
            sub(/^void /, "", name)
            gsub(/__nv_bfloat16/, "bf16", name)
            gsub(/__half/, "f16", name)
            sub(/.* for ./, "", arch)
            sub(/. *$/, "", arch)
        }
        /bytes stack frame/ { spill = $5 + $9 }
        /Used [0-9]+ registers/ {
            smem = 0
            for (i = 1; i <= NF; i++)
                if ($i == "registers,") regs = $(i - 1)
                else if ($i ~ /^smem,?$/) smem = $(i - 2)
            printf "%s/%s\t%s\t%s / %s / %s\n", file, name, arch, regs, smem, \
                   spill
        }'
done | awk -F '\t' '
    !($1 in seen) { seen[$1] = 1; order[++n] = $1 }
    { cell[$1, $2] = $3 }
    END {
        for (i = 1; i <= n; i++)
            printf "| %s | %s | %s | %s | %s |\n", order[i], \
                   cell[order[i], "sm_80"], cell[order[i], "sm_90"], \
                   cell[order[i], "sm_100"], cell[order[i], "sm_120"]
    }' | LC_ALL=C sort

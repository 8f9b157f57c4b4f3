#!/bin/sh
# Put burnish-train of a build tree, and the libraries that it needs but for
# the C library's and CUDA's, into a folder: what gpu-check.sh takes for $BUILD
# on a machine that has CUDA and little else (and a C library not older than
# this one's).
#
#     jobs/gpu/carry.sh BUILD FOLDER
#
# A tree configured --without-mpi --without-pmix --without-onednn
# --without-nccl makes it 23 MB.
set -eu
program=$1/burnish-train to=$2
test -x "$program" || { echo "carry: no $program" >&2; exit 64; }
mkdir -p "$to/lib"
ldd "$program" >"$to/needed"
if grep 'not found' "$to/needed" >&2; then
    exit 65
fi
awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' "$to/needed" |
    while read -r name path; do
        case $name in
        libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | \
            libcudart.so.* | libcuda.so.*) ;;
        *) cp -L "$path" "$to/lib/$name" ;;
        esac
    done
cp "$program" "$to/"
du -sh "$to"

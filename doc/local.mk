# doc
EXTRA_DIST += doc/formats/metrics.md doc/formats/tokens.md
EXTRA_DIST += doc/CUDA-KERNELS.md kernels/cuda/table.sh

# doc
EXTRA_DIST += doc/ARCHITECTURE.md doc/HACKING.md doc/CUDA-KERNELS.md \
	doc/PERFORMANCE.md \
	doc/formats/checkpoint.md doc/formats/metrics.md \
	doc/formats/phase.md doc/formats/tokens.md kernels/cuda/table.sh

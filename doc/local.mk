# doc
EXTRA_DIST += doc/ARCHITECTURE.md doc/HACKING.md doc/CUDA-KERNELS.md \
	doc/PERFORMANCE.md doc/GUIDE.md \
	doc/formats/checkpoint.md doc/formats/metrics.md \
	doc/formats/phase.md doc/formats/tokens.md kernels/cuda/table.sh

# All benchmarks, each a target of its own; doc/PERFORMANCE.md is what the
# last run gave.
EXTRA_DIST += doc/performance.sh
.PHONY: bench
bench: all
	@$(SHELL) $(srcdir)/doc/performance.sh '$(MAKE)' \
		'$(srcdir)/doc/PERFORMANCE.md' $(BENCHES)

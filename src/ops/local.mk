# src/ops: the op table and its CPU back end
noinst_LIBRARIES += src/ops/libops.a
src_ops_libops_a_SOURCES = src/ops/ops.h src/ops/cpu.h src/ops/dev.c \
	src/ops/cpu.c src/ops/gemm.c
OPS_LIBS = src/ops/libops.a $(KERNEL_LIBS)

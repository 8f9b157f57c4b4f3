# src/ops: the op table and its CPU back end
noinst_LIBRARIES += src/ops/libops.a
src_ops_libops_a_SOURCES = src/ops/ops.h src/ops/cpu.h src/ops/dev.c \
	src/ops/cpu.c src/ops/gemm.c src/ops/onednn.c src/ops/onednn.h \
	src/ops/floor.c src/ops/floor.h
OPS_LIBS = src/ops/libops.a $(KERNEL_LIBS) $(ONEDNN_LIBS)

if HAVE_CMOCKA
OPS_TESTS = src/ops/test/cpu.t
check_PROGRAMS += $(OPS_TESTS)
TESTS += $(OPS_TESTS)
src_ops_test_cpu_t_SOURCES = src/ops/test/cpu.c
src_ops_test_cpu_t_LDADD = $(OPS_LIBS) $(CMOCKA_LIBS)
endif

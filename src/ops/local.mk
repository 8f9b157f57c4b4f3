# src/ops: the op table and its CPU back end
noinst_LIBRARIES += src/ops/libops.a
src_ops_libops_a_SOURCES = src/ops/ops.h src/ops/cpu.h src/ops/dev.c \
	src/ops/cpu.c src/ops/gemm.c src/ops/onednn.c src/ops/onednn.h \
	src/ops/floor.c src/ops/floor.h
OPS_LIBS = src/ops/libops.a $(KERNEL_LIBS) $(ONEDNN_LIBS)

if HAVE_CMOCKA
OPS_TESTS = src/ops/test/cpu.t src/ops/test/slopes.t
check_PROGRAMS += $(OPS_TESTS)
TESTS += $(OPS_TESTS)
src_ops_test_cpu_t_SOURCES = src/ops/test/cpu.c
src_ops_test_cpu_t_LDADD = $(OPS_LIBS) $(CMOCKA_LIBS)
src_ops_test_slopes_t_SOURCES = src/ops/test/slopes.c
src_ops_test_slopes_t_LDADD = $(OPS_LIBS) $(CMOCKA_LIBS)
endif

# The CUDA back end: for devices, for the emulator (tests), or absent
EXTRA_DIST += src/ops/cuda_none.c
OPS_CUDA = src/ops/cuda.h src/ops/cuda_state.h src/ops/cuda_dev.c \
	src/ops/cuda_slots.c src/ops/cuda_host.c src/ops/cuda_graph.c \
	src/ops/cuda_call.c src/ops/cuda_loan.c src/ops/cuda_loan.h
noinst_LIBRARIES += src/ops/libops_cuda.a src/ops/libops_emu.a
if HAVE_CUDA
src_ops_libops_cuda_a_SOURCES = $(OPS_CUDA) src/ops/cuda_lt.c \
	src/ops/cublaslt.c
src_ops_libops_cuda_a_CPPFLAGS = $(AM_CPPFLAGS) \
	$(CUDA_CPPFLAGS:-I%=-isystem %)
OPS_CUDA_LIBS = src/ops/libops_cuda.a $(OPS_LIBS) $(CUDA_KERNEL_LIBS)
else
src_ops_libops_cuda_a_SOURCES = src/ops/cuda.h src/ops/cuda_none.c
src_ops_libops_cuda_a_CPPFLAGS = $(AM_CPPFLAGS)
OPS_CUDA_LIBS = src/ops/libops_cuda.a $(OPS_LIBS)
endif
src_ops_libops_emu_a_SOURCES = $(OPS_CUDA) src/ops/cuda_emu_gemm.c
src_ops_libops_emu_a_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
OPS_EMU_LIBS = src/ops/libops_emu.a $(CUDA_EMU_LIBS) $(OPS_LIBS)

if HAVE_CMOCKA
check_PROGRAMS += src/ops/test/cuda.t src/ops/test/cuda_slots.t
TESTS += src/ops/test/cuda.t src/ops/test/cuda_slots.t
src_ops_test_cuda_t_SOURCES = src/ops/test/cuda.c src/ops/test/twin.c \
	src/ops/test/twin.h
src_ops_test_cuda_t_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
src_ops_test_cuda_t_LDADD = $(OPS_EMU_LIBS) $(CMOCKA_LIBS)
src_ops_test_cuda_slots_t_SOURCES = src/ops/test/cuda_slots.c \
	src/ops/test/twin.c src/ops/test/twin.h
src_ops_test_cuda_slots_t_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
src_ops_test_cuda_slots_t_LDADD = $(OPS_EMU_LIBS) $(CMOCKA_LIBS)
if HAVE_CUDA
check_PROGRAMS += src/ops/test/cublaslt.t
TESTS += src/ops/test/cublaslt.t
src_ops_test_cublaslt_t_SOURCES = src/ops/test/cublaslt.c
src_ops_test_cublaslt_t_CPPFLAGS = $(src_ops_libops_cuda_a_CPPFLAGS)
src_ops_test_cublaslt_t_LDADD = src/ops/libops_cuda.a $(BASE_LIBS) $(CMOCKA_LIBS)
endif
endif
noinst_PROGRAMS += src/ops/bench/bench-ops
src_ops_bench_bench_ops_SOURCES = src/ops/bench/ops.c
src_ops_bench_bench_ops_LDADD = $(OPS_LIBS)

BENCHES += bench-ops
.PHONY: bench-ops
bench-ops: src/ops/bench/bench-ops
	src/ops/bench/bench-ops

# Figures of a GPU (jobs/gpu-check.sh); over the emulator to see that it runs
check_PROGRAMS += src/ops/bench/bench-cuda-emu
TESTS += src/ops/bench/cuda-smoke.sh
EXTRA_DIST += src/ops/bench/cuda-smoke.sh
src_ops_bench_bench_cuda_emu_SOURCES = src/ops/bench/cuda.c
src_ops_bench_bench_cuda_emu_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
src_ops_bench_bench_cuda_emu_LDADD = $(OPS_EMU_LIBS)

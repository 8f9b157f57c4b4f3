# kernels: contracts here, plain C in double in ref/, tuned C in cpu/
KERNEL_H = kernels/segment.h kernels/number.h kernels/dropout.h \
	kernels/embed.h \
	kernels/rmsnorm.h kernels/headnorm.h kernels/rope.h kernels/attn.h \
	kernels/swiglu.h kernels/head.h kernels/adamw.h kernels/sqnorm.h \
	kernels/rows.h kernels/loss.h kernels/score.h kernels/sample.h \
	kernels/add.h kernels/cast.h kernels/gemm.h \
	kernels/peak.h

noinst_LIBRARIES += kernels/ref/libkref.a
kernels_ref_libkref_a_SOURCES = $(KERNEL_H) kernels/ref/ref.h \
	kernels/ref/dropout.c kernels/ref/embed.c kernels/ref/rmsnorm.c kernels/ref/headnorm.c \
	kernels/ref/rope.c kernels/ref/attn.c kernels/ref/swiglu.c \
	kernels/ref/head.c kernels/ref/loss.c kernels/ref/score.c \
	kernels/ref/adamw.c kernels/ref/sqnorm.c \
	kernels/ref/rows.c kernels/ref/sample.c kernels/ref/add.c kernels/ref/cast.c \
	kernels/ref/gemm.c

# The CPU kernels are compiled once for every instruction set; dispatch.c
# chooses at run time. The flags change no result: errno is not looked at
# and floating-point exceptions are not trapped. (clang warns of loops
# that it leaves scalar: those of rare conversions.)
KCPU_FILES = $(KERNEL_H) kernels/cpu/cpu.h kernels/cpu/norm.h \
	kernels/cpu/tile.h kernels/cpu/pack.h kernels/cpu/attn.h kernels/cpu/attn_work.h \
	kernels/cpu/dropout.c kernels/cpu/embed.c kernels/cpu/rmsnorm.c kernels/cpu/headnorm.c \
	kernels/cpu/rope.c kernels/cpu/attn.c kernels/cpu/attn_grad.c \
	kernels/cpu/swiglu.c \
	kernels/cpu/head.c kernels/cpu/adamw.c kernels/cpu/sqnorm.c \
	kernels/cpu/rows.c kernels/cpu/sample.c kernels/cpu/add.c kernels/cpu/cast.c \
	kernels/cpu/gemm.c kernels/cpu/peak.c
KCPU_CFLAGS = $(AM_CFLAGS) -fno-math-errno -fno-trapping-math \
	-Wno-pass-failed

noinst_LIBRARIES += kernels/cpu/libkcpu.a kernels/cpu/libkbase.a
kernels_cpu_libkcpu_a_SOURCES = kernels/cpu/dispatch.c kernels/cpu/dispatch.h
kernels_cpu_libkbase_a_SOURCES = $(KCPU_FILES)
kernels_cpu_libkbase_a_CPPFLAGS = $(AM_CPPFLAGS) -DBN_ISA=base
kernels_cpu_libkbase_a_CFLAGS = $(KCPU_CFLAGS)
KERNEL_LIBS = kernels/cpu/libkcpu.a kernels/cpu/libkbase.a

if X86_64
noinst_LIBRARIES += kernels/cpu/libkv3.a kernels/cpu/libkv4.a \
	kernels/cpu/libkv4bf16.a
kernels_cpu_libkv3_a_SOURCES = $(KCPU_FILES)
kernels_cpu_libkv3_a_CPPFLAGS = $(AM_CPPFLAGS) -DBN_ISA=v3
kernels_cpu_libkv3_a_CFLAGS = $(KCPU_CFLAGS) -march=x86-64-v3
kernels_cpu_libkv4_a_SOURCES = $(KCPU_FILES)
kernels_cpu_libkv4_a_CPPFLAGS = $(AM_CPPFLAGS) -DBN_ISA=v4
kernels_cpu_libkv4_a_CFLAGS = $(KCPU_CFLAGS) -march=x86-64-v4 \
	-mprefer-vector-width=512
kernels_cpu_libkv4bf16_a_SOURCES = $(KCPU_FILES)
kernels_cpu_libkv4bf16_a_CPPFLAGS = $(AM_CPPFLAGS) -DBN_ISA=v4bf16
kernels_cpu_libkv4bf16_a_CFLAGS = $(KCPU_CFLAGS) -march=x86-64-v4 \
	-mavx512bf16 -mprefer-vector-width=512
KERNEL_LIBS += kernels/cpu/libkv3.a kernels/cpu/libkv4.a \
	kernels/cpu/libkv4bf16.a
endif
KERNEL_LIBS += kernels/ref/libkref.a $(BASE_LIBS)

if HAVE_CMOCKA
KERNEL_TESTS = kernels/test/gemm.t kernels/test/attn.t \
	kernels/test/layers.t kernels/test/sample.t kernels/test/vectors.t
check_PROGRAMS += $(KERNEL_TESTS)
TESTS += $(KERNEL_TESTS)
kernels_test_gemm_t_SOURCES = kernels/test/gemm.c kernels/test/check.h
kernels_test_gemm_t_LDADD = $(KERNEL_LIBS) $(CMOCKA_LIBS)
kernels_test_attn_t_SOURCES = kernels/test/attn.c kernels/test/check.h
kernels_test_attn_t_LDADD = $(KERNEL_LIBS) $(CMOCKA_LIBS)
kernels_test_layers_t_SOURCES = kernels/test/layers.c kernels/test/check.h
kernels_test_layers_t_LDADD = $(KERNEL_LIBS) $(CMOCKA_LIBS)
kernels_test_sample_t_SOURCES = kernels/test/sample.c kernels/test/check.h
kernels_test_sample_t_LDADD = $(KERNEL_LIBS) $(CMOCKA_LIBS)
kernels_test_vectors_t_SOURCES = kernels/test/vectors.c kernels/test/check.h
kernels_test_vectors_t_LDADD = $(KERNEL_LIBS) $(CMOCKA_LIBS)
endif

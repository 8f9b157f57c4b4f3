# kernels/cuda: one kernel a file, compiled by nvcc for devices and by the C++
# compiler for the emulator
CUDA_KERNEL_H = kernels/cuda/attn.h kernels/cuda/cu.h kernels/cuda/parts.h \
	kernels/cuda/ptx.h kernels/cuda/tile.h
CUDA_CU = \
	kernels/cuda/adamw.cu kernels/cuda/add.cu kernels/cuda/attn.cu kernels/cuda/attn_grad.cu kernels/cuda/cast.cu \
	kernels/cuda/embed.cu kernels/cuda/head.cu \
	kernels/cuda/headnorm.cu kernels/cuda/rmsnorm.cu \
	kernels/cuda/rope.cu kernels/cuda/rows.cu kernels/cuda/sqnorm.cu \
	kernels/cuda/swiglu.cu
EMU_OBJECTS = \
	kernels/emu/obj/adamw.o kernels/emu/obj/add.o kernels/emu/obj/attn.o kernels/emu/obj/attn_grad.o \
	kernels/emu/obj/cast.o kernels/emu/obj/embed.o \
	kernels/emu/obj/head.o kernels/emu/obj/headnorm.o \
	kernels/emu/obj/rmsnorm.o kernels/emu/obj/rope.o \
	kernels/emu/obj/rows.o kernels/emu/obj/sqnorm.o \
	kernels/emu/obj/swiglu.o
EXTRA_DIST += $(CUDA_KERNEL_H) $(CUDA_CU)

if HAVE_CMOCKA
CUDA_TESTS = kernels/cuda/test/attn.t kernels/cuda/test/layers.t \
	kernels/cuda/test/norm.t kernels/cuda/test/train.t
check_PROGRAMS += $(CUDA_TESTS)
TESTS += $(CUDA_TESTS)
CUDA_TEST_GPU = kernels/cuda/test/gpu.c kernels/cuda/test/gpu.h
CUDA_TEST_LIBS = $(EMU_OBJECTS) kernels/ref/libkref.a $(EMU_LIBS) \
	$(BASE_LIBS) $(CMOCKA_LIBS)

kernels_cuda_test_attn_t_SOURCES = kernels/cuda/test/attn.c $(CUDA_TEST_GPU)
kernels_cuda_test_attn_t_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_attn_t_LDADD = $(CUDA_TEST_LIBS)
kernels_cuda_test_norm_t_SOURCES = kernels/cuda/test/norm.c $(CUDA_TEST_GPU)
kernels_cuda_test_norm_t_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_norm_t_LDADD = $(CUDA_TEST_LIBS)
kernels_cuda_test_layers_t_SOURCES = kernels/cuda/test/layers.c \
	$(CUDA_TEST_GPU)
kernels_cuda_test_layers_t_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_layers_t_LDADD = $(CUDA_TEST_LIBS)
kernels_cuda_test_train_t_SOURCES = kernels/cuda/test/train.c $(CUDA_TEST_GPU)
kernels_cuda_test_train_t_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_train_t_LDADD = $(CUDA_TEST_LIBS)
endif

# kernels/cuda: one kernel a file, compiled by nvcc for devices and by the C++
# compiler for the emulator
CUDA_KERNEL_H = kernels/cuda/attn.h kernels/cuda/attn_work.h kernels/cuda/cu.h \
	kernels/cuda/parts.h \
	kernels/cuda/ptx.h kernels/cuda/tile.h kernels/cuda/width.h
CUDA_CU = \
	kernels/cuda/adamw.cu kernels/cuda/add.cu kernels/cuda/attn.cu \
	kernels/cuda/attn_decode.cu kernels/cuda/attn_grad.cu \
	kernels/cuda/cast.cu kernels/cuda/dropout.cu \
	kernels/cuda/embed.cu kernels/cuda/head.cu \
	kernels/cuda/headnorm.cu kernels/cuda/loss.cu kernels/cuda/rmsnorm.cu \
	kernels/cuda/rope.cu kernels/cuda/rows.cu kernels/cuda/sample.cu \
	kernels/cuda/score.cu kernels/cuda/sqnorm.cu \
	kernels/cuda/swiglu.cu
EMU_OBJECTS = \
	kernels/emu/obj/adamw.o kernels/emu/obj/add.o kernels/emu/obj/attn.o \
	kernels/emu/obj/attn_decode.o kernels/emu/obj/attn_grad.o \
	kernels/emu/obj/cast.o kernels/emu/obj/dropout.o \
	kernels/emu/obj/embed.o \
	kernels/emu/obj/head.o kernels/emu/obj/headnorm.o \
	kernels/emu/obj/loss.o \
	kernels/emu/obj/rmsnorm.o kernels/emu/obj/rope.o \
	kernels/emu/obj/rows.o kernels/emu/obj/sample.o \
	kernels/emu/obj/score.o kernels/emu/obj/sqnorm.o \
	kernels/emu/obj/swiglu.o
EXTRA_DIST += $(CUDA_KERNEL_H) $(CUDA_CU)

if HAVE_CUDA
# For devices: one call of nvcc a file for all of them. What ptxas says about
# registers and spills is kept for the table in doc/, and what it made for the
# test that looks for tensor cores.
noinst_DATA += kernels/cuda/libkcuda.a
CUDA_OBJECTS = \
	kernels/cuda/adamw.o kernels/cuda/add.o kernels/cuda/attn.o kernels/cuda/attn_decode.o \
	kernels/cuda/attn_grad.o kernels/cuda/cast.o kernels/cuda/dropout.o \
	kernels/cuda/embed.o \
	kernels/cuda/head.o kernels/cuda/headnorm.o kernels/cuda/loss.o \
	kernels/cuda/rmsnorm.o \
	kernels/cuda/rope.o kernels/cuda/rows.o kernels/cuda/sample.o \
	kernels/cuda/score.o kernels/cuda/sqnorm.o \
	kernels/cuda/swiglu.o
# Code for a version runs on all of the same major one from it on; others,
# newer ones too, have PTX, which the driver compiles when it is first used.
CUDA_ARCHS = -gencode arch=compute_80,code=[sm_80,compute_80] \
	-gencode arch=compute_90,code=sm_90 \
	-gencode arch=compute_100,code=[sm_100,sm_120]
CUDA_ARCH = $(or $(NVCC_ARCH),$(CUDA_ARCHS))
kernels/cuda/%.o: kernels/cuda/%.cu
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	rm -rf $(@:.o=.keep) && mkdir $(@:.o=.keep) && \
	if ! $(NVCC) -std=c++17 -O2 $(BN_NVCC_WERROR) $(CUDA_ARCH) -Xptxas -v $(DEFS) \
		$(AM_CPPFLAGS) $(CPPFLAGS) -MD -MP -MF $@.d -c $< -o $@ \
		-keep -keep-dir $(@:.o=.keep) \
		>$(@:.o=.ptxas) 2>&1; then cat $(@:.o=.ptxas) >&2; exit 1; fi && \
	find $(@:.o=.keep) -type f ! -name '*.cubin' -exec rm -f {} +
-include $(wildcard kernels/cuda/*.o.d)
kernels/cuda/libkcuda.a: $(CUDA_OBJECTS)
	$(AM_V_AR)rm -f $@ && $(AR) cr $@ $(CUDA_OBJECTS)
CLEANFILES += kernels/cuda/libkcuda.a
MOSTLYCLEANFILES += kernels/cuda/*.o kernels/cuda/*.ptxas \
	kernels/cuda/*.o.d
mostlyclean-local:
	rm -rf kernels/cuda/*.keep
CUDA_KERNEL_LIBS = kernels/cuda/libkcuda.a $(CUDA_LIBS)
endif

# The same sources for the emulator
noinst_DATA += kernels/emu/libkemu.a
kernels/emu/libkemu.a: $(EMU_OBJECTS)
	$(AM_V_AR)rm -f $@ && $(AR) cr $@ $(EMU_OBJECTS)
CLEANFILES += kernels/emu/libkemu.a
CUDA_EMU_LIBS = kernels/emu/libkemu.a $(EMU_LIBS)

if HAVE_CMOCKA
CUDA_TESTS = kernels/cuda/test/attn.t kernels/cuda/test/layers.t \
	kernels/cuda/test/norm.t kernels/cuda/test/sample.t \
	kernels/cuda/test/score.t kernels/cuda/test/slopes.t \
	kernels/cuda/test/traffic.t kernels/cuda/test/train.t
check_PROGRAMS += $(CUDA_TESTS)
TESTS += $(CUDA_TESTS)
CUDA_TEST_GPU = kernels/cuda/test/gpu.c kernels/cuda/test/gpu.h
CUDA_TEST_LIBS = $(CUDA_EMU_LIBS) kernels/ref/libkref.a $(BASE_LIBS) \
	$(CMOCKA_LIBS)

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
kernels_cuda_test_score_t_SOURCES = kernels/cuda/test/score.c $(CUDA_TEST_GPU)
kernels_cuda_test_score_t_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_score_t_LDADD = $(CUDA_TEST_LIBS)
kernels_cuda_test_slopes_t_SOURCES = kernels/cuda/test/slopes.c \
	$(CUDA_TEST_GPU)
kernels_cuda_test_slopes_t_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_slopes_t_LDADD = $(CUDA_TEST_LIBS)
kernels_cuda_test_traffic_t_SOURCES = kernels/cuda/test/traffic.c \
	$(CUDA_TEST_GPU)
kernels_cuda_test_traffic_t_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_traffic_t_LDADD = $(CUDA_TEST_LIBS)
kernels_cuda_test_train_t_SOURCES = kernels/cuda/test/train.c $(CUDA_TEST_GPU)
kernels_cuda_test_train_t_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_train_t_LDADD = $(CUDA_TEST_LIBS)
kernels_cuda_test_sample_t_SOURCES = kernels/cuda/test/sample.c \
	$(CUDA_TEST_GPU)
kernels_cuda_test_sample_t_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_sample_t_LDADD = $(CUDA_EMU_LIBS) $(KERNEL_LIBS) \
	$(CMOCKA_LIBS)

# Planted faults, which the tests must find: one kernel with BN_MUTANT_X in
# the place of the right one
CUDA_MUTANTS = kernels/cuda/test/mutant-barrier \
	kernels/cuda/test/mutant-look \
	kernels/cuda/test/mutant-mask kernels/cuda/test/mutant-race \
	kernels/cuda/test/mutant-row kernels/cuda/test/mutant-scale \
	kernels/cuda/test/mutant-stage \
	kernels/cuda/test/mutant-wait
check_PROGRAMS += $(CUDA_MUTANTS)
# A planted fault ends a sanitized program in another way than a failed test.
if !SANITIZED
TESTS += kernels/cuda/test/mutants.sh
endif
EXTRA_DIST += kernels/cuda/test/mutants.sh
kernels/cuda/test/mutants.log: $(CUDA_MUTANTS)

kernels/emu/obj/barrier.o: kernels/cuda/rmsnorm.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(EMU_CXX) -DBN_MUTANT_BARRIER \
		-MD -MP -MF $@.d -c $(srcdir)/kernels/cuda/rmsnorm.cu -o $@
kernels_cuda_test_mutant_barrier_SOURCES = kernels/cuda/test/norm.c $(CUDA_TEST_GPU)
kernels_cuda_test_mutant_barrier_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_mutant_barrier_LDADD = kernels/emu/obj/barrier.o $(CUDA_TEST_LIBS)

kernels/emu/obj/look.o: kernels/cuda/sample.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(EMU_CXX) -DBN_MUTANT_LOOK \
		-MD -MP -MF $@.d -c $(srcdir)/kernels/cuda/sample.cu -o $@
kernels_cuda_test_mutant_look_SOURCES = kernels/cuda/test/sample.c $(CUDA_TEST_GPU)
kernels_cuda_test_mutant_look_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_mutant_look_LDADD = kernels/emu/obj/look.o $(CUDA_EMU_LIBS) \
	$(KERNEL_LIBS) $(CMOCKA_LIBS)

kernels/emu/obj/mask.o: kernels/cuda/attn.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(EMU_CXX) -DBN_MUTANT_MASK \
		-MD -MP -MF $@.d -c $(srcdir)/kernels/cuda/attn.cu -o $@
kernels_cuda_test_mutant_mask_SOURCES = kernels/cuda/test/attn.c $(CUDA_TEST_GPU)
kernels_cuda_test_mutant_mask_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_mutant_mask_LDADD = kernels/emu/obj/mask.o $(CUDA_TEST_LIBS)

kernels/emu/obj/race.o: kernels/cuda/attn.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(EMU_CXX) -DBN_MUTANT_RACE \
		-MD -MP -MF $@.d -c $(srcdir)/kernels/cuda/attn.cu -o $@
kernels_cuda_test_mutant_race_SOURCES = kernels/cuda/test/attn.c $(CUDA_TEST_GPU)
kernels_cuda_test_mutant_race_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_mutant_race_LDADD = kernels/emu/obj/race.o $(CUDA_TEST_LIBS)

kernels/emu/obj/row.o: kernels/cuda/rmsnorm.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(EMU_CXX) -DBN_MUTANT_ROW \
		-MD -MP -MF $@.d -c $(srcdir)/kernels/cuda/rmsnorm.cu -o $@
kernels_cuda_test_mutant_row_SOURCES = kernels/cuda/test/norm.c $(CUDA_TEST_GPU)
kernels_cuda_test_mutant_row_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_mutant_row_LDADD = kernels/emu/obj/row.o $(CUDA_TEST_LIBS)

kernels/emu/obj/scale.o: kernels/cuda/attn_grad.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(EMU_CXX) -DBN_MUTANT_SCALE \
		-MD -MP -MF $@.d -c $(srcdir)/kernels/cuda/attn_grad.cu -o $@
kernels_cuda_test_mutant_scale_SOURCES = kernels/cuda/test/attn.c $(CUDA_TEST_GPU)
kernels_cuda_test_mutant_scale_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_mutant_scale_LDADD = kernels/emu/obj/scale.o $(CUDA_TEST_LIBS)

kernels/emu/obj/stage.o: kernels/cuda/score.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(EMU_CXX) -DBN_MUTANT_STAGE \
		-MD -MP -MF $@.d -c $(srcdir)/kernels/cuda/score.cu -o $@
kernels_cuda_test_mutant_stage_SOURCES = kernels/cuda/test/score.c $(CUDA_TEST_GPU)
kernels_cuda_test_mutant_stage_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_mutant_stage_LDADD = kernels/emu/obj/stage.o $(CUDA_TEST_LIBS)

kernels/emu/obj/wait.o: kernels/cuda/attn.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(EMU_CXX) -DBN_MUTANT_WAIT \
		-MD -MP -MF $@.d -c $(srcdir)/kernels/cuda/attn.cu -o $@
kernels_cuda_test_mutant_wait_SOURCES = kernels/cuda/test/attn.c $(CUDA_TEST_GPU)
kernels_cuda_test_mutant_wait_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
kernels_cuda_test_mutant_wait_LDADD = kernels/emu/obj/wait.o $(CUDA_TEST_LIBS)
endif

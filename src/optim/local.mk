# src/optim: schedules, AdamW over the flat parameters
noinst_LIBRARIES += src/optim/liboptim.a
src_optim_liboptim_a_SOURCES = src/optim/adamw.c src/optim/adamw.h src/optim/reduce.c \
	src/optim/schedule.c src/optim/schedule.h
OPTIM_LIBS = src/optim/liboptim.a $(MODEL_LIBS)

if HAVE_CMOCKA
OPTIM_TESTS = src/optim/test/cuda.t src/optim/test/schedule.t
check_PROGRAMS += $(OPTIM_TESTS)
TESTS += $(OPTIM_TESTS)
src_optim_test_cuda_t_SOURCES = src/optim/test/cuda.c
src_optim_test_cuda_t_LDADD = $(OPTIM_LIBS) $(DATA_LIBS) $(OPS_EMU_LIBS) \
	$(CMOCKA_LIBS)
src_optim_test_schedule_t_SOURCES = src/optim/test/schedule.c
src_optim_test_schedule_t_LDADD = $(OPTIM_LIBS) $(CMOCKA_LIBS)
endif

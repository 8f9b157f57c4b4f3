# src/optim: schedules, AdamW over the flat parameters
noinst_LIBRARIES += src/optim/liboptim.a
src_optim_liboptim_a_SOURCES = src/optim/adamw.c src/optim/adamw.h src/optim/reduce.c \
	src/optim/schedule.c src/optim/schedule.h
OPTIM_LIBS = src/optim/liboptim.a $(MODEL_LIBS)

if HAVE_CMOCKA
check_PROGRAMS += src/optim/test/schedule.t
TESTS += src/optim/test/schedule.t
src_optim_test_schedule_t_SOURCES = src/optim/test/schedule.c
src_optim_test_schedule_t_LDADD = $(OPTIM_LIBS) $(CMOCKA_LIBS)
endif

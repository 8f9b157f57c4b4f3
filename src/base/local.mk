# src/base: what everything stands on
noinst_LIBRARIES += src/base/libbase.a
src_base_libbase_a_SOURCES = \
	src/base/arena.c src/base/arena.h \
	src/base/blocks.c src/base/blocks.h \
	src/base/clock.c src/base/clock.h \
	src/base/core.c src/base/core.h \
	src/base/crash.c src/base/crash.h \
	src/base/dtype.c src/base/dtype.h \
	src/base/err.c src/base/err.h \
	src/base/file.c src/base/file.h \
	src/base/hash.c src/base/hash.h \
	src/base/json.c src/base/json.h \
	src/base/log.c src/base/log.h \
	src/base/mem.c src/base/mem.h \
	src/base/progress.c src/base/progress.h \
	src/base/rng.c src/base/rng.h \
	src/base/safe.c src/base/safe.h \
	src/base/signal.c src/base/signal.h \
	src/base/str.c src/base/str.h \
	src/base/thread.c src/base/thread.h \
	src/base/times.c src/base/times.h
BASE_LIBS = src/base/libbase.a $(JANSSON_LIBS) $(XXHASH_LIBS) -lpthread -lm

if HAVE_CMOCKA
BASE_TESTS = src/base/test/base.t
check_PROGRAMS += $(BASE_TESTS)
TESTS += $(BASE_TESTS)
src_base_test_base_t_SOURCES = src/base/test/base.c src/base/tap.h
src_base_test_base_t_LDADD = $(BASE_LIBS) $(CMOCKA_LIBS)
endif

# Programs that die, placed anywhere and always at the same place
check_PROGRAMS += src/base/test/fault src/base/test/fault-fixed
src_base_test_fault_SOURCES = src/base/test/fault.c
src_base_test_fault_CFLAGS = $(AM_CFLAGS) -g
src_base_test_fault_LDADD = $(BASE_LIBS)
src_base_test_fault_fixed_SOURCES = src/base/test/fault.c
src_base_test_fault_fixed_CFLAGS = $(AM_CFLAGS) -g -fno-pie
src_base_test_fault_fixed_LDFLAGS = $(AM_LDFLAGS) -no-pie
src_base_test_fault_fixed_LDADD = $(BASE_LIBS)

# src/ckpt: models and training state on disk
noinst_LIBRARIES += src/ckpt/libhf.a src/ckpt/libckptio.a \
	src/ckpt/libckpt.a
src_ckpt_libhf_a_SOURCES = \
	src/ckpt/hf.h src/ckpt/hf_check.c src/ckpt/hf_load.c \
	src/ckpt/hf_save.c src/ckpt/merge.c \
	src/ckpt/peft.c src/ckpt/peft.h
HF_LIBS = src/ckpt/libhf.a src/format/libformat.a $(MODELCONF_LIBS)

# What needs no device: the login tool uses it
src_ckpt_libckptio_a_SOURCES = src/ckpt/ckpt.h src/ckpt/load.c \
	src/ckpt/load.h src/ckpt/read.c src/ckpt/reshard.c src/ckpt/reshard.h \
	src/ckpt/runs.c src/ckpt/runs.h src/ckpt/shard.c src/ckpt/tree.c \
	src/ckpt/tree.h src/ckpt/write.c
CKPTIO_LIBS = src/ckpt/libckptio.a $(HF_LIBS)

src_ckpt_libckpt_a_SOURCES = src/ckpt/restore.c
CKPT_LIBS = src/ckpt/libckpt.a $(CKPTIO_LIBS) $(OPTIM_LIBS) $(HF_LIBS)

if HAVE_CMOCKA
CKPT_TESTS = src/ckpt/test/hf.t src/ckpt/test/read.t src/ckpt/test/shard.t \
	src/ckpt/test/stories.t
check_PROGRAMS += $(CKPT_TESTS)
TESTS += $(CKPT_TESTS)
src_ckpt_test_hf_t_SOURCES = src/ckpt/test/hf.c
src_ckpt_test_hf_t_LDADD = $(HF_LIBS) $(CMOCKA_LIBS)
src_ckpt_test_read_t_SOURCES = src/ckpt/test/read.c
src_ckpt_test_read_t_LDADD = $(CKPT_LIBS) $(CMOCKA_LIBS)
src_ckpt_test_shard_t_SOURCES = src/ckpt/test/shard.c
src_ckpt_test_shard_t_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
src_ckpt_test_shard_t_LDADD = $(CKPT_LIBS) $(CMOCKA_LIBS)
src_ckpt_test_stories_t_SOURCES = src/ckpt/test/stories.c
src_ckpt_test_stories_t_LDADD = $(HF_LIBS) $(CMOCKA_LIBS)
endif

noinst_PROGRAMS += src/ckpt/bench/bench-ckpt
src_ckpt_bench_bench_ckpt_SOURCES = src/ckpt/bench/ckpt.c
src_ckpt_bench_bench_ckpt_LDADD = $(CKPT_LIBS)
BENCHES += bench-ckpt
EXTRA_DIST += src/ckpt/bench/bench.sh src/ckpt/bench/bench.py
.PHONY: bench-ckpt
bench-ckpt: src/ckpt/bench/bench-ckpt$(EXEEXT) burnish-train$(EXEEXT)
	@$(SHELL) $(srcdir)/src/ckpt/bench/bench.sh \
		src/ckpt/bench/bench-ckpt$(EXEEXT) ./burnish-train$(EXEEXT) \
		$(BENCH_CKPT_MIB)

# src/data: text files to token sets and batches
noinst_LIBRARIES += src/data/libdata.a
src_data_libdata_a_SOURCES = \
	src/data/batch.c src/data/batch.h \
	src/data/cache.c src/data/cache.h \
	src/data/data.h \
	src/data/detect.c \
	src/data/files.c \
	src/data/maker.c src/data/maker.h src/data/maker_impl.h \
	src/data/maker_chat.c \
	src/data/meta.c \
	src/data/order.c src/data/order.h \
	src/data/held.c \
	src/data/peek.c \
	src/data/pipeline.c \
	src/data/reader.c src/data/reader.h \
	src/data/recipe.c \
	src/data/row.h src/data/row_csv.c src/data/row_json.c \
	src/data/show.c \
	src/data/source.c src/data/source.h \
	src/data/split.c \
	src/data/tokens.c src/data/tokens_impl.h \
	src/data/worker.c \
	src/data/write.h src/data/writer.c
DATA_LIBS = src/data/libdata.a $(CHAT_LIBS) $(TEXT_LIBS) $(ZLIB_LIBS) $(ZSTD_LIBS) \
	$(BASE_LIBS)

if HAVE_CMOCKA
DATA_TESTS = src/data/test/batch.t src/data/test/golden.t \
	src/data/test/row.t src/data/test/tokens.t \
	src/data/test/tokens_cache.t src/data/test/tokens_files.t
check_PROGRAMS += $(DATA_TESTS)
TESTS += $(DATA_TESTS)
src_data_test_batch_t_SOURCES = src/data/test/batch.c
src_data_test_batch_t_LDADD = $(DATA_LIBS) $(CMOCKA_LIBS)
src_data_test_golden_t_SOURCES = src/data/test/golden.c src/data/test/util.h
src_data_test_golden_t_LDADD = $(DATA_LIBS) $(CMOCKA_LIBS)
src_data_test_row_t_SOURCES = src/data/test/row.c
src_data_test_row_t_LDADD = $(DATA_LIBS) $(CMOCKA_LIBS)
SETS_H = src/data/test/sets.h src/data/test/util.h
src_data_test_tokens_t_SOURCES = src/data/test/tokens.c $(SETS_H)
src_data_test_tokens_t_LDADD = $(DATA_LIBS) $(CMOCKA_LIBS)
src_data_test_tokens_cache_t_SOURCES = src/data/test/tokens_cache.c $(SETS_H)
src_data_test_tokens_cache_t_LDADD = $(DATA_LIBS) $(CMOCKA_LIBS)
src_data_test_tokens_files_t_SOURCES = src/data/test/tokens_files.c $(SETS_H)
src_data_test_tokens_files_t_LDADD = $(DATA_LIBS) $(CMOCKA_LIBS)
endif

noinst_PROGRAMS += src/data/bench/bench-data
src_data_bench_bench_data_SOURCES = src/data/bench/data.c
src_data_bench_bench_data_LDADD = $(DATA_LIBS)
EXTRA_DIST += src/data/bench/bench.py

# The peers come from PyPI into a virtual environment of the build.
.PHONY: bench-data
BENCHES += bench-data
bench-data: src/data/bench/bench-data$(EXEEXT)
	test -x bench-venv-data/bin/python3 || { \
		python3 -m venv bench-venv-data && \
		bench-venv-data/bin/pip install -q datasets tokenizers; }
	bench-venv-data/bin/python3 $(srcdir)/src/data/bench/bench.py \
		src/data/bench/bench-data$(EXEEXT) \
		$${BN_SHARED:-$(srcdir)/../shared}/inputs/tokenizers

# Not part of 'all': needs clang, runs for FUZZ_SECONDS.
EXTRA_DIST += src/data/fuzz/rows.c
FUZZ_ROWS = src/data/fuzz/rows.c src/data/row_json.c src/data/row_csv.c \
	src/text/simd.c $(filter %.c,$(src_base_libbase_a_SOURCES))
src/data/fuzz/rows: $(FUZZ_ROWS)
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(FUZZ_CC) $(DEFS) $(AM_CPPFLAGS) \
		$(CPPFLAGS) -o $@ $(filter %.c,$^) $(JANSSON_LIBS) \
		$(XXHASH_LIBS) -lpthread -lm
FUZZERS += src/data/fuzz/rows
EXTRA_DIST += src/data/fuzz/json.dict

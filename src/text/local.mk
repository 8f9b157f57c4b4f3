# src/text: tokenizer
noinst_LIBRARIES += src/text/libtext.a
src_text_libtext_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) \
	$(PCRE2_CFLAGS) $(UTF8PROC_CFLAGS) $(XXHASH_CFLAGS)
src_text_libtext_a_SOURCES = \
	src/text/added.c src/text/added.h \
	src/text/bpe.c src/text/bpe.h \
	src/text/bpe_impl.h \
	src/text/bpe_merge.c \
	src/text/bpe_seam.c \
	src/text/bpe_small.c \
	src/text/bpe_windows.c \
	src/text/bpe_word.c \
	src/text/bytechar.c \
	src/text/decoder.c src/text/decoder.h \
	src/text/decoder_parse.c \
	src/text/encoder.c src/text/encoder_impl.h \
	src/text/hot.h src/text/hot_block.h \
	src/text/normalizer.c src/text/normalizer.h \
	src/text/pattern.c src/text/pattern.h \
	src/text/plan.c \
	src/text/post.c \
	src/text/pretok.c src/text/pretok.h \
	src/text/pretok_parse.c \
	src/text/scan.c src/text/scan.h \
	src/text/simd.c src/text/simd.h \
	src/text/tokenizer.c src/text/tokenizer.h \
	src/text/tokenizer_config.c \
	src/text/tokenizer_impl.h \
	src/text/uclass.c src/text/uclass.h \
	src/text/wordcache.c src/text/wordcache.h \
	src/text/words.c
TEXT_V3 =
if HAVE_V3
noinst_LIBRARIES += src/text/libtextv3.a
src_text_libtextv3_a_CPPFLAGS = $(src_text_libtext_a_CPPFLAGS)
src_text_libtextv3_a_CFLAGS = $(AM_CFLAGS) -mavx2 -mbmi -mbmi2 -maes -mpopcnt
src_text_libtextv3_a_SOURCES = src/text/words_v3.c
TEXT_V3 += src/text/libtextv3.a
else
EXTRA_DIST += src/text/words_v3.c
endif
TEXT_LIBS = src/text/libtext.a $(TEXT_V3) $(PCRE2_LIBS) $(UTF8PROC_LIBS) $(BASE_LIBS)


# Chat templates
noinst_LIBRARIES += src/text/libchat.a
src_text_libchat_a_SOURCES = \
	src/text/chat.c src/text/chat.h \
	src/text/chat_spans.c \
	src/text/jinja.h src/text/jinja_case.inc \
	src/text/jinja_args.c \
	src/text/jinja_eval.c \
	src/text/jinja_exec.c \
	src/text/jinja_expr.c \
	src/text/jinja_filters.c \
	src/text/jinja_format.c \
	src/text/jinja_funcs.c \
	src/text/jinja_json.c \
	src/text/jinja_lex.c \
	src/text/jinja_loop.c \
	src/text/jinja_mem.c \
	src/text/jinja_methods.c \
	src/text/jinja_ops.c \
	src/text/jinja_parse.c src/text/jinja_parse.h \
	src/text/jinja_primary.c \
	src/text/jinja_print.c \
	src/text/jinja_scope.c \
	src/text/jinja_search.c \
	src/text/jinja_seqfilters.c \
	src/text/jinja_sort.c \
	src/text/jinja_tests.c \
	src/text/jinja_unicode.c \
	src/text/jinja_value.c
CHAT_LIBS = src/text/libchat.a $(UTF8PROC_LIBS) $(BASE_LIBS)
EXTRA_DIST += \
	t/data/chat/cases.json \
	t/data/chat/chatml.jinja \
	t/data/chat/expressions.json \
	t/data/chat/expressions.txt \
	t/data/chat/gemma.jinja \
	t/data/chat/golden.json \
	t/data/chat/llama31.jinja \
	t/data/chat/mistral.jinja \
	t/data/chat/qwen25.jinja \
	t/data/chat/zephyr.jinja \
	t/peers/chat_golden.py \
	src/text/fuzz/chat.c

if HAVE_CMOCKA
CHAT_TESTS = src/text/test/chat.t src/text/test/chat_errors.t \
	src/text/test/chat_spans.t
check_PROGRAMS += $(CHAT_TESTS)
TESTS += $(CHAT_TESTS)
src_text_test_chat_t_SOURCES = src/text/test/chat.c src/text/test/chat.h
src_text_test_chat_t_LDADD = $(CHAT_LIBS) $(CMOCKA_LIBS)
src_text_test_chat_errors_t_SOURCES = src/text/test/chat_errors.c \
	src/text/test/chat.h
src_text_test_chat_errors_t_LDADD = $(CHAT_LIBS) $(CMOCKA_LIBS)
src_text_test_chat_spans_t_SOURCES = src/text/test/chat_spans.c \
	src/text/test/chat.h
src_text_test_chat_spans_t_LDADD = $(CHAT_LIBS) $(CMOCKA_LIBS)
endif
noinst_PROGRAMS += src/text/bench/bench-encode
src_text_bench_bench_encode_SOURCES = src/text/bench/encode.c
src_text_bench_bench_encode_LDADD = $(TEXT_LIBS)

if HAVE_CMOCKA
TEXT_TOKENIZER_TESTS = src/text/test/merge.t src/text/test/tokenizer.t
check_PROGRAMS += $(TEXT_TOKENIZER_TESTS)
TESTS += $(TEXT_TOKENIZER_TESTS)
src_text_test_merge_t_CPPFLAGS = $(src_text_libtext_a_CPPFLAGS)
src_text_test_merge_t_SOURCES = src/text/test/merge.c
src_text_test_merge_t_LDADD = $(TEXT_LIBS) $(CMOCKA_LIBS)
src_text_test_tokenizer_t_CPPFLAGS = $(src_text_libtext_a_CPPFLAGS)
src_text_test_tokenizer_t_SOURCES = src/text/test/tokenizer.c
src_text_test_tokenizer_t_LDADD = $(TEXT_LIBS) $(CMOCKA_LIBS)
if HAVE_V3
check_PROGRAMS += src/text/test/block.t
TESTS += src/text/test/block.t
src_text_test_block_t_CPPFLAGS = $(src_text_libtext_a_CPPFLAGS)
src_text_test_block_t_CFLAGS = $(src_text_libtextv3_a_CFLAGS)
src_text_test_block_t_SOURCES = src/text/test/block.c
src_text_test_block_t_LDADD = $(TEXT_LIBS) $(CMOCKA_LIBS)
else
EXTRA_DIST += src/text/test/block.c
endif
endif

BENCHES += bench-text
EXTRA_DIST += src/text/bench/bench.sh src/text/bench/bench.py
.PHONY: bench-text
bench-text: src/text/bench/bench-encode
	$(SHELL) $(srcdir)/src/text/bench/bench.sh $<

FUZZERS += src/text/fuzz/tokenizer src/text/fuzz/chat
src/text/fuzz/chat: src/text/fuzz/chat.c $(src_text_libchat_a_SOURCES) \
	$(src_base_libbase_a_SOURCES)
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(FUZZ_CC) $(DEFS) $(AM_CPPFLAGS) \
		$(CPPFLAGS) -o $@ $(filter %.c,$^) $(UTF8PROC_LIBS) \
		$(JANSSON_LIBS) $(XXHASH_LIBS) -lpthread -lm
EXTRA_DIST += src/text/fuzz/tokenizer.c
TEXT_FUZZ_FILES = src/text/fuzz/tokenizer.c $(src_text_libtext_a_SOURCES) \
	src/text/words_v3.c $(src_base_libbase_a_SOURCES)
src/text/fuzz/tokenizer: $(TEXT_FUZZ_FILES)
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(FUZZ_CC) $(DEFS) \
		$(src_text_libtext_a_CPPFLAGS) $(CPPFLAGS) $(TEXT_FUZZ_V3) \
		-o $@ $(filter %.c,$^) $(PCRE2_LIBS) $(UTF8PROC_LIBS) \
		$(JANSSON_LIBS) $(XXHASH_LIBS) -lpthread -lm
if HAVE_V3
TEXT_FUZZ_V3 = -mavx2 -mbmi -mbmi2 -maes -mpopcnt
endif

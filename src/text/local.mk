# src/text: tokenizer
noinst_LIBRARIES += src/text/libtext.a
src_text_libtext_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) \
	$(PCRE2_CFLAGS) $(UTF8PROC_CFLAGS) $(XXHASH_CFLAGS)
src_text_libtext_a_SOURCES = \
	src/text/added.c src/text/added.h \
	src/text/bpe.c src/text/bpe.h \
	src/text/bpe_merge.c \
	src/text/bytechar.c \
	src/text/decoder.c src/text/decoder.h \
	src/text/decoder_parse.c \
	src/text/encoder.c \
	src/text/normalizer.c src/text/normalizer.h \
	src/text/pattern.c src/text/pattern.h \
	src/text/plan.c \
	src/text/post.c \
	src/text/pretok.c src/text/pretok.h \
	src/text/pretok_parse.c \
	src/text/scan.c src/text/scan.h \
	src/text/tokenizer.c src/text/tokenizer.h \
	src/text/tokenizer_config.c \
	src/text/tokenizer_impl.h \
	src/text/uclass.c src/text/uclass.h \
	src/text/wordcache.c src/text/wordcache.h
TEXT_LIBS = src/text/libtext.a $(PCRE2_LIBS) $(UTF8PROC_LIBS) $(BASE_LIBS)

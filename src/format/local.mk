# src/format: bytes to named tensors and back
noinst_LIBRARIES += src/format/libformat.a
src_format_libformat_a_SOURCES = \
	src/format/gguf.c src/format/gguf.h src/format/gguf_quant.c \
	src/format/llama2c.c src/format/llama2c.h \
	src/format/safetensors.c src/format/safetensors.h \
	src/format/safetensors_write.c \
	src/format/pickle.c src/format/pickle.h \
	src/format/tensors.c src/format/tensors.h \
	src/format/torch.c src/format/torch.h \
	src/format/zip.c src/format/zip.h
FORMAT_LIBS = src/format/libformat.a $(TENSOR_LIBS)

if HAVE_CMOCKA
FORMAT_TESTS = src/format/test/gguf.t src/format/test/llama2c.t \
	src/format/test/safetensors.t \
	src/format/test/torch.t
check_PROGRAMS += $(FORMAT_TESTS)
TESTS += $(FORMAT_TESTS)
src_format_test_gguf_t_SOURCES = src/format/test/gguf.c
src_format_test_gguf_t_LDADD = $(FORMAT_LIBS) $(CMOCKA_LIBS)
src_format_test_llama2c_t_SOURCES = src/format/test/llama2c.c
src_format_test_llama2c_t_LDADD = $(FORMAT_LIBS) $(CMOCKA_LIBS)
src_format_test_safetensors_t_SOURCES = src/format/test/safetensors.c
src_format_test_safetensors_t_LDADD = $(FORMAT_LIBS) $(CMOCKA_LIBS)
src_format_test_torch_t_SOURCES = src/format/test/torch.c
src_format_test_torch_t_LDADD = $(FORMAT_LIBS) $(CMOCKA_LIBS)
endif

# Fuzz targets are built by clang, from sources, for 'make fuzz-smoke' alone.
FUZZERS += src/format/fuzz/formats
EXTRA_DIST += src/format/fuzz/formats.c
FUZZ_CC = clang -std=gnu17 -g -O1 -fsanitize=fuzzer,address,undefined
FUZZ_FILES = src/format/fuzz/formats.c $(src_format_libformat_a_SOURCES) \
	$(src_tensor_libtensor_a_SOURCES) $(src_base_libbase_a_SOURCES)
src/format/fuzz/formats: $(FUZZ_FILES)
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(FUZZ_CC) $(DEFS) $(AM_CPPFLAGS) \
		$(CPPFLAGS) -o $@ $(filter %.c,$^) $(JANSSON_LIBS) \
		$(XXHASH_LIBS) -lpthread -lm

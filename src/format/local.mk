# src/format: bytes to named tensors and back
noinst_LIBRARIES += src/format/libformat.a
src_format_libformat_a_SOURCES = \
	src/format/gguf.c src/format/gguf.h src/format/gguf_quant.c \
	src/format/safetensors.c src/format/safetensors.h \
	src/format/safetensors_write.c \
	src/format/pickle.c src/format/pickle.h \
	src/format/tensors.c src/format/tensors.h \
	src/format/torch.c src/format/torch.h \
	src/format/zip.c src/format/zip.h
FORMAT_LIBS = src/format/libformat.a $(TENSOR_LIBS)

if HAVE_CMOCKA
FORMAT_TESTS = src/format/test/gguf.t src/format/test/safetensors.t \
	src/format/test/torch.t
check_PROGRAMS += $(FORMAT_TESTS)
TESTS += $(FORMAT_TESTS)
src_format_test_gguf_t_SOURCES = src/format/test/gguf.c
src_format_test_gguf_t_LDADD = $(FORMAT_LIBS) $(CMOCKA_LIBS)
src_format_test_safetensors_t_SOURCES = src/format/test/safetensors.c
src_format_test_safetensors_t_LDADD = $(FORMAT_LIBS) $(CMOCKA_LIBS)
src_format_test_torch_t_SOURCES = src/format/test/torch.c
src_format_test_torch_t_LDADD = $(FORMAT_LIBS) $(CMOCKA_LIBS)
endif

# src/convert: declared layouts between checkpoints of other worlds and ours
noinst_LIBRARIES += src/convert/libconvert.a
src_convert_libconvert_a_SOURCES = \
	src/convert/gguf_config.c \
	src/convert/gguf_tokenizer.c src/convert/gguf_tokenizer.h \
	src/convert/layout.c src/convert/layout.h \
	src/convert/layout_config.c src/convert/layout_file.c \
	src/convert/run.c src/convert/run.h \
	src/convert/spm_merges.c src/convert/spm_merges.h
CONVERT_LIBS = src/convert/libconvert.a $(HF_LIBS) $(YAML_LIBS)

layoutsdir = $(pkgdatadir)/templates/layouts
dist_layouts_DATA = \
	templates/layouts/gguf-llama.yaml \
	templates/layouts/gguf-qwen.yaml \
	templates/layouts/hf-torch.yaml \
	templates/layouts/llama2c.yaml \
	templates/layouts/megatron.yaml \
	templates/layouts/meta.yaml \
	templates/layouts/phi3.yaml \
	templates/layouts/te-grouped.yaml \
	templates/layouts/te.yaml

if HAVE_CMOCKA
CONVERT_TESTS = src/convert/test/layout.t src/convert/test/run.t
check_PROGRAMS += $(CONVERT_TESTS)
TESTS += $(CONVERT_TESTS)
src_convert_test_layout_t_SOURCES = src/convert/test/layout.c
src_convert_test_layout_t_LDADD = $(CONVERT_LIBS) $(CMOCKA_LIBS)
src_convert_test_run_t_SOURCES = src/convert/test/run.c
src_convert_test_run_t_LDADD = $(CONVERT_LIBS) $(CMOCKA_LIBS)
endif

TESTS += t/t7100-convert.t t/t7101-gguf-tokenizer.t
EXTRA_DIST += t/t7100-convert.t t/t7101-gguf-tokenizer.t \
	t/convert/make_gguf.py

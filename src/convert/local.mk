# src/convert: declared layouts between checkpoints of other worlds and ours
noinst_LIBRARIES += src/convert/libconvert.a
src_convert_libconvert_a_SOURCES = \
	src/convert/gguf_config.c \
	src/convert/gguf_tokenizer.c src/convert/gguf_tokenizer.h \
	src/convert/layout.c src/convert/layout.h \
	src/convert/layout_config.c src/convert/layout_file.c \
	src/convert/layout_piece.c src/convert/layout_piece.h \
	src/convert/layout_rows.c \
	src/convert/merge.c src/convert/merge.h \
	src/convert/prepare.c \
	src/convert/probe.c src/convert/probe.h \
	src/convert/run.c src/convert/run.h \
	src/convert/same_config.c \
	src/convert/spm_merges.c src/convert/spm_merges.h \
	src/convert/stats.c \
	src/convert/verify.c src/convert/verify.h \
	src/convert/verify_run.c src/convert/verify_run.h
CONVERT_LIBS = src/convert/libconvert.a $(HF_LIBS) $(CHAT_LIBS) $(TEXT_LIBS) \
	$(YAML_LIBS)

layoutsdir = $(pkgdatadir)/templates/layouts
dist_layouts_DATA = \
	templates/layouts/gguf-llama.yaml \
	templates/layouts/gguf-qwen.yaml \
	templates/layouts/hf-fp8.yaml \
	templates/layouts/hf-torch.yaml \
	templates/layouts/llama2c.yaml \
	templates/layouts/megatron-1p.yaml \
	templates/layouts/megatron.yaml \
	templates/layouts/meta.yaml \
	templates/layouts/phi3.yaml \
	templates/layouts/te-fp8.yaml \
	templates/layouts/te-grouped.yaml \
	templates/layouts/te-layer-fused.yaml \
	templates/layouts/te-layer.yaml \
	templates/layouts/te.yaml

if HAVE_CMOCKA
CONVERT_TESTS = src/convert/test/layout.t src/convert/test/probe.t \
	src/convert/test/run.t src/convert/test/stats.t \
	src/convert/test/verify.t
check_PROGRAMS += $(CONVERT_TESTS)
TESTS += $(CONVERT_TESTS)
src_convert_test_layout_t_SOURCES = src/convert/test/layout.c
src_convert_test_layout_t_LDADD = $(CONVERT_LIBS) $(CMOCKA_LIBS)
src_convert_test_probe_t_SOURCES = src/convert/test/probe.c
src_convert_test_probe_t_LDADD = $(CONVERT_LIBS) $(CMOCKA_LIBS)
src_convert_test_stats_t_SOURCES = src/convert/test/stats.c
src_convert_test_stats_t_LDADD = $(CONVERT_LIBS) $(CMOCKA_LIBS)
src_convert_test_run_t_SOURCES = src/convert/test/run.c
src_convert_test_run_t_LDADD = $(CONVERT_LIBS) $(CMOCKA_LIBS)
src_convert_test_verify_t_SOURCES = src/convert/test/verify.c
src_convert_test_verify_t_LDADD = $(CONVERT_LIBS) $(CMOCKA_LIBS)
endif

convert_sharness = t/t7100-convert.t t/t7101-gguf-tokenizer.t \
	t/t7102-convert-verify.t t/t7103-convert-formats.t
TESTS += $(convert_sharness)
EXTRA_DIST += $(convert_sharness) t/convert/edit.py t/convert/make_gguf.py

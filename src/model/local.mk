# src/model: what a model is
noinst_LIBRARIES += src/model/libmodelconf.a
src_model_libmodelconf_a_SOURCES = \
	src/model/config.c src/model/config.h \
	src/model/config_rope.c src/model/config_rope.h \
	src/model/config_write.c \
	src/model/init.c src/model/init.h \
	src/model/lora.c src/model/lora.h src/model/lora_config.c \
	src/model/params.c src/model/params.h \
	src/model/shard.c src/model/shard.h \
	src/model/rope.c src/model/rope.h \
	src/model/seq.c src/model/seq.h
MODELCONF_LIBS = src/model/libmodelconf.a $(TENSOR_LIBS)

noinst_LIBRARIES += src/model/libmodel.a
src_model_libmodel_a_SOURCES = \
	src/model/acts.c \
	src/model/adapt.c src/model/adapt.h \
	src/model/cache.c src/model/cache.h \
	src/model/decode.c src/model/decode.h \
	src/model/forward.c \
	src/model/head.c src/model/head.h \
	src/model/layer.c src/model/layer.h \
	src/model/model.h \
	src/model/sample.c src/model/sample.h \
	src/model/weights.c
MODEL_LIBS = src/model/libmodel.a $(MODELCONF_LIBS) $(MESH_LIBS) \
	$(LOSS_LIBS) $(OPS_LIBS)

if HAVE_CMOCKA
MODELCONF_TESTS = src/model/test/config.t src/model/test/params.t \
	src/model/test/rope.t
check_PROGRAMS += $(MODELCONF_TESTS)
TESTS += $(MODELCONF_TESTS)
src_model_test_config_t_SOURCES = src/model/test/config.c
src_model_test_config_t_LDADD = $(MODELCONF_LIBS) $(CMOCKA_LIBS)
src_model_test_params_t_SOURCES = src/model/test/params.c
src_model_test_params_t_LDADD = $(MODELCONF_LIBS) $(CMOCKA_LIBS)
src_model_test_rope_t_SOURCES = src/model/test/rope.c
src_model_test_rope_t_LDADD = $(MODELCONF_LIBS) $(CMOCKA_LIBS)
endif
if HAVE_CMOCKA
MODEL_TESTS = src/model/test/decode.t src/model/test/golden.t \
	src/model/test/lora.t src/model/test/lora_names.t \
	src/model/test/sample.t
check_PROGRAMS += $(MODEL_TESTS)
TESTS += $(MODEL_TESTS)
src_model_test_decode_t_SOURCES = src/model/test/decode.c
src_model_test_decode_t_LDADD = $(MODEL_LIBS) $(DATA_LIBS) $(HF_LIBS) \
	$(CMOCKA_LIBS)
src_model_test_sample_t_SOURCES = src/model/test/sample.c
src_model_test_sample_t_LDADD = $(MODEL_LIBS) $(CMOCKA_LIBS)
src_model_test_lora_names_t_SOURCES = src/model/test/lora_names.c
src_model_test_lora_names_t_LDADD = $(MODEL_LIBS) $(CMOCKA_LIBS)
src_model_test_lora_t_SOURCES = src/model/test/lora.c \
	src/model/test/lora_fixture.c src/model/test/lora_fixture.h
src_model_test_lora_t_LDADD = $(MODEL_LIBS) $(DATA_LIBS) $(HF_LIBS) \
	$(CMOCKA_LIBS)
src_model_test_golden_t_SOURCES = src/model/test/golden.c
src_model_test_golden_t_LDADD = $(MODEL_LIBS) $(DATA_LIBS) $(HF_LIBS) \
	$(CMOCKA_LIBS)
endif

# src/cmd: the mains
noinst_LIBRARIES += src/cmd/libcmd.a
src_cmd_libcmd_a_SOURCES = src/cmd/opts.c src/cmd/opts.h

check_PROGRAMS += src/cmd/conf-check
src_cmd_conf_check_SOURCES = src/cmd/conf-check.c
src_cmd_conf_check_LDADD = src/cmd/libcmd.a $(CONF_LIBS)

if HAVE_CMOCKA
CMD_TESTS = src/cmd/test/opts.t
check_PROGRAMS += $(CMD_TESTS)
TESTS += $(CMD_TESTS)
src_cmd_test_opts_t_SOURCES = src/cmd/test/opts.c
src_cmd_test_opts_t_LDADD = src/cmd/libcmd.a $(CONF_LIBS) $(CMOCKA_LIBS)
endif
# src/cmd: the mains. A command adds its file here and its row in burnish.c.
bin_PROGRAMS += burnish
burnish_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(YAML_CFLAGS) \
	$(PCRE2_CFLAGS) $(UTF8PROC_CFLAGS) $(XXHASH_CFLAGS) $(ZLIB_CFLAGS) \
	$(ZSTD_CFLAGS)
burnish_SOURCES = \
	src/cmd/burnish.c src/cmd/cmd.h \
	src/cmd/cmd_ckpt.c \
	src/cmd/cmd_clean.c \
	src/cmd/cmd_convert.c \
	src/cmd/cmd_decode.c \
	src/cmd/cmd_encode.c \
	src/cmd/cmd_lora.c \
	src/cmd/cmd_mps.c \
	src/cmd/cmd_doctor.c src/cmd/doctor.c src/cmd/doctor.h \
	src/cmd/doctor_build.c src/cmd/doctor_core.c \
	src/cmd/doctor_launch.c src/cmd/doctor_system.c \
	src/cmd/bundle.c src/cmd/mask.c src/cmd/mask.h \
	src/cmd/tar.c src/cmd/tar.h \
	src/cmd/cmd_plan.c \
	src/cmd/cmd_sweep.c \
	src/cmd/cmd_tokenize.c \
	src/cmd/cmd_render.c \
	src/cmd/lines.c src/cmd/lines.h
burnish_LDADD = src/cmd/libcmd.a $(SWEEP_LIBS) $(CKPTIO_LIBS) $(PLAN_LIBS) \
	$(CONVERT_LIBS) $(METRICS_LIBS) $(DATA_LIBS) $(YAML_LIBS) \
	$(PCRE2_LIBS) $(UTF8PROC_LIBS) $(ZLIB_LIBS) $(ZSTD_LIBS) -ldl

bin_PROGRAMS += burnish-train
burnish_train_SOURCES = src/cmd/burnish-train.c
burnish_train_LDADD = src/cmd/libcmd.a $(TRAIN_LIBS) $(DEVICE_LIBS)

# The same over the emulated device, for tests: device: cuda without a GPU
check_PROGRAMS += src/cmd/burnish-train-emu
src_cmd_burnish_train_emu_SOURCES = src/cmd/burnish-train.c
src_cmd_burnish_train_emu_LDADD = src/cmd/libcmd.a $(TRAIN_LIBS) \
	$(DEVICE_EMU_LIBS)

bin_PROGRAMS += burnish-generate
burnish_generate_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
burnish_generate_SOURCES = src/cmd/burnish-generate.c \
	src/cmd/gen_report.c src/cmd/gen_report.h \
	src/cmd/lines.c src/cmd/lines.h \
	src/cmd/prompts.c src/cmd/prompts.h
burnish_generate_LDADD = src/cmd/libcmd.a $(TRAIN_LIBS) $(DEVICE_LIBS)

check_PROGRAMS += src/cmd/burnish-generate-emu
src_cmd_burnish_generate_emu_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
src_cmd_burnish_generate_emu_SOURCES = $(burnish_generate_SOURCES)
src_cmd_burnish_generate_emu_LDADD = src/cmd/libcmd.a $(TRAIN_LIBS) \
	$(DEVICE_EMU_LIBS)

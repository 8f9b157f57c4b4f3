# src/train: metrics, and the run itself
noinst_LIBRARIES += src/train/libmetrics.a src/train/libplan.a \
	src/train/libtrain.a
src_train_libmetrics_a_SOURCES = \
	src/train/asha.c src/train/asha.h \
	src/train/data_opts.c src/train/data_opts.h \
	src/train/metrics.c src/train/metrics.h \
	src/train/tb.c src/train/tb.h
nodist_src_train_libmetrics_a_SOURCES = src/train/event.pb-c.c
src_train_libmetrics_a_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
METRICS_LIBS = src/train/libmetrics.a $(PROTOBUF_C_LIBS) $(CONF_LIBS)

# Sizes without a device: the login tool uses it, so no MPI and no BLAS
src_train_libplan_a_SOURCES = src/train/sizes.c src/train/sizes.h \
	src/train/stages.c src/train/stages.h \
	src/train/plan.c src/train/plan.h
PLAN_LIBS = src/train/libplan.a src/optim/liboptim.a src/model/libmodel.a \
	$(MODELCONF_LIBS) src/mesh/libmesh.a src/comm/libcomm.a $(DATA_LIBS) \
	src/ops/libops.a $(KERNEL_LIBS)

src_train_libtrain_a_SOURCES = \
	src/train/device.c src/train/device.h \
	src/train/eval.c \
	src/train/flops.c \
	src/train/gen.c src/train/gen.h \
	src/train/graph.c src/train/graph.h \
	src/train/gen_eval.c src/train/gen_eval.h \
	src/train/gen_model.c \
	src/train/gen_text.c src/train/gen_text.h \
	src/train/hold.c src/train/hold.h \
	src/train/load.c src/train/load.h \
	src/train/meet.c src/train/meet.h \
	src/train/observe.c src/train/observe.h src/train/observe_print.c \
	src/train/peak.c src/train/peak.h \
	src/train/phase.c src/train/phase.h \
	src/train/ping.c src/train/ping.h \
	src/train/pipeline.c src/train/pipeline.h \
	src/train/record.c src/train/record.h \
	src/train/run.c src/train/run.h \
	src/train/clean.c src/train/export.c src/train/resume.c \
	src/train/save.c src/train/save.h \
	src/train/saved.c src/train/saved.h \
	src/train/score.c src/train/score.h \
	src/train/session.c src/train/session.h \
	src/train/stages_measured.c \
	src/train/rows.c src/train/rows.h \
	src/train/step.c src/train/step.h \
	src/train/trainer.c src/train/trainer.h \
	src/train/watch.c
TRAIN_LIBS = src/train/libtrain.a src/train/libplan.a $(METRICS_LIBS) $(CKPT_LIBS) \
	$(BOOT_LIBS) $(DATA_LIBS) $(CONF_LIBS)

BUILT_SOURCES += src/train/event.pb-c.h
CLEANFILES += src/train/event.pb-c.c src/train/event.pb-c.h
EXTRA_DIST += src/train/event.proto
src/train/event.pb-c.h: src/train/event.pb-c.c
src/train/event.pb-c.c: $(top_srcdir)/src/train/event.proto
	$(AM_V_GEN)$(MKDIR_P) src/train && $(PROTOC_C) \
		--proto_path=$(top_srcdir)/src --c_out=src \
		$(top_srcdir)/src/train/event.proto

if HAVE_CMOCKA
TRAIN_TESTS = src/train/test/asha.t src/train/test/gen_eval.t \
	src/train/test/gen_text.t src/train/test/metrics.t
check_PROGRAMS += $(TRAIN_TESTS)
TESTS += $(TRAIN_TESTS)
src_train_test_asha_t_SOURCES = src/train/test/asha.c
src_train_test_asha_t_LDADD = $(METRICS_LIBS) $(CMOCKA_LIBS)
src_train_test_gen_eval_t_SOURCES = src/train/test/gen_eval.c
src_train_test_gen_eval_t_LDADD = $(TRAIN_LIBS) $(OPS_CUDA_LIBS) $(CMOCKA_LIBS)
src_train_test_gen_text_t_SOURCES = src/train/test/gen_text.c
src_train_test_gen_text_t_LDADD = $(TRAIN_LIBS) $(DEVICE_LIBS) $(CMOCKA_LIBS)
src_train_test_metrics_t_SOURCES = src/train/test/metrics.c
src_train_test_metrics_t_LDADD = $(METRICS_LIBS) $(CMOCKA_LIBS)
endif

check_PROGRAMS += src/train/test/tb-write
src_train_test_tb_write_SOURCES = src/train/test/tb-write.c
src_train_test_tb_write_LDADD = $(METRICS_LIBS)

noinst_PROGRAMS += src/train/bench/bench-step
src_train_bench_bench_step_SOURCES = src/train/bench/step.c

# burnish-train with faults planted by the linker, for t/t5100-layouts.t
check_PROGRAMS += src/train/test/mutant
src_train_test_mutant_SOURCES = src/train/test/mutant.c \
	src/cmd/burnish-train.c
src_train_test_mutant_LDADD = src/cmd/libcmd.a $(TRAIN_LIBS) $(DEVICE_LIBS)
src_train_test_mutant_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=bn_mesh_split \
	-Wl,--wrap=bn_fold -Wl,--wrap=bn_pipeline_train \
	-Wl,--wrap=bn_optim_made -Wl,--wrap=bn_seq_rows \
	-Wl,--wrap=bn_optim_reduce -Wl,--wrap=bn_later_allgather \
	-Wl,--wrap=bn_head_queue

src_train_bench_bench_step_LDADD = $(TRAIN_LIBS) $(DEVICE_LIBS)

# Whole steps on a GPU (jobs/gpu-check.sh); over the emulator to see that it runs
check_PROGRAMS += src/train/bench/bench-cuda-step-emu
TESTS += src/train/bench/cuda-step-smoke.sh
EXTRA_DIST += src/train/bench/cuda-step-smoke.sh
src_train_bench_bench_cuda_step_emu_SOURCES = src/train/bench/cuda_step.c
src_train_bench_bench_cuda_step_emu_LDADD = $(OPTIM_LIBS) $(DATA_LIBS) \
	$(OPS_EMU_LIBS)

BENCHES += bench-step
EXTRA_DIST += src/train/bench/bench.sh src/train/bench/bench.py \
	src/train/bench/peer.py
BENCHES += bench-generate
EXTRA_DIST += src/train/bench/generate.sh src/train/bench/generate.py
.PHONY: bench-generate
bench-generate: burnish-generate
	@$(AM_TESTS_ENVIRONMENT) $(SHELL) $(srcdir)/src/train/bench/generate.sh \
		burnish-generate$(EXEEXT)
.PHONY: bench-step
bench-step: src/train/bench/bench-step
	@$(AM_TESTS_ENVIRONMENT) $(SHELL) $(srcdir)/src/train/bench/bench.sh \
		src/train/bench/bench-step$(EXEEXT) $(BENCH_STEP_NAMES)

if HAVE_CMOCKA
check_PROGRAMS += src/train/test/watch.t
TESTS += src/train/test/watch.t
src_train_test_watch_t_SOURCES = src/train/test/watch.c
src_train_test_watch_t_LDADD = $(TRAIN_LIBS) $(DEVICE_LIBS) $(CMOCKA_LIBS)
endif

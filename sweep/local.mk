# sweep: grid, check, template, submit, status, report, clean, mps
noinst_LIBRARIES += sweep/libsweep.a
sweep_libsweep_a_SOURCES = \
	sweep/build.c \
	sweep/check.c sweep/check.h sweep/check_impl.h \
	sweep/check_inputs.c sweep/check_slurm.c \
	sweep/child.c sweep/child.h \
	sweep/clean.c sweep/clean.h \
	sweep/directives.c \
	sweep/gpus.c \
	sweep/hand.c sweep/hand.h \
	sweep/here.c sweep/here.h \
	sweep/holders.c sweep/proc.c sweep/proc.h \
	sweep/html.c sweep/plot.c sweep/report.c sweep/report.h \
	sweep/launch.c sweep/local.c \
	sweep/metrics.c sweep/metrics.h \
	sweep/mps.c sweep/mps.h \
	sweep/points.c sweep/spec.c sweep/sweep.h \
	sweep/rank.c sweep/rank.h \
	sweep/script.c sweep/script.h \
	sweep/slurm.c sweep/slurm.h \
	sweep/slurmlib.c sweep/slurmlib.h \
	sweep/state.c sweep/state.h \
	sweep/status.c sweep/status.h \
	sweep/submit.c sweep/submit.h \
	sweep/template.c sweep/template.h
SWEEP_LIBS = sweep/libsweep.a $(PLAN_LIBS) $(METRICS_LIBS) $(HF_LIBS) $(TEXT_LIBS) $(CONF_LIBS)

if HAVE_CMOCKA
SWEEP_TESTS = sweep/test/gpus.t sweep/test/proc.t sweep/test/template.t
check_PROGRAMS += $(SWEEP_TESTS)
TESTS += $(SWEEP_TESTS)
sweep_test_gpus_t_SOURCES = sweep/test/gpus.c
sweep_test_gpus_t_LDADD = $(SWEEP_LIBS) $(CMOCKA_LIBS)
sweep_test_proc_t_SOURCES = sweep/test/proc.c
sweep_test_proc_t_LDADD = $(SWEEP_LIBS) $(CMOCKA_LIBS)
sweep_test_template_t_SOURCES = sweep/test/template.c
sweep_test_template_t_LDADD = $(SWEEP_LIBS) $(CMOCKA_LIBS)
endif

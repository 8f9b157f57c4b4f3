# sweep: grid, check, template, submit, status, report, clean, mps
noinst_LIBRARIES += sweep/libsweep.a
sweep_libsweep_a_SOURCES = \
	sweep/child.c sweep/child.h \
	sweep/directives.c \
	sweep/template.c sweep/template.h
SWEEP_LIBS = sweep/libsweep.a $(CONF_LIBS)

if HAVE_CMOCKA
SWEEP_TESTS = sweep/test/template.t
check_PROGRAMS += $(SWEEP_TESTS)
TESTS += $(SWEEP_TESTS)
sweep_test_template_t_SOURCES = sweep/test/template.c
sweep_test_template_t_LDADD = $(SWEEP_LIBS) $(CMOCKA_LIBS)
endif

# src/conf: YAML, one key table, the const run
noinst_LIBRARIES += src/conf/libconf.a
src_conf_libconf_a_SOURCES = \
	src/conf/conf.h src/conf/key.h \
	src/conf/foreign.c \
	src/conf/judge.c \
	src/conf/keys.c \
	src/conf/metric.c \
	src/conf/print.c \
	src/conf/problems.c src/conf/problems.h \
	src/conf/rules.c \
	src/conf/run.c \
	src/conf/value.c \
	src/conf/yaml.c src/conf/yaml.h
src_conf_libconf_a_CPPFLAGS = $(AM_CPPFLAGS) $(YAML_CFLAGS)
CONF_LIBS = src/conf/libconf.a $(YAML_LIBS) $(BASE_LIBS)

# The manual page comes from the table, so that it cannot drift.
noinst_PROGRAMS += src/conf/conf-man
src_conf_conf_man_SOURCES = src/conf/conf-man.c
src_conf_conf_man_LDADD = $(CONF_LIBS)
man_MANS += doc/burnish-run.5
CLEANFILES += doc/burnish-run.5
doc/burnish-run.5: src/conf/conf-man$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) doc && ./src/conf/conf-man$(EXEEXT) >$@.tmp && \
		mv $@.tmp $@

if HAVE_CMOCKA
CONF_TESTS = src/conf/test/conf.t src/conf/test/problems.t
check_PROGRAMS += $(CONF_TESTS)
TESTS += $(CONF_TESTS)
src_conf_test_conf_t_SOURCES = src/conf/test/conf.c src/conf/test/make.h
src_conf_test_conf_t_LDADD = $(CONF_LIBS) $(CMOCKA_LIBS)
src_conf_test_problems_t_SOURCES = src/conf/test/problems.c \
	src/conf/test/make.h
src_conf_test_problems_t_LDADD = $(CONF_LIBS) $(CMOCKA_LIBS)
endif

# src/conf: YAML, one key table, the const run
noinst_LIBRARIES += src/conf/libconf.a
src_conf_libconf_a_SOURCES = \
	src/conf/conf.h src/conf/key.h \
	src/conf/foreign.c \
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

check_PROGRAMS += src/conf/conf-check
src_conf_conf_check_SOURCES = src/conf/conf-check.c
src_conf_conf_check_LDADD = $(CONF_LIBS)

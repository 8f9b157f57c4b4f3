# src/loss: pure functions of per-sequence sums
noinst_LIBRARIES += src/loss/libloss.a
src_loss_libloss_a_SOURCES = src/loss/loss.h src/loss/orpo.c \
	src/loss/registry.c src/loss/sft.c
LOSS_LIBS = src/loss/libloss.a $(BASE_LIBS)

EXTRA_DIST += t/data/orpo-loss-values.json
if HAVE_CMOCKA
check_PROGRAMS += src/loss/test/loss.t
TESTS += src/loss/test/loss.t
src_loss_test_loss_t_SOURCES = src/loss/test/loss.c
src_loss_test_loss_t_LDADD = $(LOSS_LIBS) kernels/ref/libkref.a $(BASE_LIBS) \
	$(CMOCKA_LIBS)
endif

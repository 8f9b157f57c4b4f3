# src/boot: who am I
noinst_LIBRARIES += src/boot/libboot.a
src_boot_libboot_a_SOURCES = src/boot/boot.c src/boot/boot.h \
	src/boot/pmix.h src/boot/watch.h
if HAVE_PMIX
src_boot_libboot_a_SOURCES += src/boot/boot_pmix.c
endif
src_boot_libboot_a_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CFLAGS)
BOOT_LIBS = src/boot/libboot.a $(BASE_LIBS) $(PMIX_LIBS)

# One rank of t/t5000-boot.t
check_PROGRAMS += src/boot/test/rank
src_boot_test_rank_SOURCES = src/boot/test/rank.c
src_boot_test_rank_LDADD = $(BOOT_LIBS)

# src/boot: who am I
noinst_LIBRARIES += src/boot/libboot.a
src_boot_libboot_a_SOURCES = src/boot/boot.h src/boot/boot_self.c
BOOT_LIBS = src/boot/libboot.a $(BASE_LIBS)

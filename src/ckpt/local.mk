# src/ckpt: checkpoints
noinst_LIBRARIES += src/ckpt/libckpt.a
src_ckpt_libckpt_a_SOURCES = src/ckpt/ckpt.h src/ckpt/read.c \
	src/ckpt/reshard.c src/ckpt/write.c
CKPT_LIBS = src/ckpt/libckpt.a $(OPTIM_LIBS)

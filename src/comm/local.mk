# src/comm: collectives
noinst_LIBRARIES += src/comm/libcomm.a
src_comm_libcomm_a_SOURCES = src/comm/comm.c src/comm/comm.h \
	src/comm/comm_self.c
COMM_LIBS = src/comm/libcomm.a $(BASE_LIBS)

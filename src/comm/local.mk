# src/comm: collectives
noinst_LIBRARIES += src/comm/libcomm.a
src_comm_libcomm_a_SOURCES = src/comm/comm.c src/comm/comm.h \
	src/comm/comm_self.c \
	src/comm/fold.c src/comm/fold.h \
	src/comm/peer.c src/comm/peer.h \
	src/comm/world.h
if HAVE_MPI
src_comm_libcomm_a_SOURCES += src/comm/comm_mpi.c src/comm/world.c
endif
src_comm_libcomm_a_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
COMM_LIBS = src/comm/libcomm.a $(BASE_LIBS) $(MPI_LIBS)

# One rank of t/t5010-comm.t
check_PROGRAMS += src/comm/test/rank
src_comm_test_rank_SOURCES = src/comm/test/rank.c
src_comm_test_rank_LDADD = $(COMM_LIBS) $(BOOT_LIBS)

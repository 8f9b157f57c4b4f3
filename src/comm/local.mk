# src/comm: collectives
noinst_LIBRARIES += src/comm/libcomm.a
src_comm_libcomm_a_SOURCES = src/comm/comm.c src/comm/comm.h \
	src/comm/comm_self.c \
	src/comm/fold.c src/comm/fold.h \
	src/comm/peer.c src/comm/peer.h \
	src/comm/later.h src/comm/world.h
if HAVE_MPI
src_comm_libcomm_a_SOURCES += src/comm/comm_mpi.c src/comm/later.c src/comm/world.c
endif
src_comm_libcomm_a_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
COMM_LIBS = src/comm/libcomm.a $(BASE_LIBS) $(MPI_LIBS)

# One rank of t/t5010-comm.t
check_PROGRAMS += src/comm/test/rank
src_comm_test_rank_SOURCES = src/comm/test/rank.c
src_comm_test_rank_LDADD = $(COMM_LIBS) $(BOOT_LIBS)

# NCCL: for devices, for the emulator (over MPI; tests), or absent
NCCL_SOURCES = src/comm/nccl.h src/comm/nccl_state.h src/comm/nccl_emu.h \
	src/comm/comm_nccl.c src/comm/nccl_call.c src/comm/nccl_missing.c \
	src/comm/nccl_world.c
noinst_LIBRARIES += src/comm/libcomm_nccl.a src/comm/libcomm_nccl_emu.a
if HAVE_NCCL
src_comm_libcomm_nccl_a_SOURCES = $(NCCL_SOURCES)
src_comm_libcomm_nccl_a_CPPFLAGS = $(AM_CPPFLAGS) \
	$(CUDA_CPPFLAGS:-I%=-isystem %)
else
src_comm_libcomm_nccl_a_SOURCES = src/comm/nccl.h src/comm/nccl_none.c
src_comm_libcomm_nccl_a_CPPFLAGS = $(AM_CPPFLAGS)
endif
if HAVE_MPI
src_comm_libcomm_nccl_emu_a_SOURCES = $(NCCL_SOURCES) \
	src/comm/test/nccl_engine.c src/comm/test/nccl_engine.h \
	src/comm/test/nccl_mpi.c
else
src_comm_libcomm_nccl_emu_a_SOURCES = src/comm/nccl.h src/comm/nccl_none.c
endif
src_comm_libcomm_nccl_emu_a_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
# What programs that compute link last: a device, and its collectives
DEVICE_LIBS = src/comm/libcomm_nccl.a $(BOOT_LIBS) $(COMM_LIBS) \
	$(OPS_CUDA_LIBS)
DEVICE_EMU_LIBS = src/comm/libcomm_nccl_emu.a $(BOOT_LIBS) $(COMM_LIBS) \
	$(OPS_EMU_LIBS)

check_PROGRAMS += src/comm/test/rank-nccl
src_comm_test_rank_nccl_SOURCES = src/comm/test/rank.c \
	src/comm/test/over_device.c src/comm/test/over_device.h
src_comm_test_rank_nccl_CPPFLAGS = $(AM_CPPFLAGS) -DBN_EMU
src_comm_test_rank_nccl_LDADD = $(DEVICE_EMU_LIBS)

# Optional dependencies. Each macro BN_CHECK_X reads --with-x:
#   yes = must be found, no = never look, auto (default) = use when found,
# sets bn_have_x to yes or no, defines HAVE_X and the conditional HAVE_X.

# BN_WITH(name, what)
AC_DEFUN([BN_WITH], [
  AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1], [$2 @<:@auto@:>@])], [],
    [with_$1=auto])
  bn_have_$1=no
])

# BN_WITH_DONE(name, NAME, hint)
AC_DEFUN([BN_WITH_DONE], [
  AS_IF([test "x$with_$1" != xno && test "x$with_$1" != xauto dnl
&& test "x$bn_have_$1" = xno],
    [AC_MSG_ERROR([--with-$1 given, but not found: $3])])
  AS_IF([test "x$bn_have_$1" = xyes],
    [AC_DEFINE([HAVE_$2], [1], [Define if built with $1])])
  AM_CONDITIONAL([HAVE_$2], [test "x$bn_have_$1" = xyes])
])

AC_DEFUN([BN_CHECK_CMOCKA], [
  BN_WITH([cmocka], [unit tests in C])
  AS_IF([test "x$with_cmocka" != xno],
    [PKG_CHECK_MODULES([CMOCKA], [cmocka >= 1.1.5],
      [bn_have_cmocka=yes], [:])])
  BN_WITH_DONE([cmocka], [CMOCKA], [Debian: libcmocka-dev])
])

AC_DEFUN([BN_CHECK_ONEDNN], [
  BN_WITH([onednn], [oneDNN for matrix products])
  AS_IF([test "x$with_onednn" != xno], [
    AC_CHECK_HEADER([oneapi/dnnl/dnnl.h], [
      AC_CHECK_LIB([dnnl], [dnnl_matmul_desc_init],
        [bn_have_onednn=yes], [:])])
    AS_IF([test "x$bn_have_onednn" = xyes], [ONEDNN_LIBS=-ldnnl])])
  AC_SUBST([ONEDNN_LIBS])
  BN_WITH_DONE([onednn], [ONEDNN], [oneDNN 2.x, Debian: libdnnl-dev])
])

AC_DEFUN([BN_CHECK_PMIX], [
  BN_WITH([pmix], [bootstrap ranks through PMIx])
  AS_IF([test "x$with_pmix" != xno],
    [PKG_CHECK_MODULES([PMIX], [pmix >= 3.2], [bn_have_pmix=yes], [:])])
  BN_WITH_DONE([pmix], [PMIX], [Debian: libpmix-dev])
])

AC_DEFUN([BN_CHECK_MPI], [
  BN_WITH([mpi], [collectives of CPU ranks])
  AS_IF([test "x$with_mpi" != xno],
    [PKG_CHECK_MODULES([MPI], [ompi-c >= 4], [bn_have_mpi=yes], [:])])
  BN_WITH_DONE([mpi], [MPI], [Debian: libopenmpi-dev])
])

AC_DEFUN([BN_CHECK_SLURM], [
  BN_WITH([slurm], [submit many jobs through libslurm])
  AS_IF([test "x$with_slurm" != xno], [
    AC_CHECK_HEADER([slurm/slurm.h], [
      AC_CHECK_LIB([slurm], [slurm_submit_batch_job],
        [bn_have_slurm=yes], [:])])
    AS_IF([test "x$bn_have_slurm" = xyes], [SLURM_LIBS=-lslurm])])
  AC_SUBST([SLURM_LIBS])
  BN_WITH_DONE([slurm], [SLURM], [Debian: libslurm-dev])
])

# CUDA, and with it NCCL.
AC_DEFUN([BN_CHECK_CUDA], [
  AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@],
    [CUDA back end, toolkit in DIR @<:@auto, /usr/local/cuda@:>@])], [],
    [with_cuda=auto])
  BN_WITH([nccl], [collectives of GPUs, with CUDA])
  AC_ARG_VAR([NVCC], [CUDA compiler])
  AC_ARG_VAR([NVCC_ARCH], [code generation flags for nvcc])
  bn_have_cuda=no
  AS_CASE([$with_cuda], [yes|auto|no], [bn_cuda=/usr/local/cuda],
    [bn_cuda=$with_cuda])
  AS_IF([test "x$with_cuda" != xno], [
    AC_PATH_PROG([NVCC], [nvcc], [], [$bn_cuda/bin$PATH_SEPARATOR$PATH])
    bn_save_CPPFLAGS=$CPPFLAGS
    bn_save_LDFLAGS=$LDFLAGS
    CPPFLAGS="$CPPFLAGS -I$bn_cuda/include"
    LDFLAGS="$LDFLAGS -L$bn_cuda/lib64"
    AS_IF([test "x$NVCC" != x], [
      AC_CHECK_HEADER([cublasLt.h], [
        AC_CHECK_LIB([cudart], [cudaGetDeviceCount],
          [bn_have_cuda=yes], [:])])])
    AS_IF([test "x$bn_have_cuda" = xyes], [
      AS_IF([test "x$with_nccl" != xno],
        [AC_CHECK_HEADER([nccl.h], [AC_CHECK_LIB([nccl],
          [ncclCommInitRankConfig], [bn_have_nccl=yes], [:])])])
      CUDA_CPPFLAGS="-I$bn_cuda/include"
      # cublasLt is loaded when a device is opened: src/ops/cublaslt.c
      CUDA_LIBS="-L$bn_cuda/lib64 -lcudart -lstdc++"
      AS_IF([test "x$bn_have_nccl" = xyes], [CUDA_LIBS="-lnccl $CUDA_LIBS"])
    ])
    CPPFLAGS=$bn_save_CPPFLAGS
    LDFLAGS=$bn_save_LDFLAGS
  ])
  AC_SUBST([CUDA_CPPFLAGS])
  AC_SUBST([CUDA_LIBS])
  BN_WITH_DONE([cuda], [CUDA], [nvcc, cublasLt.h and libcudart])
  BN_WITH_DONE([nccl], [NCCL], [CUDA, nccl.h and libnccl])
])

# BN_CHECK_XXH_DISPATCH
# Libxxhash for x86 may have been built to use what the processor has.
AC_DEFUN([BN_CHECK_XXH_DISPATCH], [
  bn_save_LIBS=$LIBS
  LIBS="$XXHASH_LIBS $LIBS"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <xxh_x86dispatch.h>]],
      [[XXH3_state_t *s = XXH3_createState();
        return (int)XXH3_128bits("", 0).low64
               + (int)XXH3_128bits_update(s, "", 0);]])],
    [AC_DEFINE([HAVE_XXH_DISPATCH], [1],
      [Define if libxxhash chooses its code by the processor])])
  LIBS=$bn_save_LIBS
])

# BN_COMPILER_FLAGS: warnings and language level, kept out of CFLAGS so that
# configure's own tests are not affected by them.
AC_DEFUN([BN_COMPILER_FLAGS], [
  AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror],
    [treat warnings as errors @<:@no@:>@])], [], [enable_werror=no])
  ARFLAGS=cr
  AC_SUBST([ARFLAGS])
  BN_CFLAGS="-std=gnu17 -Wall -Wextra -Wshadow -Wstrict-prototypes dnl
-Wmissing-prototypes -Wvla -Wpointer-arith -Wwrite-strings"
  AS_IF([test "x$enable_werror" = xyes], [
    BN_CFLAGS="$BN_CFLAGS -Werror"
    BN_CXX_WERROR=-Werror
    BN_NVCC_WERROR="-Werror all-warnings"
  ])
  AC_SUBST([BN_CFLAGS])
  AC_SUBST([BN_CXX_WERROR])
  AC_SUBST([BN_NVCC_WERROR])
])

# BN_SANITIZERS: --enable-sanitizers builds everything with ASan and UBSan.
AC_DEFUN([BN_SANITIZERS], [
  AC_ARG_ENABLE([sanitizers], [AS_HELP_STRING([--enable-sanitizers],
    [build with AddressSanitizer and UBSan @<:@no@:>@])], [],
    [enable_sanitizers=no])
  bn_sanitizers=no
  AS_IF([test "x$enable_sanitizers" = xyes], [
    bn_sanitizers="address,undefined"
    BN_SAN="-fsanitize=address,undefined -fno-sanitize-recover=undefined dnl
-fno-omit-frame-pointer"
    # clang checks the types of called C++ functions, which needs RTTI and
    # clang++ as the linker; kernels have neither.
    bn_save_CXXFLAGS=$CXXFLAGS
    AC_LANG_PUSH([C++])
    CXXFLAGS="$CXXFLAGS -fno-sanitize=function"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM], [BN_SAN="$BN_SAN -fno-sanitize=function"])
    AC_LANG_POP([C++])
    CXXFLAGS=$bn_save_CXXFLAGS
    AC_DEFINE([BN_SANITIZED], [1], [Define if built with ASan and UBSan])
  ])
  AC_SUBST([BN_SAN])
  bn_save_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS -fsanitize=address"
  AC_CACHE_CHECK([whether AddressSanitizer is there], [bn_cv_asan],
    [AC_LINK_IFELSE([AC_LANG_PROGRAM], [bn_cv_asan=yes], [bn_cv_asan=no])])
  CFLAGS=$bn_save_CFLAGS
  AM_CONDITIONAL([ASAN], [test "x$bn_cv_asan" = xyes])
  AM_CONDITIONAL([SANITIZED], [test "x$enable_sanitizers" = xyes])
])

# BN_TARGET: is this x86-64, for which the CPU kernels have several forms?
AC_DEFUN([BN_TARGET], [
  AC_CACHE_CHECK([for x86-64], [bn_cv_x86_64],
    [AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [[
#ifndef __x86_64__
#error another machine
#endif
]])], [bn_cv_x86_64=yes], [bn_cv_x86_64=no])])
  AM_CONDITIONAL([X86_64], [test "x$bn_cv_x86_64" = xyes])
])

# BN_CHECK_V3: on x86-64, compile hot text code a second time with AVX2, BMI
# and AES; it runs only on processors that have them.
AC_DEFUN([BN_CHECK_V3], [
  AC_CACHE_CHECK([for x86-64], [bn_cv_v3], [
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [
#ifndef __x86_64__
#error
#endif
])], [bn_cv_v3=yes], [bn_cv_v3=no])])
  AS_IF([test "x$bn_cv_v3" = xyes],
    [AC_DEFINE([BN_HAVE_V3], [1], [Define on x86-64])])
  AM_CONDITIONAL([HAVE_V3], [test "x$bn_cv_v3" = xyes])
])

# LO_CUDA_OPTIONS, then LO_CUDA: --with-cuda, --with-cuda-arch, nvcc, its host compiler, the static
# runtime.
# Sets lo_cuda (yes, no), lo_cuda_why, NVCC, NVCC_GENCODE, CUDA_CPPFLAGS, CUDA_LIBS.

m4_define([lo_cuda_default_arch], [75 80 86 89 90a])

# lo_nvcc_try FLAGS...: compiles a one-line kernel; the messages go to config.log, the
# first line of them to lo_nvcc_said.
AC_DEFUN([LO_CUDA_FUNCTIONS], [
lo_nvcc_try ()
{
  echo '__global__ void k(float *p) { *p = 1; }' >conftest.cu
  echo "configure: $NVCC $NVCCFLAGS $[]* -c conftest.cu" >&AS_MESSAGE_LOG_FD
  "$NVCC" $NVCCFLAGS "$[]@" -c -o conftest.cu.o conftest.cu >conftest.err 2>&1
  lo_status=$?
  lo_nvcc_said=`grep . conftest.err | head -n 1`
  : ${lo_nvcc_said:="$NVCC ends with status $lo_status"}
  cat conftest.err >&AS_MESSAGE_LOG_FD
  rm -f conftest.cu conftest.cu.o conftest.err
  return $lo_status
}

# A compiler newer than nvcc knows is refused; an older one beside it often is at hand.
lo_nvcc_find_host ()
{
  test -z "$CUDAHOSTCXX" || return 1
  lo_saved_NVCCFLAGS=$NVCCFLAGS
  for lo_cxx in g++-15 g++-14 g++-13 g++-12 g++-11 g++-10 g++-9 clang++; do
    command -v "$lo_cxx" >/dev/null 2>&1 || continue
    NVCCFLAGS="$lo_saved_NVCCFLAGS -ccbin $lo_cxx"
    lo_nvcc_try && return 0
  done
  NVCCFLAGS=$lo_saved_NVCCFLAGS
  return 1
}
])

# LO_CUDA_OPTIONS: reads the options and finds nvcc and the folder of its toolkit. It needs no C
# compiler, so it can come first: a wrong folder is told at once.
AC_DEFUN([LO_CUDA_OPTIONS], [
  AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@],
    [the CUDA backend: yes or the toolkit's folder (an error if missing), no, auto @<:@auto@:>@])],
    [], [with_cuda=auto])
  AC_ARG_WITH([cuda-arch], [AS_HELP_STRING([--with-cuda-arch=LIST],
    [GPU architectures @<:@"lo_cuda_default_arch", those that nvcc knows@:>@])],
    [lo_archs_asked=yes], [lo_archs_asked=no with_cuda_arch="lo_cuda_default_arch"])
  AC_ARG_VAR([NVCC], [CUDA compiler])
  AC_ARG_VAR([NVCCFLAGS], [CUDA compiler flags])
  AC_ARG_VAR([CUDAHOSTCXX], [host compiler for nvcc, such as g++-12])
  lo_cuda=yes lo_cuda_why= lo_archs= lo_archs_dropped=
  AS_CASE([$with_cuda],
    [no], [lo_cuda=no lo_cuda_why="--without-cuda"],
    [yes|auto], [lo_cuda_path=$PATH:/usr/local/cuda/bin:/opt/cuda/bin
      lo_cuda_where="PATH, /usr/local/cuda/bin and /opt/cuda/bin"],
    [/*], [lo_cuda_path=$with_cuda/bin lo_cuda_where=$with_cuda/bin],
    [AC_MSG_ERROR([--with-cuda=$with_cuda: give yes, no, auto or the absolute folder of a CUDA toolkit])])
  AS_IF([test $lo_cuda = yes], [
    AC_PATH_PROG([NVCC], [nvcc], [], [$lo_cuda_path])
    AS_IF([test -z "$NVCC"], [lo_cuda=no
      lo_cuda_why="no nvcc in $lo_cuda_where"
      lo_cuda_install="install the CUDA toolkit (Debian: nvidia-cuda-toolkit), or give --with-cuda=DIR with DIR/bin/nvcc"
      LO_CUDA_MISSING])
    AS_CASE([$with_cuda], [/*], [CUDA_ROOT=$with_cuda],
      [lo_nvcc_real=`readlink -f "$NVCC" 2>/dev/null || echo "$NVCC"`
       lo_nvcc_bin=`AS_DIRNAME(["$lo_nvcc_real"])`
       CUDA_ROOT=`AS_DIRNAME(["$lo_nvcc_bin"])`])
  ])
])

# Only where the backend was not asked for may it stay out.
AC_DEFUN([LO_CUDA_MISSING], [
  AS_IF([test $lo_cuda = no && test "$with_cuda" != auto && test "$with_cuda" != no],
    [AC_MSG_ERROR([--with-cuda: $lo_cuda_why; $lo_cuda_install])])
])

AC_DEFUN([LO_CUDA_HOST], [
  AC_MSG_CHECKING([whether nvcc and its host compiler work])
  AS_IF([test -n "$CUDAHOSTCXX"], [NVCCFLAGS="$NVCCFLAGS -ccbin $CUDAHOSTCXX"])
  AS_IF([lo_nvcc_try], [AC_MSG_RESULT([yes])],
    [lo_nvcc_find_host], [AC_MSG_RESULT([yes, with -ccbin $lo_cxx])],
    [AC_MSG_RESULT([no])
     lo_cuda=no
     lo_cuda_why="nvcc fails: $lo_nvcc_said"
     lo_cuda_install="install a C++ compiler that this nvcc supports (Debian: g++, or an older one such as g++-12) and name it with CUDAHOSTCXX=g++-12, or give NVCCFLAGS"])
])

# A default architecture that this nvcc lacks is left out; one asked for by name must work.
# PTX is for compute_75 and compute_80 alone: a later GPU can run it, unlike that of an `a` target.
AC_DEFUN([LO_CUDA_ARCHS], [
  lo_archs= lo_archs_dropped= NVCC_GENCODE=
  for lo_arch in `echo "$with_cuda_arch" | tr ',;' '  '`; do
    lo_arch=`echo "$lo_arch" | sed 's/^sm_//; s/^compute_//'`
    AC_MSG_CHECKING([whether nvcc compiles for sm_$lo_arch])
    AS_IF([lo_nvcc_try -gencode=arch=compute_$lo_arch,code=sm_$lo_arch], [
      AC_MSG_RESULT([yes])
      lo_archs="$lo_archs $lo_arch"
      NVCC_GENCODE="$NVCC_GENCODE -gencode=arch=compute_$lo_arch,code=sm_$lo_arch"
      AS_CASE([$lo_arch], [75|80],
        [NVCC_GENCODE="$NVCC_GENCODE -gencode=arch=compute_$lo_arch,code=compute_$lo_arch"])
    ], [
      AC_MSG_RESULT([no])
      AS_IF([test $lo_archs_asked = yes],
        [AC_MSG_ERROR([nvcc cannot compile for "$lo_arch" (--with-cuda-arch): $lo_nvcc_said])])
      lo_archs_dropped="$lo_archs_dropped $lo_arch"
    ])
  done
  AS_IF([test -z "$lo_archs"], [lo_cuda=no
    lo_cuda_why="nvcc knows none of the architectures$lo_archs_dropped"
    lo_cuda_install="name one that it knows with --with-cuda-arch"])
])

AC_DEFUN([LO_CUDA_RUNTIME], [
  CUDA_LIBDIR=
  for lo_dir in lib64 lib targets/$host_cpu-linux/lib lib/$host_cpu-linux-gnu; do
    AS_IF([test -f "$CUDA_ROOT/$lo_dir/libcudart_static.a"], [CUDA_LIBDIR=$CUDA_ROOT/$lo_dir; break])
  done
  # not -I: a toolkit's folder also holds headers of others (CL/, cub), which must not come first
  AS_CASE([$CUDA_ROOT], [/usr|/], [CUDA_CPPFLAGS=], [CUDA_CPPFLAGS="-idirafter $CUDA_ROOT/include"])
  CUDA_LIBS="${CUDA_LIBDIR:+-L$CUDA_LIBDIR }-lcudart_static -lrt -ldl -lpthread"
  lo_save_LIBS=$LIBS lo_save_CPPFLAGS=$CPPFLAGS
  LIBS="$CUDA_LIBS $LIBS" CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
  AC_MSG_CHECKING([for the static CUDA runtime])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cuda.h>
#include <cuda_runtime_api.h>]], [[int n; return cudaGetDeviceCount(&n);]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     lo_cuda=no lo_cuda_why="no libcudart_static or cuda_runtime_api.h under $CUDA_ROOT"
     lo_cuda_install="install the development files of the CUDA runtime beside $NVCC"])
  LIBS=$lo_save_LIBS CPPFLAGS=$lo_save_CPPFLAGS
])

AC_DEFUN([LO_CUDA], [
  AC_REQUIRE([LO_CUDA_FUNCTIONS])
  : ${NVCCFLAGS=-O3}
  AS_IF([test $lo_cuda = yes], [LO_CUDA_HOST])
  AS_IF([test $lo_cuda = yes], [LO_CUDA_ARCHS])
  AS_IF([test $lo_cuda = yes], [LO_CUDA_RUNTIME])
  LO_CUDA_MISSING
  AS_IF([test $lo_cuda = yes],
    [AC_DEFINE([HAVE_CUDA], [1], [Define to 1 if the CUDA backend is built.])],
    [NVCC_GENCODE= CUDA_CPPFLAGS= CUDA_LIBDIR= CUDA_LIBS=])
  AM_CONDITIONAL([HAVE_CUDA], [test $lo_cuda = yes])
  AC_SUBST([NVCC_GENCODE])
  AC_SUBST([CUDA_ROOT])
  AC_SUBST([CUDA_CPPFLAGS])
  AC_SUBST([CUDA_LIBS])
])

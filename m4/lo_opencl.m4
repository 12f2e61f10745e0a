# LO_OPENCL_OPTIONS, then LO_OPENCL: --with-opencl. Only the headers are needed: libOpenCL is opened
# at run time. Sets lo_opencl (yes, no) and lo_opencl_why.
AC_DEFUN([LO_OPENCL_OPTIONS], [
  AC_ARG_WITH([opencl], [AS_HELP_STRING([--with-opencl],
    [the OpenCL backend: yes (an error if missing), no, auto @<:@auto@:>@])],
    [], [with_opencl=auto])
  AS_CASE([$with_opencl], [yes|no|auto], [],
    [AC_MSG_ERROR([--with-opencl=$with_opencl: give yes, no or auto])])
])

AC_DEFUN([LO_OPENCL], [
  lo_opencl=yes lo_opencl_why=
  AS_IF([test $with_opencl = no], [lo_opencl=no lo_opencl_why="--without-opencl"], [
    # without a version named, the header warns; each source names the one that it needs
    AC_CHECK_HEADER([CL/cl.h], [], [lo_opencl=no lo_opencl_why="no CL/cl.h"],
      [#define CL_TARGET_OPENCL_VERSION 120])
    AS_IF([test $lo_opencl = no && test $with_opencl = yes],
      [AC_MSG_ERROR([--with-opencl: no CL/cl.h; install opencl-headers or ocl-icd-opencl-dev (Debian's names)])])
  ])
  AS_IF([test $lo_opencl = yes],
    [AC_DEFINE([HAVE_OPENCL], [1], [Define to 1 if the OpenCL backend is built.])])
  AM_CONDITIONAL([HAVE_OPENCL], [test $lo_opencl = yes])
])

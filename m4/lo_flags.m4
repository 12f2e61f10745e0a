# LO_C_FLAG(VARIABLE, FLAG): appends the flag if this compiler takes it.
AC_DEFUN([LO_C_FLAG], [
  AC_CACHE_CHECK([whether $CC takes $2], AS_TR_SH([lo_cv_flag_$2]), [
    lo_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $2"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM()],
      [AS_TR_SH([lo_cv_flag_$2])=yes], [AS_TR_SH([lo_cv_flag_$2])=no])
    CFLAGS=$lo_save_CFLAGS
  ])
  AS_IF([test $AS_TR_SH([lo_cv_flag_$2]) = yes], [$1="$$1 $2"])
])

# LO_ISA(NAME, FLAGS, PROLOGUE, BODY)
# An instruction set of the CPU backend: its files get $(NAME_CFLAGS), are built in where the
# compiler takes the flags and the program (conditional CPU_NAME, macro HAVE_CPU_NAME), and run
# where the processor has it.
AC_DEFUN([LO_ISA], [
  AC_CACHE_CHECK([whether $CC compiles for $1], [lo_cv_isa_$1], [
    lo_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $2"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[$3]], [[$4]])], [lo_cv_isa_$1=yes], [lo_cv_isa_$1=no])
    CFLAGS=$lo_save_CFLAGS
  ])
  AS_IF([test $lo_cv_isa_$1 = yes], [
    AC_DEFINE([HAVE_CPU_$1], [1], [Define to 1 if the CPU backend has kernels for $1.])
    lo_isas="$lo_isas $1"
  ])
  AC_SUBST([$1_CFLAGS], ["$2"])
  AM_CONDITIONAL([CPU_$1], [test $lo_cv_isa_$1 = yes])
])

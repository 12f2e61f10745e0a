# LO_C_FLAGS(VARIABLE, FLAGS): appends the flags that this compiler takes, tried one at a time.
AC_DEFUN([LO_C_FLAGS], [
  m4_foreach_w([lo_flag], [$2], [
    AC_MSG_CHECKING([whether $CC takes ]lo_flag)
    lo_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror lo_flag"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes])
      $1="$$1 lo_flag"], [AC_MSG_RESULT([no])])
    CFLAGS=$lo_save_CFLAGS
  ])
])

# LO_ISA(NAME, FLAGS, PROLOGUE, BODY)
# An instruction set of the CPU backend: its files get $(NAME_CFLAGS), are built in where the
# compiler takes the flags and the program (conditional CPU_NAME, macro HAVE_CPU_NAME), and run
# where the processor has it.
AC_DEFUN([LO_ISA], [
  AC_MSG_CHECKING([whether $CC compiles for $1])
  lo_save_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS -Werror $2"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[$3]], [[$4]])], [lo_isa=yes], [lo_isa=no])
  CFLAGS=$lo_save_CFLAGS
  AC_MSG_RESULT([$lo_isa])
  AS_IF([test $lo_isa = yes], [
    AC_DEFINE([HAVE_CPU_$1], [1], [Define to 1 if the CPU backend has kernels for $1.])
    lo_isas="$lo_isas $1"
  ])
  AC_SUBST([$1_CFLAGS], ["$2"])
  AM_CONDITIONAL([CPU_$1], [test $lo_isa = yes])
])

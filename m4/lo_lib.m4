# LO_LIB(VAR, PKG-CONFIG SPEC, HEADER, LIBRARY, FUNCTION)
# Finds a library through pkg-config, else by its header and by linking (CPPFLAGS and LDFLAGS
# count), since not every machine has the .pc file. Sets lo_VAR to yes or no, VAR_CFLAGS, VAR_LIBS.
# An empty LIBRARY means that the header is all there is.
AC_DEFUN([LO_LIB], [
  PKG_CHECK_MODULES([$1], [$2], [lo_$1=yes], [
    lo_$1=no
    AC_CHECK_HEADER([$3], [
      m4_ifval([$4], [AC_CHECK_LIB([$4], [$5], [lo_$1=yes $1_LIBS=-l$4])], [lo_$1=yes])
    ])
  ])
])

# LO_LIB_REQUIRED(VAR, SPEC, HEADER, LIBRARY, FUNCTION, DEBIAN PACKAGE)
AC_DEFUN([LO_LIB_REQUIRED], [
  LO_LIB([$1], [$2], [$3], [$4], [$5])
  AS_IF([test $lo_$1 = no],
    [AC_MSG_ERROR([$2 is required: install $6 (Debian's name), or point CPPFLAGS and LDFLAGS at it])])
])

# LO_LIB(VAR, PKG-CONFIG SPEC, HEADER, LIBRARY, FUNCTION)
# Finds a library through pkg-config, else by its header and by linking (CPPFLAGS and LDFLAGS
# count), since not every machine has the .pc file. Sets lo_VAR to yes or no, VAR_CFLAGS, VAR_LIBS,
# and appends to LAYEROPS_PC_REQUIRES or LAYEROPS_PC_LIBS through LO_LIB_STATIC. An empty LIBRARY
# means that the header is all there is.
AC_DEFUN([LO_LIB], [
  PKG_CHECK_MODULES([$1], [$2], [lo_$1=yes lo_$1_pc="$2"], [
    lo_$1=no lo_$1_pc=
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

# LO_LIB_STATIC(VAR): who links liblayerops.a needs this library too.
AC_DEFUN([LO_LIB_STATIC], [
  AS_IF([test -n "$lo_$1_pc"],
    [LAYEROPS_PC_REQUIRES="$LAYEROPS_PC_REQUIRES $lo_$1_pc"],
    [LAYEROPS_PC_LIBS="$LAYEROPS_PC_LIBS $$1_LIBS"])
  LAYEROPS_STATIC_LIBS="$LAYEROPS_STATIC_LIBS $$1_LIBS"
])

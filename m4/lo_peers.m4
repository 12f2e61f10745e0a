# LO_PEER(NAME, PKG-CONFIG SPEC, HEADER, LIBRARY, FUNCTION [, WHERE TO FIND IT])
# A library that bench/ compares with: HAVE_PEER_NAME, NAME_CFLAGS, NAME_LIBS. Nothing that is
# installed may link one. The optional last argument sets lo_peer_CFLAGS and lo_peer_LIBS, where the
# search begins, lo_peer_needs, what the .pc file leaves out, or lo_peer=no to skip it.
AC_DEFUN([LO_PEER], [
  lo_$1=no
  AS_IF([test "$with_peers" != no], [
    lo_save_CPPFLAGS=$CPPFLAGS lo_save_LDFLAGS=$LDFLAGS lo_save_LIBS=$LIBS
    lo_peer=yes lo_peer_CFLAGS= lo_peer_LIBS= lo_peer_needs=
    $6
    CPPFLAGS="$CPPFLAGS $lo_peer_CFLAGS" LDFLAGS="$LDFLAGS $lo_peer_LIBS"
    AS_IF([test $lo_peer = yes], [LO_LIB([$1], [$2], [$3], [$4], [$5])])
    # a .pc file may promise more than links, as libxsmm's does where there is no BLAS
    AS_IF([test $lo_$1 = yes], [
      $1_LIBS="$$1_LIBS $lo_peer_needs"
      LIBS="$$1_LIBS $LIBS"
      AC_LINK_IFELSE([AC_LANG_CALL([], [$5])], [], [lo_$1=no])
    ])
    CPPFLAGS=$lo_save_CPPFLAGS LDFLAGS=$lo_save_LDFLAGS LIBS=$lo_save_LIBS
    $1_CFLAGS="$lo_peer_CFLAGS $$1_CFLAGS" $1_LIBS="$lo_peer_LIBS $$1_LIBS"
  ])
  AS_IF([test $lo_$1 = yes],
    [AC_DEFINE([HAVE_PEER_$1], [1], [Define to 1 if bench/ can compare with $4.])
     lo_peers="$lo_peers m4_tolower([$1])"],
    [lo_peers_missing="$lo_peers_missing m4_tolower([$1])"])
  AM_CONDITIONAL([HAVE_PEER_$1], [test $lo_$1 = yes])
  AC_SUBST([$1_CFLAGS])
  AC_SUBST([$1_LIBS])
])

# LO_PEER_WITH(NAME, OPTION, LIBRARY, FUNCTION, TEXT): --with-OPTION=DIR, for a peer that is not where
# the compiler looks: DIR/include and DIR/lib, as `pip install` into a virtual environment lays it.
# Goes into LO_PEER's last argument. A wheel has no libX.so, so the file itself is named, behind -Wl,
# since libtool drops it else; -rpath in the old form, since the library's own needs lie in the same
# folder.
AC_DEFUN([LO_PEER_WITH], [
    AC_ARG_WITH([$2], [AS_HELP_STRING([--with-$2=DIR], [$5])], [], [with_$2=auto])
    AS_CASE([$with_$2], [no], [lo_peer=no], [/*], [
      lo_peer_file=
      for lo_file in "$with_$2"/lib/lib$3.so*; do
        AS_IF([test -f "$lo_file"], [lo_peer_file=-Wl,$lo_file; break])
      done
      lo_peer_CFLAGS="-I$with_$2/include"
      lo_peer_LIBS="-Wl,--disable-new-dtags -Wl,-rpath,$with_$2/lib"
      CPPFLAGS="$lo_peer_CFLAGS $CPPFLAGS" LIBS="$lo_peer_LIBS $lo_peer_file $LIBS"
      AC_MSG_CHECKING([for $4 in $with_$2])
      AC_LINK_IFELSE([AC_LANG_CALL([], [$4])],
        [AC_MSG_RESULT([yes])
         lo_$1=yes lo_peer=found $1_CFLAGS= $1_LIBS=$lo_peer_file],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([--with-$2=$with_$2: no lib/lib$3.so* there with $4 that links (config.log)])])
    ], [auto|yes], [],
      [AC_MSG_ERROR([--with-$2=$with_$2: give no or the absolute folder with include/ and lib/])])
])

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
     lo_peers="$lo_peers $4"],
    [lo_peers_missing="$lo_peers_missing $4"])
  AM_CONDITIONAL([HAVE_PEER_$1], [test $lo_$1 = yes])
  AC_SUBST([$1_CFLAGS])
  AC_SUBST([$1_LIBS])
])

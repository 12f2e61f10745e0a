#!/bin/sh
# make install into a staging folder, then programs outside the project against what landed there.
. "$top_srcdir/t/tap.sh"

[ "$sanitizers" = no ] || skip_all "built with sanitizers, which programs outside are not"

dest=$scratch/dest
lib=$dest$libdir
files=$top_srcdir/t/install
strict='-Wall -Wextra -Werror -pedantic'
CXX=$(command -v "${CXX:-g++}" || command -v clang++)
unset MAKEFLAGS MFLAGS MAKELEVEL # this make is no child of the one that runs the tests
unset LAYEROPS_DEVICE
LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

check 'make install' "$MAKE" -C "$top_builddir" install DESTDIR="$dest"
[ -f "$lib/liblayerops.so" ] && shared=yes || shared=no
[ -f "$lib/liblayerops.a" ] && static=yes || static=no

# ---- names
foreign() { # NM'S OPTIONS AND FILE, ALLOWED PATTERN
  nm $1 "$2" | awk -v allowed="$3" 'NF == 3 && $3 !~ allowed { print; bad = 1 } END { exit bad }'
}
if [ $shared = yes ]; then
  check 'the shared library exports layerops_ names only' \
    foreign '-D --defined-only' "$lib/liblayerops.so" '^layerops_'
  readelf -d "$lib/liblayerops.so" | grep NEEDED >"$scratch/needed"
  check 'it needs no driver, loader, CUDA library or peer at load time' \
    sh -c "! grep -E 'OpenCL|cuda|nvidia|cublas|cusparse|blas|blis|dnnl|xsmm' '$scratch/needed'"
else
  skip 'the shared library exports layerops_ names only' 'configured with --disable-shared'
  skip 'it needs no driver, loader, CUDA library or peer' 'configured with --disable-shared'
fi
if [ $static = yes ]; then
  # a CUDA kernel has a C++ name
  check 'the static library defines layerops_ and lo_ names only' \
    foreign '-g --defined-only' "$lib/liblayerops.a" '^(layerops_|lo_|_Z|__cuda)'
else
  skip 'the static library defines layerops_ and lo_ names only' 'configured with --disable-static'
fi

# ---- each header by itself
for header in "$dest$includedir"/layerops/*.h; do
  name=layerops/$(basename "$header")
  printf '#include <%s>\ntypedef int not_empty;\n' "$name" >"$scratch/header.c"
  check "$name compiles alone as C99" \
    $CC -std=c99 $strict -I"$dest$includedir" -fsyntax-only "$scratch/header.c"
  if [ -n "$CXX" ]; then
    check "$name compiles alone as C++11" \
      $CXX -x c++ -std=c++11 $strict -I"$dest$includedir" -fsyntax-only "$scratch/header.c"
  else
    skip "$name compiles alone as C++11" 'no C++ compiler'
  fi
done

# ---- pkg-config
PKG_CONFIG=$(command -v "${PKG_CONFIG:-pkg-config}")
pc() {
  PKG_CONFIG_SYSROOT_DIR=$dest PKG_CONFIG_PATH=$lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH} \
    "$PKG_CONFIG" "$@" layerops
}
outside() { # NAME COMPILER SOURCE LIBRARIES...
  outside_name=$1 outside_cc=$2 outside_source=$3
  shift 3
  check "$outside_name compiles and links" \
    $outside_cc $strict $(pc --cflags) -o "$scratch/outside" "$outside_source" "$@" $LDFLAGS &&
    check "$outside_name runs" "$scratch/outside"
}
cp "$files/use.c" "$scratch/use.cpp"
if [ -z "$PKG_CONFIG" ]; then
  skip 'programs through pkg-config' 'no pkg-config'
else
  check 'pkg-config knows the version' pc --modversion
  like 'and it is the one of version.h' \
    "^$(sed -n 's/^#define LAYEROPS_VERSION  *"\(.*\)"/\1/p' "$top_srcdir/include/layerops/version.h")\$"
  # two libraries in one folder: name the file, so that the linker cannot take the other
  archive=$(pc --static --libs | sed 's/-llayerops/-l:liblayerops.a/')
  for kind in shared static; do
    eval "installed=\$$kind"
    if [ "$installed" = no ]; then
      skip "$kind through pkg-config" "configured with --disable-$kind"
      continue
    fi
    [ $kind = shared ] && libs=$(pc --libs) || libs=$archive
    outside "$kind, C99" "$CC -std=c99" "$files/use.c" $libs
    if [ -n "$CXX" ]; then
      outside "$kind, C++11" "$CXX -std=c++11" "$scratch/use.cpp" $libs
    else
      skip "$kind, C++11" 'no C++ compiler'
    fi
  done
fi

# ---- CMake
if ! command -v cmake >/dev/null || [ -z "$CXX" ]; then
  skip 'programs through CMake' 'no cmake or no C++ compiler'
else
  check 'CMake finds the package' cmake -S "$files" -B "$scratch/cmake" \
    -Dlayerops_DIR="$lib/cmake/layerops" -DCMAKE_C_COMPILER="${CC%% *}" \
    -DCMAKE_CXX_COMPILER="$CXX" &&
    check 'programs compile and link through CMake' cmake --build "$scratch/cmake"
  for kind in shared static; do
    eval "installed=\$$kind"
    [ $kind = shared ] && target=layerops || target=layerops_static
    for language in c cpp; do
      if [ "$installed" = no ]; then
        skip "$target, $language, runs" "configured with --disable-$kind"
      else
        check "$target, $language, runs" "$scratch/cmake/${target}_$language"
      fi
    done
  done
fi

# ---- a machine with neither an OpenCL loader nor a driver
if [ $shared = yes ]; then
  check 'build the stand-in for such a machine' \
    $CC -shared -fPIC -o "$scratch/absent.so" "$files/absent.c" -ldl
  check 'build a program that lists the devices' $CC -std=c99 $strict -I"$dest$includedir" \
    -o "$scratch/absent" "$files/absent_devices.c" -L"$lib" -llayerops $LDFLAGS
  check 'it starts without CUDA and OpenCL, which say why, and the CPU works' \
    env LD_PRELOAD="$scratch/absent.so" "$scratch/absent"
  diag <"$scratch/out"
  check 'so does the command' \
    env LD_PRELOAD="$scratch/absent.so" "$dest$bindir/layerops" devices
else
  skip 'a machine without CUDA and OpenCL' 'configured with --disable-shared'
fi
done_testing

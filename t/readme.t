#!/bin/sh
# The programs of the README: as they stand there they compile without a warning, run, and agree.
. "$top_srcdir/t/tap.sh"

[ "$sanitizers" = no ] || skip_all "built with sanitizers, which programs outside are not"
[ -f "$top_builddir/.libs/liblayerops.so" ] || skip_all "configured with --disable-shared"

CXX=$(command -v "${CXX:-g++}" || command -v clang++)
LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
unset LAYEROPS_DEVICE

block() { # LANGUAGE: the first block of code in that language
  sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$top_srcdir/README.md" | sed '/^```/d'
}

program() { # LANGUAGE STANDARD COMPILER...
  language=$1 standard=$2
  shift 2
  block "$language" >"$scratch/program.$language"
  check "the $language program stands in the README" grep -q main "$scratch/program.$language"
  check "the $language program compiles" "$@" -std="$standard" -Wall -Wextra -Werror -pedantic \
    -I"$top_srcdir/include" "$scratch/program.$language" -o "$scratch/$language" \
    -L"$top_builddir/.libs" -llayerops
  check "the $language program runs" "$scratch/$language"
  like "the $language program is right" '^y\[0\]\[0\] = 0\.4916$'
}

program c c99 $CC
# variant NAME PATTERN Y: the same with a block of lines in place of those that match; what it prints
variant() {
  block "c $1" >"$scratch/$1"
  sed -e "/$2/{r $scratch/$1" -e 'd;}' "$scratch/program.c" >"$scratch/$1.c"
  check "the program with $1 weights is another" test "$(wc -l <"$scratch/$1.c")" -gt \
    "$(wc -l <"$scratch/program.c")"
  check "the program with $1 weights compiles" $CC -std=c99 -Wall -Wextra -Werror -pedantic \
    -I"$top_srcdir/include" "$scratch/$1.c" -o "$scratch/$1_c" -L"$top_builddir/.libs" -llayerops
  check "the program with $1 weights runs" "$scratch/$1_c"
  like "the program with $1 weights is right" "^y\\[0\\]\\[0\\] = $3\$"
}
variant packed 'args\.w = ' '0\.4916'
variant sparse 'layerops_linear_forward(ctx, ' '0\.5226'

if [ -n "$CXX" ]; then
  program cpp c++11 "$CXX"
else
  skip 'the cpp program' 'no C++ compiler'
fi
done_testing

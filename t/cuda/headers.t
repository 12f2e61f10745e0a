#!/bin/sh
# The host side compiles against the headers of another CUDA version, which LAYEROPS_TEST_CUDA_INCLUDE
# names: those of 12.0, the oldest that is supported, come with the Python package
# nvidia-cuda-runtime-cu12==12.0.*.
. "$top_srcdir/t/tap.sh"

include=$LAYEROPS_TEST_CUDA_INCLUDE
[ -n "$include" ] || skip_all 'LAYEROPS_TEST_CUDA_INCLUDE is not set'
check 'the headers are there' test -r "$include/cuda_runtime_api.h"
for file in "$top_srcdir"/backends/cuda/*.c; do
  check "$(basename "$file")" $CC -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -DHAVE_CONFIG_H \
    -DLO_CUDA_GENCODE='""' -I"$top_builddir" -I"$top_srcdir" -I"$top_srcdir/include" \
    -isystem "$include" "$file"
done
done_testing

#!/bin/sh
# What the list of devices says of CUDA drivers and devices that cannot be used. They come from a
# library of our own in place of libcuda.so.1.
. "$top_srcdir/t/tap.sh"

devices=$top_builddir/layerops
"$devices" devices >"$scratch/out" 2>&1
grep -q 'configured without cuda' "$scratch/out" && skip_all 'this build has no CUDA backend'
[ "$sanitizers" = no ] || skip_all 'the address sanitizer refuses a preloaded driver'

mkdir "$scratch/none" "$scratch/old"
check 'a driver to test with' \
  $CC -shared -fPIC -o "$scratch/libcuda.so.1" "$top_srcdir/t/cuda/driver.c"
$CC -shared -fPIC -DFAKE_OLD -o "$scratch/old/libcuda.so.1" "$top_srcdir/t/cuda/driver.c"
: >"$scratch/none/libcuda.so.1" # no library at all, as where no driver is installed

# with FOLDER SETTING=VALUE...: the list of devices with that driver
with() {
  folder=$1
  shift
  env LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@" "$devices" devices
}

check 'no driver' with "$scratch/none"
like 'is said' '^cuda +absent: no CUDA driver \(libcuda\.so\.1\)'
check 'a driver that lacks a function' with "$scratch/old"
like 'is said with both versions, and which' \
  'absent: driver too old: it has CUDA 13\.0 without cuCtxPushCurrent_v2, this build needs [0-9]+\.[0-9]+'
check 'a driver of CUDA 11.4' with "$scratch" FAKE_VERSION=11040
like 'is said, and what is needed' 'absent: driver too old: it has CUDA 11\.4, this build needs [0-9]+\.0'
check 'a driver of CUDA 11.4 that lacks a function too' with "$scratch/old" FAKE_VERSION=11040
like 'is said to be old' 'absent: driver too old: it has CUDA 11\.4, this build needs [0-9]+\.0$'
check 'a driver that does not start' with "$scratch" FAKE_INIT=801
like 'is said, in its own words' 'absent: the CUDA driver does not start: operation not supported'
check 'no device' with "$scratch" FAKE_COUNT=0 CUDA_VISIBLE_DEVICES=
like 'is said, and the variable that hides some' \
  'absent: the CUDA driver finds no device \(CUDA_VISIBLE_DEVICES is set\)'
check 'a device older than this build' with "$scratch" FAKE_ARCH=61
like 'is said, and what there is' '^cuda:0 +absent: no kernel image for sm_61: built for sm_'
if grep -q 'compute_' "$scratch/out"; then later='^ +sm_121$'; else later='no kernel image for sm_121'; fi
check 'a device later than this build' with "$scratch" FAKE_ARCH=121
like 'runs where there is PTX' "$later"
check 'several devices' with "$scratch" FAKE_COUNT=2
like 'the second is listed too' '^cuda:1 '
done_testing

#!/bin/sh
# Every operation on OpenCL with the kernels for GPUs, which a machine with PoCL alone would not run.
. "$top_srcdir/t/tap.sh"

LAYEROPS_OPENCL_CLASS=gpu LAYEROPS_TEST_DEVICES=opencl
export LAYEROPS_OPENCL_CLASS LAYEROPS_TEST_DEVICES

passes() {
  "$top_builddir/t/ops_$1" >"$scratch/tap" || return
  grep -A 2 '^not ok' "$scratch/tap" | head -n 20
  grep -q '^1\.\.[1-9]' "$scratch/tap" && ! grep -q '^not ok' "$scratch/tap"
}

for op in gemm linear backward rows move update bsr; do
  check "the kernels for GPUs: $op" passes $op
done
done_testing

/* All that follows a product, for four neighbours of a row. The kinds of activation and storage are
 * uniform over the launch. */
#ifndef LO_CUDA_EPILOGUE_CUH
#define LO_CUDA_EPILOGUE_CUH

#include "backends/cuda/prelude.cuh"

LO_FN float4 lo_add4(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* acc is the sum of products; rounding is spelled out, so that every kernel gives the same bits. */
LO_FN void lo_epilogue4(const lo_cu_epilogue &e, float alpha, float beta, float4 acc, lo_i64 batch,
                        lo_i64 row, lo_i64 col, int count) {
  lo_i64 at_c = batch * e.c.batch_stride + row * e.c.stride + col;
  float4 z = make_float4(__fmul_rn(alpha, acc.x), __fmul_rn(alpha, acc.y), __fmul_rn(alpha, acc.z),
                         __fmul_rn(alpha, acc.w));
  if (beta != 0.0f) {
    float4 c = lo_load4(e.c, at_c, count);
    z = make_float4(__fmaf_rn(beta, c.x, z.x), __fmaf_rn(beta, c.y, z.y), __fmaf_rn(beta, c.z, z.z),
                    __fmaf_rn(beta, c.w, z.w));
  }
  if (e.bias.p) z = lo_add4(z, lo_load4(e.bias, col, count));
  if (e.preact.p) lo_store4(e.preact, row * e.preact.stride + col, count, z);
  if (e.activation != LO_ACT_IDENTITY) z = lo_activation4(e.activation, z, e.slope);
  if (e.derivative != LO_ACT_IDENTITY) {
    float4 s = lo_load4(e.saved, row * e.saved.stride + col, count);
    z = lo_derivative4(e.derivative, z, s, e.derivative_slope);
  }
  if (e.residual.p) z = lo_add4(z, lo_load4(e.residual, row * e.residual.stride + col, count));
  lo_store4(e.c, at_c, count, z);
}

LO_FN void lo_finish_row_sum(const lo_cu_epilogue &e, float beta, lo_i64 row, float sum) {
  if (beta != 0.0f) sum = __fmaf_rn(beta, lo_load(e.row_sum, row), sum);
  lo_store(e.row_sum, row, sum);
}

#endif

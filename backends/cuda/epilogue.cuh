/* All that follows a product, for four neighbours of a row. The kinds of activation and storage are
 * uniform over the launch. */
#ifndef LO_CUDA_EPILOGUE_CUH
#define LO_CUDA_EPILOGUE_CUH

#include "backends/cuda/prelude.cuh"

LO_FN float4 lo_add4(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* acc is the sum of products, bias the quad's, which is used where there is one. Rounding is
 * spelled out, so that every kernel gives the same bits. */
LO_FN void lo_epilogue4(const lo_cu_epilogue &e, float alpha, float beta, float4 acc, float4 bias,
                        lo_i64 batch, lo_i64 row, lo_i64 col, int count) {
  lo_i64 at_c = batch * e.c.batch_stride + row * e.c.stride + col;
  float4 z = make_float4(__fmul_rn(alpha, acc.x), __fmul_rn(alpha, acc.y), __fmul_rn(alpha, acc.z),
                         __fmul_rn(alpha, acc.w));
  if (beta != 0.0f) {
    float4 c = lo_load4(e.c, at_c, count);
    z = make_float4(__fmaf_rn(beta, c.x, z.x), __fmaf_rn(beta, c.y, z.y), __fmaf_rn(beta, c.z, z.z),
                    __fmaf_rn(beta, c.w, z.w));
  }
  if (e.bias.p) z = lo_add4(z, bias);
  if (e.preact.p) lo_store4(e.preact, row * e.preact.stride + col, count, z);
  if (e.activation != LO_ACT_IDENTITY) z = lo_activation4(e.activation, z, e.slope);
  if (e.derivative != LO_ACT_IDENTITY) {
    float4 s = lo_load4(e.saved, row * e.saved.stride + col, count);
    z = lo_derivative4(e.derivative, z, s, e.derivative_slope);
  }
  if (e.residual.p) z = lo_add4(z, lo_load4(e.residual, row * e.residual.stride + col, count));
  lo_store4(e.c, at_c, count, z);
}

LO_FN float4 lo_bias4(const lo_cu_epilogue &e, lo_i64 col, int count) {
  return e.bias.p ? lo_load4(e.bias, col, count) : make_float4(0, 0, 0, 0);
}

/* The bias of a tile's columns in shared memory, once: the epilogue's rolled loop would wait for
 * device memory at each of its rounds. Whoever reads it meets the others first, as drain() does. */
template <int BN>
LO_FN void lo_stage_bias(const lo_cu_epilogue &e, float *shared, lo_i64 col0, lo_i64 n) {
  if (!e.bias.p) return;
  for (int i = threadIdx.x; i < BN; i += blockDim.x)
    shared[i] = col0 + i < n ? lo_load(e.bias, col0 + i) : 0.0f;
}

LO_FN void lo_finish_row_sum(const lo_cu_epilogue &e, float beta, lo_i64 row, float sum) {
  if (beta != 0.0f) sum = __fmaf_rn(beta, lo_load(e.row_sum, row), sum);
  lo_store(e.row_sum, row, sum);
}

#endif

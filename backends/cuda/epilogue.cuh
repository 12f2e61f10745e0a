/* All that follows a product, for four neighbours of a row. The kinds of activation and storage are
 * uniform over the launch. */
#ifndef LO_CUDA_EPILOGUE_CUH
#define LO_CUDA_EPILOGUE_CUH

#include "backends/cuda/prelude.cuh"

LO_FN float4 lo_add4(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

LO_FN int4 lo_add4(int4 a, int4 b) {
  return make_int4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
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
  if (e.scale_c.p) {
    float s = lo_load(e.scale_c, 0);
    z = make_float4(__fdiv_rn(z.x, s), __fdiv_rn(z.y, s), __fdiv_rn(z.z, s), __fdiv_rn(z.w, s));
  }
  lo_store4(e.c, at_c, count, z);
}

/* What most products end with, in few instructions: alpha, a bias, ReLU or nothing, whole quads. */
LO_FN bool lo_epilogue_plain(const lo_cu_epilogue &e, float beta) {
  return beta == 0.0f && !e.preact.p && !e.residual.p && !e.scale_c.p && e.c.vector &&
         e.c.type <= LO_TYPE_BF16 && e.derivative == LO_ACT_IDENTITY &&
         (e.activation == LO_ACT_IDENTITY || e.activation == LO_ACT_RELU);
}

/* ---- Products of 8-bit integers. A vector of one element stands for all. */
LO_FN lo_i64 lo_of_row(const lo_cu_view &v, lo_i64 row) {
  return v.cols == 1 ? 0 : row;
}

/* sum (a - zero) b = sum a b - zero sum b; columns: the sums of b. Wraps around as the sums do. */
LO_FN int4 lo_shift4(const lo_cu_epilogue &e, int4 acc, int4 columns, lo_i64 row) {
  if (!e.zero_a.p) return acc;
  int zero = -((const int *)e.zero_a.p)[lo_of_row(e.zero_a, row)];
  return make_int4(acc.x + zero * columns.x, acc.y + zero * columns.y, acc.z + zero * columns.z,
                   acc.w + zero * columns.w);
}
LO_FN float4 lo_shift4(const lo_cu_epilogue &, float4 acc, int4, lo_i64) {
  return acc;
}

LO_FN float4 lo_scale4(const lo_cu_epilogue &e, int4 acc, lo_i64 row, lo_i64 col, int count) {
  float a = e.scale_a.p ? lo_load(e.scale_a, lo_of_row(e.scale_a, row)) : 1.0f;
  float4 b = make_float4(a, a, a, a);
  if (e.scale_b.p) {
    float s = lo_load(e.scale_b, 0);
    b = e.scale_b.cols == 1 ? make_float4(s, s, s, s) : lo_load4(e.scale_b, col, count);
    b = make_float4(a * b.x, a * b.y, a * b.z, a * b.w);
  }
  return make_float4(b.x * (float)acc.x, b.y * (float)acc.y, b.z * (float)acc.z,
                     b.w * (float)acc.w);
}

LO_FN void lo_store_sums(const lo_cu_view &v, lo_i64 at, int count, int4 acc) {
  int *p = (int *)v.p + at;
  p[0] = acc.x;
  if (count > 1) p[1] = acc.y;
  if (count > 2) p[2] = acc.z;
  if (count > 3) p[3] = acc.w;
}

/* The epilogue by the kind of the sums. */
LO_FN void lo_finish4(const lo_cu_epilogue &e, float alpha, float beta, float4 acc, float4 bias,
                      lo_i64 batch, lo_i64 row, lo_i64 col, int count) {
  lo_epilogue4(e, alpha, beta, acc, bias, batch, row, col, count);
}
LO_FN void lo_finish4(const lo_cu_epilogue &e, float alpha, float beta, int4 acc, float4 bias,
                      lo_i64 batch, lo_i64 row, lo_i64 col, int count) {
  if (e.c.type == LO_TYPE_I32)
    lo_store_sums(e.c, batch * e.c.batch_stride + row * e.c.stride + col, count, acc);
  else
    lo_epilogue4(e, alpha, beta, lo_scale4(e, acc, row, col, count), bias, batch, row, col, count);
}

/* ---- The plain epilogue: the same bits as the long one gives. */
LO_FN void lo_plain_store_quad(const lo_cu_plain &e, lo_i64 at, int count, float4 z) {
  if (e.type == LO_TYPE_F32) {
    float *c = (float *)e.c + at;
    if (e.vector && count >= 4) {
      *(float4 *)c = z;
      return;
    }
    if (count > 0) c[0] = z.x;
    if (count > 1) c[1] = z.y;
    if (count > 2) c[2] = z.z;
    if (count > 3) c[3] = z.w;
  } else {
    unsigned short *c = (unsigned short *)e.c + at;
    uint2 h = lo_to_16x4(z, e.type == LO_TYPE_BF16);
    if (e.vector && count >= 4) {
      *(uint2 *)c = h;
      return;
    }
    if (count > 0) c[0] = (unsigned short)h.x;
    if (count > 1) c[1] = (unsigned short)(h.x >> 16);
    if (count > 2) c[2] = (unsigned short)h.y;
    if (count > 3) c[3] = (unsigned short)(h.y >> 16);
  }
}
LO_FN void lo_plain_quad(const lo_cu_plain &e, float4 acc, float4 bias, lo_i64 at, int count) {
  float4 z = make_float4(__fmul_rn(e.alpha, acc.x), __fmul_rn(e.alpha, acc.y),
                         __fmul_rn(e.alpha, acc.z), __fmul_rn(e.alpha, acc.w));
  if (e.bias) z = lo_add4(z, bias);
  if (e.activation == LO_ACT_RELU)
    z = make_float4(z.x < 0 ? 0.0f : z.x, z.y < 0 ? 0.0f : z.y, z.z < 0 ? 0.0f : z.z,
                    z.w < 0 ? 0.0f : z.w);
  else if (e.activation != LO_ACT_IDENTITY)
    z = lo_activation4(e.activation, z, e.slope);
  lo_plain_store_quad(e, at, count, z);
}
LO_FN void lo_plain_quad(const lo_cu_plain &, int4, float4, lo_i64, int) {} /* never plain */

/* The same for one element, with ReLU or nothing: where C's quads may not be moved at once,
 * neighbours are better stored by neighbouring threads. */
LO_FN void lo_plain_one(const lo_cu_plain &e, float acc, float bias, lo_i64 at) {
  float z = __fmul_rn(e.alpha, acc);
  if (e.bias) z += bias;
  if (e.activation == LO_ACT_RELU) z = z < 0 ? 0.0f : z;
  if (e.type == LO_TYPE_F32)
    ((float *)e.c)[at] = z;
  else
    ((unsigned short *)e.c)[at] = lo_to_16(z, e.type == LO_TYPE_BF16);
}
LO_FN bool lo_is_stored_singly(const lo_cu_gemm &p) {
  return p.plain.c && !p.plain.vector && p.split == 1 &&
         (p.plain.activation == LO_ACT_IDENTITY || p.plain.activation == LO_ACT_RELU);
}

LO_FN float4 lo_bias4(const lo_cu_epilogue &e, lo_i64 col, int count) {
  return e.bias.p ? lo_load4(e.bias, col, count) : make_float4(0, 0, 0, 0);
}

/* ---- What most products end with: scales, alpha, a bias and an activation, into whole quads. All
 * that can be known before is known before, so that the loop over the rows of a column of quads is
 * short. The same bits as lo_finish4 gives. */
typedef struct lo_plain {
  char *p;       /* C's first row, at the quad's column */
  lo_i64 stride; /* bytes */
  float4 bias, scale;
  float alpha, floor;
} lo_plain;

LO_FN bool lo_is_plain(const lo_cu_epilogue &e, float beta) {
  return beta == 0.0f && !e.preact.p && !e.residual.p && !e.scale_c.p && e.c.vector &&
         e.c.type <= LO_TYPE_BF16 && e.derivative == LO_ACT_IDENTITY &&
         (!e.scale_a.p || e.scale_a.cols == 1);
}
/* Neither is a call in the loop. */
LO_FN bool lo_is_straight(const lo_cu_epilogue &e) {
  return e.activation == LO_ACT_IDENTITY || e.activation == LO_ACT_RELU;
}

LO_FN lo_plain lo_plain_at(const lo_cu_epilogue &e, float alpha, bool integers, lo_i64 batch,
                           lo_i64 col) {
  int size = e.c.type == LO_TYPE_F32 ? 4 : 2;
  lo_plain q = {(char *)e.c.p + (batch * e.c.batch_stride + col) * size,
                e.c.stride * size,
                lo_bias4(e, col, 4),
                make_float4(1, 1, 1, 1),
                alpha,
                e.activation == LO_ACT_RELU ? 0.0f : -LO_INFINITY};
  if (integers) q.scale = lo_scale4(e, make_int4(1, 1, 1, 1), 0, col, 4);
  return q;
}

LO_FN float4 lo_scaled4(const lo_plain &, float4 acc) {
  return acc;
}
LO_FN float4 lo_scaled4(const lo_plain &q, int4 acc) {
  return make_float4(q.scale.x * (float)acc.x, q.scale.y * (float)acc.y, q.scale.z * (float)acc.z,
                     q.scale.w * (float)acc.w);
}
LO_FN float lo_at_least_floor(float z, float floor) {
  return z < floor ? floor : z;
}
template <bool STRAIGHT, class Sum4>
LO_FN void lo_plain4(const lo_cu_epilogue &e, const lo_plain &q, Sum4 sums, lo_i64 row) {
  float4 acc = lo_scaled4(q, sums);
  float4 z = make_float4(__fmul_rn(q.alpha, acc.x), __fmul_rn(q.alpha, acc.y),
                         __fmul_rn(q.alpha, acc.z), __fmul_rn(q.alpha, acc.w));
  if (e.bias.p) z = lo_add4(z, q.bias);
  if (STRAIGHT)
    z = make_float4(lo_at_least_floor(z.x, q.floor), lo_at_least_floor(z.y, q.floor),
                    lo_at_least_floor(z.z, q.floor), lo_at_least_floor(z.w, q.floor));
  else
    z = lo_activation4(e.activation, z, e.slope);
  if (e.c.type == LO_TYPE_F32)
    lo_store_words(q.p + row * q.stride, z);
  else
    lo_store_words(q.p + row * q.stride, lo_to_16x4(z, e.c.type == LO_TYPE_BF16));
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

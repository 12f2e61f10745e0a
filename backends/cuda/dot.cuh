/* Products with at most eight rows (or columns), both operands contiguous along k: memory is the
 * limit, so each warp streams two lines of the long operand past all lines of the short one, a quad
 * a lane. */
#ifndef LO_CUDA_DOT_CUH
#define LO_CUDA_DOT_CUH

#include "backends/cuda/gemm_simt.cuh"

enum { LO_DOT_EACH = LO_CU_DOT_EACH, LO_DOT_LINES = 2, LO_DOT_WARPS = LO_DOT_EACH / LO_DOT_LINES };

LO_FN float lo_dot4(float4 a, float4 b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

/* What a lane takes of a line at a time: 16 bytes. */
template <class E> struct lo_run {
  static constexpr int QUADS = 4 / (int)sizeof(E), WIDTH = 4 * QUADS;
  float4 quad[QUADS];
  __device__ __forceinline__ void load(const unsigned short *p, int bf16) {
    uint4 u = __ldg((const uint4 *)p);
    quad[0] = lo_from_16x4(make_uint2(u.x, u.y), bf16);
    quad[1] = lo_from_16x4(make_uint2(u.z, u.w), bf16);
  }
  __device__ __forceinline__ void load(const float *p, int) { quad[0] = __ldg((const float4 *)p); }
  /* The first `count` elements, from any place. */
  __device__ __forceinline__ void some(const E *p, int count, int bf16) {
#pragma unroll
    for (int i = 0; i < QUADS; i++)
      quad[i] = lo_raw<E>::wide(lo_raw<E>::some(p + 4 * i, count - 4 * i), bf16);
  }
};

/* The sums of a lane: acc[line][s] += long[line][k] * short[s][k]. */
template <class E, int S>
LO_FN void lo_dot_lines(float (&acc)[LO_DOT_LINES][S], const E *const (&p)[LO_DOT_LINES],
                        const E *const (&q)[S], lo_i64 k, bool aligned, int bf16) {
  constexpr int WIDTH = lo_run<E>::WIDTH;
#pragma unroll 4
  for (lo_i64 at = threadIdx.x % 32 * WIDTH; at < k; at += 32 * WIDTH) {
    lo_run<E> x[LO_DOT_LINES], y;
    bool whole = aligned && k - at >= WIDTH;
    int count = k - at < WIDTH ? (int)(k - at) : WIDTH;
#pragma unroll
    for (int i = 0; i < LO_DOT_LINES; i++)
      if (whole)
        x[i].load(p[i] + at, bf16);
      else
        x[i].some(p[i] + at, count, bf16);
#pragma unroll
    for (int s = 0; s < S; s++) {
      if (whole)
        y.load(q[s] + at, bf16);
      else
        y.some(q[s] + at, count, bf16);
#pragma unroll
      for (int i = 0; i < LO_DOT_LINES; i++)
#pragma unroll
        for (int j = 0; j < lo_run<E>::QUADS; j++)
          acc[i][s] = lo_dot4(x[i].quad[j], y.quad[j], acc[i][s]);
    }
  }
}

/* The block's sums lie in shared memory as [s][line]: to quads of C's rows. */
template <int S>
LO_FN void lo_dot_finish(const lo_cu_gemm &p, float (&sums)[S][LO_DOT_EACH], lo_i64 line0,
                         lo_i64 batch, float alpha) {
  float beta = lo_scalar_float(p.e.beta);
  int quads = p.swapped ? (int)(p.n + 3) / 4 : LO_DOT_EACH / 4;
  int rows = p.swapped ? LO_DOT_EACH : (int)p.m;
  for (int v = threadIdx.x; v < rows * quads; v += 32 * LO_DOT_WARPS) {
    int r = v / quads, c = v % quads * 4;
    lo_i64 row = p.swapped ? line0 + r : r, col = p.swapped ? c : line0 + c;
    if (row >= p.m || col >= p.n) continue;
    float4 acc;
    if (p.swapped)
      acc = make_float4(sums[c % S][r], sums[(c + 1) % S][r], sums[(c + 2) % S][r],
                        sums[(c + 3) % S][r]);
    else
      acc = *(const float4 *)&sums[r][c];
    int count = lo_quad_count(p.n, col);
    lo_epilogue4(p.e, alpha, beta, acc, lo_bias4(p.e, col, count), batch, row, col, count);
  }
}

/* grid: x groups of lines, z matrices of the batch */
template <class E, int S> LO_FN void lo_gemm_dot(const lo_cu_gemm &p) {
  __shared__ __align__(16) float sums[S][LO_DOT_EACH];
  const lo_cu_operand &lines = p.swapped ? p.a : p.b, &shorts = p.swapped ? p.b : p.a;
  lo_i64 line0 = (p.tile0 + blockIdx.x) * LO_DOT_EACH;
  int first = threadIdx.x / 32 * LO_DOT_LINES;
  float alpha = lo_scalar_float(p.e.alpha);
  lo_i64 k = alpha == 0.0f ? 0 : p.k;
  for (lo_i64 l = blockIdx.z; l < p.batch; l += gridDim.z) {
    const E *long_lines[LO_DOT_LINES], *short_lines[S];
    float acc[LO_DOT_LINES][S] = {};
    for (int i = 0; i < LO_DOT_LINES; i++) {
      lo_i64 line = line0 + first + i < lines.extent ? line0 + first + i : lines.extent - 1;
      long_lines[i] = (const E *)lines.p + l * lines.batch_stride + line * lines.stride;
    }
    for (int s = 0; s < S; s++) {
      lo_i64 line = s < shorts.extent ? s : shorts.extent - 1;
      short_lines[s] = (const E *)shorts.p + l * shorts.batch_stride + line * shorts.stride;
    }
    bool aligned = sizeof(E) == 4 ? lines.vector && shorts.vector : lines.vector8 && shorts.vector8;
    lo_dot_lines<E, S>(acc, long_lines, short_lines, k, aligned, p.bf16);
#pragma unroll
    for (int i = 0; i < LO_DOT_LINES; i++)
#pragma unroll
      for (int s = 0; s < S; s++) {
        float sum = lo_warp_sum(acc[i][s]);
        if (threadIdx.x % 32 == 0) sums[s][first + i] = sum;
      }
    __syncthreads();
    lo_dot_finish<S>(p, sums, line0, l, alpha);
    __syncthreads();
  }
}

#endif

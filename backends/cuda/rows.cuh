/* Work on rows: the threads that share one, and its elements in their registers. A row that is too
 * long for registers is read anew by each pass. */
#ifndef LO_CUDA_ROWS_CUH
#define LO_CUDA_ROWS_CUH

#include "backends/cuda/prelude.cuh"

/* A maximum and the first place where it stands; NaN counts as largest. */
struct lo_peak {
  float value;
  lo_i64 place;
};

LO_FN bool lo_above(float a, float b) {
  return a > b || (a != a && b == b);
}
LO_FN bool lo_level(float a, float b) {
  return a == b || (a != a && b != b);
}
LO_FN lo_peak lo_higher(lo_peak a, lo_peak b) {
  return lo_above(b.value, a.value) || (lo_level(a.value, b.value) && b.place < a.place) ? b : a;
}

/* The threads that share a row: part of a warp, or a block of 256. Sums have a fixed order: within
 * a thread, across lanes, across warps. */
template <int THREADS> struct lo_team {
  static constexpr int ROWS = 256 / THREADS; /* a block's */
  static constexpr int SPAN = THREADS < 32 ? THREADS : 32;
  float *floats; /* shared, one a warp */
  lo_peak *peaks;
  int lane;

  __device__ __forceinline__ lo_team(float *f, lo_peak *k)
      : floats(f), peaks(k), lane(threadIdx.x % THREADS) {}
  /* Only the lanes of this row may be here. */
  __device__ __forceinline__ unsigned mask() {
    return SPAN == 32 ? 0xffffffffu : ((1u << SPAN % 32) - 1) << threadIdx.x % 32 / SPAN * SPAN;
  }
  __device__ __forceinline__ float sum(float v) {
#pragma unroll
    for (int d = SPAN / 2; d; d /= 2) v += __shfl_xor_sync(mask(), v, d);
    if (THREADS <= 32) return v;
    __syncthreads();
    if (threadIdx.x % 32 == 0) floats[threadIdx.x / 32] = v;
    __syncthreads();
    float all = 0;
    for (int w = 0; w < THREADS / 32; w++) all += floats[w];
    return all;
  }
  __device__ __forceinline__ float maximum(float v) {
#pragma unroll
    for (int d = SPAN / 2; d; d /= 2) v = fmaxf(v, __shfl_xor_sync(mask(), v, d));
    if (THREADS <= 32) return v;
    __syncthreads();
    if (threadIdx.x % 32 == 0) floats[threadIdx.x / 32] = v;
    __syncthreads();
    for (int w = 0; w < THREADS / 32; w++) v = fmaxf(v, floats[w]);
    return v;
  }
  __device__ __forceinline__ lo_peak highest(lo_peak k) {
#pragma unroll
    for (int d = SPAN / 2; d; d /= 2) {
      lo_peak other = {__shfl_xor_sync(mask(), k.value, d), __shfl_xor_sync(mask(), k.place, d)};
      k = lo_higher(k, other);
    }
    if (THREADS <= 32) return k;
    __syncthreads();
    if (threadIdx.x % 32 == 0) peaks[threadIdx.x / 32] = k;
    __syncthreads();
    for (int w = 0; w < THREADS / 32; w++) k = lo_higher(k, peaks[w]);
    return k;
  }
  /* What the team has read may now be overwritten. */
  __device__ __forceinline__ void meet() {
    if (THREADS <= 32)
      __syncwarp(mask());
    else
      __syncthreads();
  }
};

#define LO_TEAM_SHARED                                                                             \
  __shared__ float shared_floats[8];                                                               \
  __shared__ lo_peak shared_peaks[8];

/* A row's elements, of which a lane has every THREADS-th quad. each(f) calls f(quad, col, count)
 * for a lane's quads, of which `count` elements are the row's; what f leaves in a quad is kept
 * where HELD, and found again by the next pass. */
template <int THREADS, int QUADS> struct lo_line {
  static constexpr bool HELD = true;
  lo_i64 cols;
  int lane;
  float4 quad[QUADS];

  /* All loads are on their way before one is waited for. */
  __device__ __forceinline__ void load(const lo_cu_view &v, lo_i64 row, int at_lane) {
    cols = v.cols;
    lane = at_lane;
    lo_i64 at = row * v.stride + 4 * lane;
    if (!v.vector || cols % 4) {
#pragma unroll
      for (int i = 0; i < QUADS; i++) {
        lo_i64 left = cols - 4 * (i * THREADS + lane);
        quad[i] = lo_load4(v, at + 4 * THREADS * i, left < 4 ? (int)left : 4);
      }
    } else if (v.type == LO_TYPE_F32) {
#pragma unroll
      for (int i = 0; i < QUADS; i++)
        if (4 * (i * THREADS + lane) < cols)
          quad[i] = *(const float4 *)((const float *)v.p + at + 4 * THREADS * i);
    } else {
      uint2 raw[QUADS];
#pragma unroll
      for (int i = 0; i < QUADS; i++)
        if (4 * (i * THREADS + lane) < cols)
          raw[i] = *(const uint2 *)((const unsigned short *)v.p + at + 4 * THREADS * i);
#pragma unroll
      for (int i = 0; i < QUADS; i++)
        if (4 * (i * THREADS + lane) < cols) quad[i] = lo_from_16x4(raw[i], v.type == LO_TYPE_BF16);
    }
  }
  template <class F> __device__ __forceinline__ void each(F f) {
#pragma unroll
    for (int i = 0; i < QUADS; i++) {
      lo_i64 col = 4 * (i * THREADS + lane), left = cols - col;
      if (left > 0) f(quad[i], col, left < 4 ? (int)left : 4);
    }
  }
};

template <int THREADS> struct lo_line<THREADS, 0> {
  static constexpr bool HELD = false;
  const lo_cu_view *view;
  lo_i64 at;
  int lane;

  __device__ __forceinline__ void load(const lo_cu_view &v, lo_i64 row, int at_lane) {
    view = &v;
    at = row * v.stride;
    lane = at_lane;
  }
  template <class F> __device__ __forceinline__ void each(F f) {
#pragma unroll 4
    for (lo_i64 col = 4 * lane; col < view->cols; col += 4 * THREADS) {
      int count = lo_quad_count(view->cols, col);
      float4 quad = lo_load4(*view, at + col, count);
      f(quad, col, count);
    }
  }
};

/* f(element, index) for the first `count` of a quad. */
template <class F> LO_FN void lo_elements(float4 &quad, int count, F f) {
  f(quad.x, 0);
  if (count > 1) f(quad.y, 1);
  if (count > 2) f(quad.z, 2);
  if (count > 3) f(quad.w, 3);
}

/* body(row) for the rows that are this team's. */
template <int THREADS, class F> LO_FN void lo_each_row(lo_team<THREADS> &t, lo_i64 rows, F body) {
  lo_i64 step = (lo_i64)gridDim.x * t.ROWS;
  for (lo_i64 row = (lo_i64)blockIdx.x * t.ROWS + threadIdx.x / THREADS; row < rows; row += step)
    body(row);
}

#endif

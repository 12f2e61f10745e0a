/* Work on rows: the threads that share one, and its elements in their registers. */
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

/* body(row) for the rows that are this team's. */
template <int THREADS, class F> LO_FN void lo_each_row(lo_team<THREADS> &t, lo_i64 rows, F body) {
  lo_i64 step = (lo_i64)gridDim.x * t.ROWS;
  for (lo_i64 row = (lo_i64)blockIdx.x * t.ROWS + threadIdx.x / THREADS; row < rows; row += step)
    body(row);
}

/* A lane's part of SPAN elements of a row from column `begin` on: quads of neighbours where all
 * views are whole (four may be moved at once, and a row is made of such), else every THREADS-th
 * element. What lies beyond the row is as it was filled, and is not stored. */
template <int THREADS, int QUADS> struct lo_line {
  static constexpr int COUNT = 4 * QUADS, SPAN = THREADS * COUNT;
  lo_i64 first; /* the lane's first column */
  int left;     /* elements of the row from there on, or more than there can be here */
  bool whole;
  float x[COUNT];

  __device__ __forceinline__ lo_line(lo_i64 cols, lo_i64 begin, int lane, bool is_whole)
      : first(begin + (is_whole ? 4 * lane : lane)), whole(is_whole) {
    left = cols - first < SPAN ? (int)(cols - first) : SPAN;
  }
  __device__ __forceinline__ lo_i64 column(int j) const {
    return first + (whole ? 4 * THREADS * (j / 4) + j % 4 : THREADS * j);
  }
  __device__ __forceinline__ bool owns(lo_i64 col) const {
    lo_i64 d = col - first;
    return d >= 0 && d < left && (whole ? d % (4 * THREADS) < 4 : d % THREADS == 0);
  }
  __device__ __forceinline__ bool has_quad(int i) const { return 4 * THREADS * i < left; }
  __device__ __forceinline__ bool has(int j) const { return THREADS * j < left; }
  __device__ __forceinline__ void set(int i, float4 f) {
    x[4 * i] = f.x;
    x[4 * i + 1] = f.y;
    x[4 * i + 2] = f.z;
    x[4 * i + 3] = f.w;
  }
  /* All loads are on their way before one is waited for. */
  __device__ __forceinline__ void load_f32(const float *p) {
    if (whole) {
#pragma unroll
      for (int i = 0; i < QUADS; i++)
        if (has_quad(i)) set(i, *(const float4 *)(p + 4 * THREADS * i));
    } else {
#pragma unroll
      for (int j = 0; j < COUNT; j++)
        if (has(j)) x[j] = p[THREADS * j];
    }
  }
  /* Elements come as they are into the registers that then hold them wide. */
  __device__ __forceinline__ void load_16(const unsigned short *p, int bf16) {
    if (whole) {
#pragma unroll
      for (int i = 0; i < QUADS; i++)
        if (has_quad(i)) {
          uint2 raw = *(const uint2 *)(p + 4 * THREADS * i);
          x[4 * i] = __uint_as_float(raw.x);
          x[4 * i + 1] = __uint_as_float(raw.y);
        }
#pragma unroll
      for (int i = 0; i < QUADS; i++)
        if (has_quad(i)) {
          uint2 raw = make_uint2(__float_as_uint(x[4 * i]), __float_as_uint(x[4 * i + 1]));
          set(i, lo_from_16x4(raw, bf16));
        }
    } else {
#pragma unroll
      for (int j = 0; j < COUNT; j++)
        if (has(j)) x[j] = __uint_as_float(p[THREADS * j]);
#pragma unroll
      for (int j = 0; j < COUNT; j++)
        if (has(j)) x[j] = lo_from_16((unsigned short)__float_as_uint(x[j]), bf16);
    }
  }
  __device__ __forceinline__ void load(const lo_cu_view &v, lo_i64 row, float fill) {
    lo_i64 at = row * v.stride + first;
#pragma unroll
    for (int j = 0; j < COUNT; j++) x[j] = fill;
    if (v.type == LO_TYPE_F32)
      load_f32((const float *)v.p + at);
    else
      load_16((const unsigned short *)v.p + at, v.type == LO_TYPE_BF16);
  }
  __device__ __forceinline__ void store_f32(float *p) const {
    if (whole) {
#pragma unroll
      for (int i = 0; i < QUADS; i++)
        if (has_quad(i))
          *(float4 *)(p + 4 * THREADS * i) =
              make_float4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
    } else {
#pragma unroll
      for (int j = 0; j < COUNT; j++)
        if (has(j)) p[THREADS * j] = x[j];
    }
  }
  __device__ __forceinline__ void store_16(unsigned short *p, int bf16) const {
    if (whole) {
#pragma unroll
      for (int i = 0; i < QUADS; i++)
        if (has_quad(i))
          *(uint2 *)(p + 4 * THREADS * i) =
              lo_to_16x4(make_float4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]), bf16);
    } else {
#pragma unroll
      for (int j = 0; j < COUNT; j++)
        if (has(j)) p[THREADS * j] = lo_to_16(x[j], bf16);
    }
  }
  __device__ __forceinline__ void store(const lo_cu_view &v, lo_i64 row) const {
    lo_i64 at = row * v.stride + first;
    if (v.type == LO_TYPE_F32)
      store_f32((float *)v.p + at);
    else
      store_16((unsigned short *)v.p + at, v.type == LO_TYPE_BF16);
  }
};

/* ---- Softmax of a row: exp(x - base) / sum. Exponentials are of base 2, which are one
 * instruction; t log2(e) is rounded once, as t is. */
LO_FN float lo_exp_of(float t) {
  return lo_exp2(t * 1.4426950408889634f);
}

/* Nothing but -infinity so far must not make NaN. */
LO_FN float lo_base_of(float top) {
  return top == -__builtin_huge_valf() ? 0.0f : top;
}

/* What a lane has seen so far: the maximum, and the sum of exp(x - maximum), which is brought to a
 * new maximum whenever there is one. NaN does not win the maximum but spoils the sum. */
struct lo_lane_sum {
  float top, sum;

  __device__ __forceinline__ lo_lane_sum() : top(-__builtin_huge_valf()), sum(0) {}
  __device__ __forceinline__ float base() const { return lo_base_of(top); }
  /* Adds the elements. keep: they become their exponentials, relative to base(). */
  template <int COUNT> __device__ __forceinline__ void add(float (&x)[COUNT], bool keep) {
    float highest = x[0], part[4] = {0, 0, 0, 0};
#pragma unroll
    for (int j = 1; j < COUNT; j++) highest = fmaxf(highest, x[j]);
    highest = fmaxf(top, highest);
    sum *= lo_exp_of(top - lo_base_of(highest));
    top = highest;
    float b = base();
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
      float e = lo_exp_of(x[j] - b);
      part[j % 4] += e;
      if (keep) x[j] = e;
    }
    sum += (part[0] + part[1]) + (part[2] + part[3]);
  }
};

/* The row's: log softmax(x) = x - top - shift, softmax(x) = exp(x - lane's base) * scale. */
struct lo_row_sum {
  float top, shift, scale;

  template <int THREADS>
  __device__ __forceinline__ lo_row_sum(lo_team<THREADS> &t, const lo_lane_sum &lane) {
    top = t.maximum(lane.top);
    float factor = lo_exp_of(lane.top - top), sum = t.sum(lane.sum * factor);
    shift = logf(sum);
    scale = factor / sum;
  }
};

#endif

/* Block-sparse products on ordinary cores, in f32 whatever the types: the loop of gemm_simt.cuh,
 * with loaders that know of types, layouts, gates and the edges of W.
 *
 * Where tiles are few, or short, SLICES warps of a block share out the steps of a tile: each has a
 * stage of its own, which it meets nobody at, and their sums are added in their order. */
#ifndef LO_CUDA_BSR_SIMT_CUH
#define LO_CUDA_BSR_SIMT_CUH

#include "backends/cuda/bsr_launch.h"
#include "backends/cuda/gemm_simt.cuh"

/* ---- Four neighbours as they come from memory, in the first words of a quad. */
template <> struct lo_raw<signed char> {
  static __device__ __forceinline__ unsigned load(const signed char *p) {
    return lo_load((const unsigned *)p);
  }
  static __device__ __forceinline__ unsigned some(const signed char *p, int count) {
    return count > 3 ? load(p) : 0u; /* blocks are stored whole */
  }
};
LO_FN float4 lo_words(float4 q) {
  return q;
}
LO_FN float4 lo_words(uint2 q) {
  return make_float4(__uint_as_float(q.x), __uint_as_float(q.y), 0.0f, 0.0f);
}
LO_FN float4 lo_words(unsigned q) {
  return make_float4(__uint_as_float(q), 0.0f, 0.0f, 0.0f);
}
LO_FN float4 lo_wide(float4 q, int type) {
  int word = __float_as_int(q.x);
  if (type == LO_TYPE_I8)
    return make_float4((float)(signed char)word, (float)(signed char)(word >> 8),
                       (float)(signed char)(word >> 16), (float)(word >> 24));
  return lo_from_16x4(make_uint2(__float_as_uint(q.x), __float_as_uint(q.y)), type == LO_TYPE_BF16);
}

/* ---- Brings BK x EXTENT elements of an operand to shared memory. A thread's quads lie along
 * `inner`, the dimension that is contiguous in memory: k, or the extent. GATHER: each of its loads
 * begins where gather() is told. */
template <int EXTENT, int BK, int PITCH, int THREADS, bool GATHER = false> struct lo_bsr_loader {
  static constexpr int QUADS = EXTENT * BK / 4, LOADS = (QUADS + THREADS - 1) / THREADS;
  static constexpr int STEP_K = THREADS / (BK / 4), STEP = THREADS / (EXTENT / 4);
  static constexpr int SWIZZLE = 128 / BK;
  static constexpr bool ALL = QUADS % THREADS == 0;
  static_assert(ALL || QUADS < THREADS, "threads have as many quads, or one or none");
  static_assert(STEP >= 1 && STEP_K >= 1, "a thread's quads stand below each other");

  bool k_inner;
  int type, shift;                   /* shift: the logarithm of an element's bytes */
  int outer, inner;                  /* of the first quad */
  int extent_left;                   /* of the extent what is there */
  lo_i64 k_stride, line;             /* bytes from one k, and one load, to the next */
  const char *p[GATHER ? LOADS : 1]; /* at k = 0; gathered, NULL where nothing is */
  float4 raw[LOADS];

  __device__ __forceinline__ lo_bsr_loader(int thread, bool k_inner_, int type_, lo_i64 stride,
                                           lo_i64 left)
      : k_inner(k_inner_), type(type_), shift(type_ == LO_TYPE_F32  ? 2
                                              : type_ == LO_TYPE_I8 ? 0
                                                                    : 1),
        outer(k_inner_ ? thread / (BK / 4) : thread / (EXTENT / 4)),
        inner(k_inner_ ? thread % (BK / 4) * 4 : thread % (EXTENT / 4) * 4),
        extent_left(left < EXTENT ? (int)left : EXTENT), k_stride((k_inner_ ? 1 : stride) << shift),
        line((k_inner_ ? STEP_K : STEP) * stride << shift) {}
  /* `first`: of the extent, at k = 0. */
  __device__ __forceinline__ void begin(const void *first, lo_i64 stride) {
    p[0] = (const char *)first + ((outer * stride + inner) << shift);
  }
  /* line_of(i): the address of line i of the extent at k = 0. */
  template <class Lines> __device__ __forceinline__ void gather(lo_i64 stride, Lines line_of) {
#pragma unroll
    for (int l = 0; l < LOADS; l++) {
      const char *at = (const char *)line_of(k_inner ? outer + l * STEP_K : inner);
      p[GATHER ? l : 0] = at ? at + ((k_inner ? inner : (outer + l * STEP) * stride) << shift) : at;
    }
  }
  __device__ __forceinline__ bool has_quads() const {
    return ALL || outer < (k_inner ? EXTENT : BK);
  }

  template <class E, bool WHOLE>
  __device__ __forceinline__ void take(lo_i64 at, int k_left, bool vector) {
    int outer_left = (k_inner ? extent_left : k_left) - outer;
    int inner_left = (k_inner ? k_left : extent_left) - inner;
    int step = k_inner ? STEP_K : STEP;
#pragma unroll
    for (int l = 0; l < LOADS; l++) {
      const E *q = (const E *)(p[GATHER ? l : 0] + at + (GATHER ? 0 : l * line));
      bool in = has_quads() && (WHOLE || (l * step < outer_left && (!GATHER || p[GATHER ? l : 0])));
      if (in && (WHOLE || (vector && inner_left >= 4)))
        raw[l] = lo_words(lo_raw<E>::load(q));
      else
        raw[l] = lo_words(lo_raw<E>::some(q, in && !WHOLE ? inner_left : 0));
    }
  }
  /* The step that begins `at` bytes behind k = 0, of which k_left count. WHOLE: nothing need be
   * asked. */
  template <bool WHOLE> __device__ __forceinline__ void fetch(lo_i64 at, int k_left, bool vector) {
    if (type == LO_TYPE_F32)
      take<float, WHOLE>(at, k_left, vector);
    else if (type == LO_TYPE_I8)
      take<signed char, WHOLE>(at, k_left, vector);
    else
      take<unsigned short, WHOLE>(at, k_left, vector);
  }

  __device__ __forceinline__ void multiply(float by) {
#pragma unroll
    for (int l = 0; l < LOADS; l++)
      raw[l] = make_float4(raw[l].x * by, raw[l].y * by, raw[l].z * by, raw[l].w * by);
  }
  __device__ __forceinline__ void widen() {
    if (type == LO_TYPE_F32) return;
#pragma unroll
    for (int l = 0; l < LOADS; l++) raw[l] = lo_wide(raw[l], type);
  }
  __device__ __forceinline__ void store(float *stage) const {
    if (!has_quads()) return;
    if (k_inner) {
      int swizzle = inner / 4 * SWIZZLE;
#pragma unroll
      for (int l = 0; l < LOADS; l++) {
        float *s = stage + inner * PITCH + ((outer + l * STEP_K) ^ swizzle);
        s[0] = raw[l].x;
        s[PITCH] = raw[l].y;
        s[2 * PITCH] = raw[l].z;
        s[3 * PITCH] = raw[l].w;
      }
    } else {
#pragma unroll
      for (int l = 0; l < LOADS; l++) {
        int k = outer + l * STEP;
        *(float4 *)(stage + k * PITCH + (inner ^ k / 4 * SWIZZLE)) = raw[l];
      }
    }
  }
};

/* ---- What becomes of the sums: each(row, column, quad). */

/* The tile seen with its columns as rows. */
template <class T> using lo_flipped = lo_tile<T::BN, T::BM, T::BK, T::TN, T::TM, T::LY>;

template <class T>
LO_FN void lo_flip(float (&to)[T::TN][T::TM], const float (&from)[T::TM][T::TN]) {
#pragma unroll
  for (int i = 0; i < T::TM; i++)
#pragma unroll
    for (int j = 0; j < T::TN; j++) to[j][i] = from[i][j];
}
template <class T> LO_FN lo_place<lo_flipped<T>> lo_flip(const lo_place<T> &at) {
  lo_place<lo_flipped<T>> to;
  to.ty = at.tx;
  to.tx = at.ty;
  to.row = at.col;
  to.col = at.row;
  return to;
}

/* Words of shared memory: the stages, and then the sums. */
template <class T, int SLICES>
constexpr int lo_bsr_words = SLICES == 1
                                 ? T::WORDS
                                 : SLICES *(T::BM *T::BN > T::STAGE ? T::BM * T::BN : T::STAGE);

template <class T, int SLICES, class Each>
LO_FN void lo_collect_slices(const float (&acc)[T::TM][T::TN], float *shared, int slice,
                             const lo_place<T> &at, Each each) {
  constexpr int WORDS = T::BM * T::BN;
  __syncthreads(); /* until no stage is read any more */
#pragma unroll
  for (int i = 0; i < T::TM; i++)
#pragma unroll
    for (int q = 0; q < T::TN; q += 4) {
      int row = at.row + i / 4 * 4 * T::LY + i % 4, col = at.col + q * T::LX;
      *(float4 *)(shared + slice * WORDS + row * T::BN + col) = *(const float4 *)&acc[i][q];
    }
  __syncthreads();
#pragma unroll 1
  for (int v = threadIdx.x; v < WORDS / 4; v += SLICES * T::THREADS) {
    float4 sum = *(const float4 *)(shared + 4 * v);
#pragma unroll
    for (int s = 1; s < SLICES; s++)
      sum = lo_add4(sum, *(const float4 *)(shared + s * WORDS + 4 * v));
    each(v / (T::BN / 4), v % (T::BN / 4) * 4, sum);
  }
  __syncthreads();
}
template <class T, int SLICES, class Each>
LO_FN void lo_collect(const float (&acc)[T::TM][T::TN], float *shared, int slice,
                      const lo_place<T> &at, Each each) {
  if constexpr (SLICES > 1)
    lo_collect_slices<T, SLICES>(acc, shared, slice, at, each);
  else
    lo_drain<T>(acc, shared, at, each);
}

/* ---- The loop of a slice. Its place is counted from its first thread. */
template <class T> struct lo_bsr_core : lo_simt_core<float, T> {
  __device__ __forceinline__ lo_bsr_core(int slice) {
    this->at.row -= slice * T::BM;
    this->at.ty -= slice * T::THREAD_ROWS;
  }
  __device__ __forceinline__ void multiply_stage(const float *stage) {
    this->load(stage, 0);
#pragma unroll
    for (int k = 0; k < T::BK; k++) {
      if (k + 1 < T::BK) this->load(stage, k + 1);
      lo_simt_core<float, T>::multiply(k);
    }
  }
};

template <class Iterator> LO_FN void lo_fetch_step(Iterator &it, int s) {
  if (s < it.whole)
    it.template fetch<true>();
  else
    it.template fetch<false>();
}
/* While one step is multiplied the next is on its way in registers. */
template <class T, class Iterator>
LO_FN void lo_slice_loop(lo_bsr_core<T> &core, float *stage, Iterator &it) {
  static_assert(T::THREADS == 32, "a slice is a warp");
  if (it.steps > 0) lo_fetch_step(it, 0);
#pragma unroll 1
  for (int s = 0; s < it.steps; s++) {
    it.store(stage);
    __syncwarp();
    if (s + 1 < it.steps) {
      it.next();
      lo_fetch_step(it, s + 1);
    }
    core.multiply_stage(stage);
    __syncwarp();
  }
}
template <class T, int SLICES, class Iterator>
LO_FN void lo_bsr_loop(lo_bsr_core<T> &core, float *shared, int slice, Iterator &it) {
  if constexpr (SLICES > 1)
    lo_slice_loop<T>(core, shared + slice * T::STAGE, it);
  else
    lo_main_loop(core, shared, it);
}

/* Of `steps` steps those of a slice, which are neighbours. */
typedef struct lo_share {
  int first, count;
} lo_share;
template <int SLICES> LO_FN lo_share lo_share_of(int steps, int slice) {
  int each = (steps + SLICES - 1) / SLICES, first = slice * each, left = steps - first;
  return {first, left < 0 ? 0 : left < each ? left : each};
}

#endif

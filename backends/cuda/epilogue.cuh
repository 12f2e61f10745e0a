/* All that follows the sums of a product. Every main loop ends here, so all of them give the same
 * bits: rounding is spelled out, and nothing is fused that is not said to be.
 *
 * A lane finishes N pieces of V neighbours of a row, STEP rows apart, all N through one stage after
 * the other: what is asked of the parameters is asked once for N pieces, their loads are on their
 * way together, and their arithmetic overlaps.
 *
 *   lo_finish_warp   a warp's sums that lie in shared memory
 *   lo_finish_one    one piece that a thread holds, and lo_finish_quad */
#ifndef LO_CUDA_EPILOGUE_CUH
#define LO_CUDA_EPILOGUE_CUH

#include "backends/cuda/prelude.cuh"

LO_FN float4 lo_add4(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
LO_FN int4 lo_add4(int4 a, int4 b) {
  return make_int4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

template <class Sum> static constexpr bool lo_integers = false;
template <> constexpr bool lo_integers<int> = true;

/* What is left from `first` on, at most `most`. */
LO_FN int lo_left(lo_i64 extent, lo_i64 first, int most) {
  return extent - first < most ? (int)(extent - first) : most;
}

/* ---- Vectors beside a product. */
LO_FN float lo_load(const lo_cu_vector &v, lo_i64 at) {
  if (v.type == LO_TYPE_F32) return ((const float *)v.p)[at];
  return lo_from_16(((const unsigned short *)v.p)[at], v.type == LO_TYPE_BF16);
}
/* The bias of a column; -0, which changes no sum, where there is none. */
LO_FN float lo_bias_of(const lo_cu_epilogue &e, lo_i64 col) {
  return e.bias.p ? lo_load(e.bias, e.bias.one ? 0 : col) : -0.0f;
}
/* Whether the sums count: where alpha is 0 neither they nor their scales do, whatever these are. */
LO_FN bool lo_sums_count(const lo_cu_epilogue &e) {
  return lo_scalar_float(e.alpha) != 0.0f;
}
/* The scale of a column of 8-bit integers, with op(A)'s where that is one for all rows; and those
 * of rows, or NULL. */
typedef struct lo_scale_pair {
  float a, b;
} lo_scale_pair;
LO_FN lo_scale_pair lo_scales_of(const lo_cu_epilogue &e, lo_i64 col, bool counts) {
  const float *a = counts && e.scale_a.one ? (const float *)e.scale_a.p : NULL;
  const float *b = counts ? (const float *)e.scale_b.p : NULL;
  return {a ? *a : 1.0f, b ? b[e.scale_b.one ? 0 : col] : 1.0f};
}
LO_FN float lo_scale_of(const lo_cu_epilogue &e, lo_i64 col) {
  lo_scale_pair s = lo_scales_of(e, col, lo_sums_count(e));
  return __fmul_rn(s.a, s.b);
}
/* What the sums are multiplied by: alpha, with scales that are one number each; those of rows, or
 * NULL. */
typedef struct lo_factors {
  float alpha;
  const float *row_scales;
} lo_factors;
LO_FN lo_factors lo_factors_of(const lo_cu_epilogue &e) {
  float alpha = lo_scalar_float(e.alpha);
  bool by_row = e.scale_a.p && !e.scale_a.one && alpha != 0.0f;
  if (e.alpha.scaled) alpha = __fmul_rn(alpha, lo_scale_of(e, 0));
  return {alpha, by_row ? (const float *)e.scale_a.p : NULL};
}
LO_FN float lo_divisor_of(const lo_cu_epilogue &e) {
  return e.scale_c.p ? *(const float *)e.scale_c.p : 1.0f;
}

/* ---- Division by one number, for 8-bit integers.
 *
 * The quotient is rounded as a division rounds it wherever an integer depends on that. With r the
 * rounded reciprocal of s and r + low that of twice the digits, q = z r + z low is less than a unit
 * from z / s; then z - q s is exact, and q + (z - q s) r is the rounded quotient (Markstein). Held
 * at +-512, where all saturate, nothing overflows but in the last step; below 1/4 all are 0. For s
 * from 2^-100 to 2^100 no digit underflows. */
typedef struct lo_divisor {
  float s, r, low;
  bool ordinary;
} lo_divisor;
LO_FN lo_divisor lo_divisor_by(float s) {
  float r = __frcp_rn(s), size = fabsf(s);
  return {s, r, __fmul_rn(__fmaf_rn(-s, r, 1.0f), r), size >= 0x1p-100f && size <= 0x1p+100f};
}
LO_FN float lo_quotient(const lo_divisor &d, float z) {
  float q = __fmaf_rn(z, d.r, __fmul_rn(z, d.low));
  q = fminf(fmaxf(q, -512.0f), 512.0f);
  return __fmaf_rn(__fmaf_rn(-q, d.s, z), d.r, q);
}

/* ---- What belongs to V neighbouring columns; all but the bias is of 8-bit integers. */
template <int V> struct lo_columns {
  float bias[V], scale[V];
  int sums[V]; /* over k of op(B)'s columns */
  lo_divisor divisor;
};

/* What belongs to the columns of a tile, in shared memory since the kernel began: at the end it
 * would have to be waited for. `sums` are the main loop's to fill. The first BN threads bring a
 * column each. SCALED: operands are of 8 bits. */
template <int BN_, bool INTEGER_, bool SCALED_ = INTEGER_, bool SUMS_ = INTEGER_>
struct __align__(16) lo_tile_columns {
  static constexpr int BN = BN_;
  static constexpr bool INTEGER = INTEGER_, SCALED = SCALED_, SUMS = SUMS_;
  float bias[BN], scale[SCALED ? BN : 4];
  int sums[SUMS ? BN : 4];
  lo_divisor divisor;
  lo_factors factors; /* where stage() had few threads */

  struct column_t {
    float bias, scale, divisor;
  };
  /* Of the first `count` columns, which are there. On their way: store() waits for them. */
  static __device__ __forceinline__ column_t load(const lo_cu_epilogue &e, lo_i64 col0, int count) {
    column_t c = {-0.0f, 1.0f, 1.0f};
    int i = threadIdx.x;
    lo_scale_pair s = {};
    if (i >= count) return c;
    if (SCALED) s = lo_scales_of(e, col0 + i, lo_sums_count(e)), c.divisor = lo_divisor_of(e);
    c.bias = lo_bias_of(e, col0 + i);
    if (SCALED) c.scale = __fmul_rn(s.a, s.b);
    return c;
  }
  /* By all threads of the block, which meet before they read. */
  __device__ __forceinline__ void store(const column_t &c) {
    int i = threadIdx.x;
    if (i >= BN) return;
    bias[i] = c.bias;
    if (SCALED) scale[SCALED ? i : 0] = c.scale;
    if (SCALED && i == 0) divisor = lo_divisor_by(c.divisor);
  }
  __device__ __forceinline__ void stage(const lo_cu_epilogue &e, lo_i64 col0, int count) {
    store(load(e, col0, count));
  }
  /* By fewer threads than columns, of which this one is number `first`. What is one for all is
   * asked for before the first column is waited for. */
  __device__ __forceinline__ void stage(const lo_cu_epilogue &e, lo_i64 col0, int count, int first,
                                        int threads) {
    float by = SCALED ? lo_divisor_of(e) : 1.0f;
    bool counts = lo_sums_count(e);
    lo_factors times;
    if (first == 0) times = lo_factors_of(e);
#pragma unroll 1
    for (int i = first; i < count; i += threads) {
      lo_scale_pair s = {};
      if (SCALED) s = lo_scales_of(e, col0 + i, counts);
      bias[i] = lo_bias_of(e, col0 + i);
      if (SCALED) scale[SCALED ? i : 0] = __fmul_rn(s.a, s.b);
    }
    if (first) return;
    if (SCALED) divisor = lo_divisor_by(by);
    factors = times;
  }
  template <int V> __device__ __forceinline__ lo_columns<V> at(int column) const {
    lo_columns<V> c;
#pragma unroll
    for (int v = 0; v < V; v++) {
      c.bias[v] = bias[column + v];
      c.scale[v] = INTEGER ? scale[INTEGER ? column + v : 0] : 1.0f;
      c.sums[v] = SUMS ? sums[SUMS ? column + v : 0] : 0;
    }
    if (INTEGER) c.divisor = divisor;
    return c;
  }
};
/* ---- Elements in memory: V neighbours, `whole` at once, else the first `count` one by one. */
template <int V> LO_FN void lo_put_f32(char *p, const float (&z)[V], bool whole, int count) {
  if (V == 4 && whole) {
    lo_store_words(p, make_float4(z[0], z[1 % V], z[2 % V], z[3 % V]));
    return;
  }
#pragma unroll
  for (int v = 0; v < V; v++)
    if (v < count) ((float *)p)[v] = z[v];
}
template <int V>
LO_FN void lo_put_16(char *p, const float (&z)[V], int bf16, bool whole, int count) {
  if (V == 4) {
    uint2 u = lo_to_16x4(make_float4(z[0], z[1 % V], z[2 % V], z[3 % V]), bf16);
    if (whole) {
      lo_store_words(p, u);
      return;
    }
    const unsigned short h[4] = {(unsigned short)u.x, (unsigned short)(u.x >> 16),
                                 (unsigned short)u.y, (unsigned short)(u.y >> 16)};
#pragma unroll
    for (int v = 0; v < 4; v++)
      if (v < count) ((unsigned short *)p)[v] = h[v];
  } else {
#pragma unroll
    for (int v = 0; v < V; v++)
      if (v < count) ((unsigned short *)p)[v] = lo_to_16(z[v], bf16);
  }
}
template <int V>
LO_FN void lo_put_8(char *p, const float (&z)[V], int type, bool whole, int count) {
  if (V == 4) {
    unsigned u = lo_to_bytes(make_float4(z[0], z[1 % V], z[2 % V], z[3 % V]), type);
    if (whole) {
      *(unsigned *)p = u;
      return;
    }
#pragma unroll
    for (int v = 0; v < 4; v++)
      if (v < count) p[v] = (char)(u >> 8 * v);
  } else {
#pragma unroll
    for (int v = 0; v < V; v++)
      if (v < count) p[v] = (char)lo_to_byte(z[v], type);
  }
}

/* Where pieces lie: of a lane's rows the first `rows` STEP-th are there; of a piece's elements the
 * first `count`, to be moved at once where `whole`. */
typedef struct lo_pieces {
  lo_i64 row, col;
  int rows, count;
  bool whole;
} lo_pieces;

/* Elements of a type as bytes. */
LO_FN lo_i64 lo_bytes_of(int type, lo_i64 elements) {
  return elements << (type == LO_TYPE_F32 || type == LO_TYPE_I32 ? 2
                      : type <= LO_TYPE_BF16                     ? 1
                                                                 : 0);
}

#define LO_EACH_PIECE                                                                              \
  _Pragma("unroll") for (int n = 0; n < N; n++, p += step) if (n * STEP < at.rows)
#define LO_EACH_ELEMENT                                                                            \
  _Pragma("unroll") for (int n = 0; n < N; n++) _Pragma("unroll") for (int v = 0; v < V; v++)

/* Pieces of a matrix of floats; what is not there is 0. */
template <int N, int V, int STEP>
LO_FN void lo_get(float (&z)[N][V], const void *matrix, lo_i64 stride, int type,
                  const lo_pieces &at) {
  const char *p = (const char *)matrix + lo_bytes_of(type, at.row * stride + at.col);
  lo_i64 step = lo_bytes_of(type, STEP * stride);
  LO_EACH_ELEMENT z[n][v] = 0.0f;
  if (type == LO_TYPE_F32) {
    LO_EACH_PIECE {
      if (V == 4 && at.whole) {
        float4 f = *(const float4 *)p;
        z[n][0] = f.x, z[n][1 % V] = f.y, z[n][2 % V] = f.z, z[n][3 % V] = f.w;
      } else {
#pragma unroll
        for (int v = 0; v < V; v++)
          if (v < at.count) z[n][v] = ((const float *)p)[v];
      }
    }
    return;
  }
  unsigned short h[N][V] = {};
  LO_EACH_PIECE {
    if (V == 4 && at.whole) {
      uint2 u = *(const uint2 *)p;
      h[n][0] = (unsigned short)u.x, h[n][1 % V] = (unsigned short)(u.x >> 16);
      h[n][2 % V] = (unsigned short)u.y, h[n][3 % V] = (unsigned short)(u.y >> 16);
    } else {
#pragma unroll
      for (int v = 0; v < V; v++)
        if (v < at.count) h[n][v] = ((const unsigned short *)p)[v];
    }
  }
  if (type == LO_TYPE_BF16) {
    LO_EACH_ELEMENT z[n][v] = lo_from_bf16(h[n][v]);
  } else {
    LO_EACH_ELEMENT z[n][v] = lo_from_f16(h[n][v]);
  }
}
template <int N, int V, int STEP>
LO_FN void lo_put_floats(const float (&z)[N][V], char *p, lo_i64 step, int type,
                         const lo_pieces &at) {
  if (type == LO_TYPE_F32) {
    LO_EACH_PIECE lo_put_f32(p, z[n], at.whole, at.count);
  } else if (N == 1) { /* little code */
    LO_EACH_PIECE lo_put_16(p, z[n], type == LO_TYPE_BF16, at.whole, at.count);
  } else if (type == LO_TYPE_F16) {
    LO_EACH_PIECE lo_put_16(p, z[n], 0, at.whole, at.count);
  } else {
    LO_EACH_PIECE lo_put_16(p, z[n], 1, at.whole, at.count);
  }
}

/* The first of them go last, so that a rolled loop over all works on the first: no register is
 * indexed. M pieces: */
template <int M, int N, int V> LO_FN void lo_turn(float (&z)[N][V]) {
  float first[M][V];
#pragma unroll
  for (int v = 0; v < V; v++) {
#pragma unroll
    for (int m = 0; m < M; m++) first[m][v] = z[m][v];
#pragma unroll
    for (int n = 0; n + M < N; n++) z[n][v] = z[n + M][v];
#pragma unroll
    for (int m = 0; m < M; m++) z[N - M + m][v] = first[m][v];
  }
}
/* An element, as `last`: */
template <int V> LO_FN void lo_turn(float (&z)[V], float last) {
#pragma unroll
  for (int v = 0; v + 1 < V; v++) z[v] = z[v + 1];
  z[V - 1] = last;
}

/* ---- Activations: V long chains of arithmetic side by side. A kind that has no case here is asked
 * for by each element. */
#define LO_KINDS(OTHERS)                                                                           \
  switch (kind) {                                                                                  \
    LO_CASE(LO_ACT_RELU)                                                                           \
    LO_CASE(LO_ACT_GELU)                                                                           \
    LO_CASE(LO_ACT_GELU_TANH)                                                                      \
    LO_CASE(LO_ACT_SILU)                                                                           \
    LO_CASE(LO_ACT_SIGMOID)                                                                        \
    LO_CASE(LO_ACT_TANH)                                                                           \
  default:                                                                                         \
    _Pragma("unroll 1") for (int i = 0; i < V; i++) {                                              \
      OTHERS;                                                                                      \
    }                                                                                              \
  }
#define LO_CASE(KIND)                                                                              \
  case KIND:                                                                                       \
    _Pragma("unroll") for (int v = 0; v < V; v++) LO_EACH(KIND);                                   \
    break;
#define LO_EACH(KIND) z[v] = lo_act(KIND, z[v], slope)
template <int V> LO_FN void lo_activate(int kind, float (&z)[V], float slope) {
  LO_KINDS(lo_turn(z, lo_act(kind, z[0], slope)))
}
#undef LO_EACH
#define LO_EACH(KIND) z[v] *= lo_activation_derivative(KIND, s[v], slope)
/* s: the saved values, in whatever order afterwards. */
template <int V> LO_FN void lo_derive(int kind, float (&z)[V], float (&s)[V], float slope) {
  LO_KINDS(lo_turn(z, z[0] * lo_activation_derivative(kind, s[0], slope)); lo_turn(s, 0.0f))
}
#undef LO_EACH
#undef LO_CASE
#undef LO_KINDS

/* All pieces. The kinds that large layers have are asked for once, and take two pieces side
 * by side. */
template <int KIND, int N, int V> LO_FN void lo_activate_pairs(float (&z)[N][V], float slope) {
  constexpr int M = N % 2 ? 1 : 2;
#pragma unroll 1
  for (int n = 0; n < N; n += M) {
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int v = 0; v < V; v++) z[m][v] = lo_act(KIND, z[m][v], slope);
    lo_turn<M>(z);
  }
}
template <int N, int V> LO_FN void lo_activate_all(int kind, float (&z)[N][V], float slope) {
  if (N > 1 && kind == LO_ACT_GELU) {
    lo_activate_pairs<LO_ACT_GELU>(z, slope);
  } else if (N > 1 && kind == LO_ACT_SILU) {
    lo_activate_pairs<LO_ACT_SILU>(z, slope);
  } else if (N > 1 && kind >= LO_ACT_GELU_F16) {
    lo_act_short(kind, (float(&)[N * V]) z); /* short enough to stand side by side */
  } else {
#pragma unroll 1
    for (int n = 0; n < N; n++) {
      lo_activate(kind, z[0], slope);
      lo_turn<1>(z);
    }
  }
}
template <int N, int V>
LO_FN void lo_derive_all(int kind, float (&z)[N][V], float (&s)[N][V], float slope) {
#pragma unroll 1
  for (int n = 0; n < N; n++) {
    lo_derive(kind, z[0], s[0], slope);
    lo_turn<1>(z);
    lo_turn<1>(s);
  }
}

/* ---- The end of a matrix of the batch: C, or a part of k. */
typedef struct lo_ending {
  const lo_cu_epilogue &e;
  char *to;
  lo_i64 stride; /* in elements */
  int type, ends;
  bool quads, shift; /* shift: zero points are still to be taken off */
  float alpha;
  const float *row_scales;
} lo_ending;

LO_FN lo_ending lo_ending_of(const lo_cu_epilogue &e, lo_i64 batch, bool shift,
                             const lo_factors &by) {
  return {e,
          (char *)e.c.p + lo_bytes_of(e.c.type, batch * e.c.batch_stride),
          e.c.stride,
          e.c.type,
          e.ends,
          e.c.quads != 0,
          shift && e.zero_a.p,
          by.alpha,
          by.row_scales};
}
LO_FN lo_ending lo_ending_of(const lo_cu_epilogue &e, lo_i64 batch, bool shift) {
  return lo_ending_of(e, batch, shift, lo_factors_of(e));
}

/* sum (a - zero) b = sum a b - zero sum b. Wraps around as the sums do. */
template <int N, int V, int STEP>
LO_FN void lo_shift(const lo_ending &, const lo_columns<V> &, float (&)[N][V], const lo_pieces &) {}
template <int N, int V, int STEP>
LO_FN void lo_shift(const lo_ending &end, const lo_columns<V> &c, int (&sums)[N][V],
                    const lo_pieces &at) {
  if (!end.shift) return;
  bool one = end.e.zero_a.one;
  const int *zeros = (const int *)end.e.zero_a.p + (one ? 0 : at.row);
#pragma unroll
  for (int n = 0; n < N; n++) {
    int zero = n * STEP < at.rows ? zeros[one ? 0 : n * STEP] : 0;
#pragma unroll
    for (int v = 0; v < V; v++) sums[n][v] -= zero * c.sums[v];
  }
}

/* The sums as floats, those of integers scaled. */
template <int N, int V, int STEP>
LO_FN void lo_scale(const lo_ending &, const lo_columns<V> &, float (&z)[N][V],
                    const float (&sums)[N][V], const lo_pieces &) {
  LO_EACH_ELEMENT z[n][v] = sums[n][v];
}
template <int N, int V, int STEP>
LO_FN void lo_scale(const lo_ending &end, const lo_columns<V> &c, float (&z)[N][V],
                    const int (&sums)[N][V], const lo_pieces &at) {
  const float *scales = end.row_scales;
  float a[N];
#pragma unroll
  for (int n = 0; n < N; n++)
    a[n] = scales && n * STEP < at.rows ? scales[at.row + n * STEP] : 1.0f;
  LO_EACH_ELEMENT z[n][v] = __fmul_rn(__fmul_rn(a[n], c.scale[v]), (float)sums[n][v]);
}

/* ---- Quotients, which are stored in 8 bits: by any number, by the ordinary ones for integers, and
 * for 8-bit floats, which are rounded once more than they need be. */
template <int N, int V> LO_FN void lo_divide_any(const lo_divisor &d, float (&z)[N][V]) {
#pragma unroll 1
  for (int i = 0; i < N; i++) {
#pragma unroll
    for (int v = 0; v < V; v++) z[0][v] = __fdiv_rn(z[0][v], d.s);
    lo_turn<1>(z);
  }
}
template <int N, int V> LO_FN void lo_divide_all(const lo_divisor &d, float (&z)[N][V]) {
  if (d.ordinary)
    LO_EACH_ELEMENT z[n][v] = lo_quotient(d, z[n][v]);
  else
    lo_divide_any(d, z);
}
template <int N, int V> LO_FN void lo_divide_floats(const lo_divisor &d, float (&z)[N][V]) {
  if (d.ordinary)
    LO_EACH_ELEMENT z[n][v] = __fmul_rn(z[n][v], d.r);
  else
    lo_divide_any(d, z);
}
template <int N, int V, int STEP>
LO_FN void lo_put_integers(const float (&z)[N][V], char *p, lo_i64 step, int type,
                           const lo_pieces &at) {
  if (type == LO_TYPE_I8) {
    LO_EACH_PIECE lo_put_8(p, z[n], LO_TYPE_I8, at.whole, at.count);
  } else {
    LO_EACH_PIECE lo_put_8(p, z[n], LO_TYPE_U8, at.whole, at.count);
  }
}
/* V sums that lie side by side in shared memory. */
template <int V> LO_FN void lo_read(float (&to)[V], const float *from) {
  if (V == 4)
    *(float4 *)to = *(const float4 *)from;
  else
    to[0] = *from;
}
template <int V> LO_FN void lo_read(int (&to)[V], const int *from) {
  if (V == 4)
    *(int4 *)to = *(const int4 *)from;
  else
    to[0] = *from;
}
LO_FN float lo_bits(float x) {
  return x;
}
LO_FN float lo_bits(int x) {
  return __int_as_float(x);
}

/* What few products have before the activation, the bias among it, and behind. */
template <int N, int V, int STEP>
LO_FN void lo_scale_floats(const lo_ending &end, float (&z)[N][V], const lo_pieces &at) {
  const float *scales = end.row_scales;
  float a[N], b[V];
#pragma unroll
  for (int n = 0; n < N; n++)
    a[n] = scales && n * STEP < at.rows ? scales[at.row + n * STEP] : 1.0f;
#pragma unroll
  for (int v = 0; v < V; v++) b[v] = v < at.count ? lo_scale_of(end.e, at.col + v) : 1.0f;
  LO_EACH_ELEMENT z[n][v] = __fmul_rn(z[n][v], __fmul_rn(a[n], b[v]));
}
template <int N, int V, int STEP>
LO_FN void lo_before(const lo_ending &end, const lo_columns<V> &c, float (&z)[N][V],
                     const lo_pieces &at) {
  const lo_cu_beside &preact = end.e.preact;
  float old[N][V], beta = lo_scalar_float(end.e.beta);
  LO_EACH_ELEMENT z[n][v] = __fmul_rn(end.alpha, z[n][v]);
  if (end.ends & LO_END_SCALES) lo_scale_floats<N, V, STEP>(end, z, at);
  if (beta != 0.0f) {
    lo_get<N, V, STEP>(old, end.to, end.stride, end.type, at);
    LO_EACH_ELEMENT z[n][v] = __fmaf_rn(beta, old[n][v], z[n][v]);
  }
  LO_EACH_ELEMENT z[n][v] = __fadd_rn(z[n][v], c.bias[v]);
  if (end.ends & LO_END_PREACT)
    lo_put_floats<N, V, STEP>(
        z, (char *)preact.p + lo_bytes_of(preact.type, at.row * preact.stride + at.col),
        lo_bytes_of(preact.type, STEP * preact.stride), preact.type, at);
}
template <int N, int V, int STEP>
LO_FN void lo_behind(const lo_ending &end, float (&z)[N][V], const lo_pieces &at) {
  const lo_cu_epilogue &e = end.e;
  float other[N][V];
  if (end.ends & LO_END_DERIVATIVE) {
    lo_get<N, V, STEP>(other, e.saved.p, e.saved.stride, e.saved.type, at);
    lo_derive_all(e.derivative, z, other, e.derivative_slope);
  }
  if (end.ends & LO_END_RESIDUAL) {
    lo_get<N, V, STEP>(other, e.residual.p, e.residual.stride, e.residual.type, at);
    LO_EACH_ELEMENT z[n][v] = __fadd_rn(z[n][v], other[n][v]);
  }
  if (end.ends & LO_END_F8) lo_divide_floats(lo_divisor_by(lo_divisor_of(e)), z);
}

/* N pieces, the first of which goes to p. STRAIGHT: nothing follows but a bias and ReLU, or the
 * sums are the end. */
template <bool STRAIGHT, int N, int V, int STEP, class Sum>
LO_FN void lo_finish(const lo_ending &end, const lo_columns<V> &c, Sum (&sums)[N][V], char *p,
                     const lo_pieces &at) {
  lo_i64 step = lo_bytes_of(end.type, STEP * end.stride);
  float z[N][V], floor = end.e.activation == LO_ACT_RELU ? 0.0f : -LO_INFINITY;
  lo_shift<N, V, STEP>(end, c, sums, at);
  if (STRAIGHT && end.ends) {
    LO_EACH_ELEMENT z[n][v] = lo_bits(sums[n][v]);
    LO_EACH_PIECE lo_put_f32(p, z[n], at.whole, at.count);
    return;
  }
  lo_scale<N, V, STEP>(end, c, z, sums, at);
  bool rare = !STRAIGHT && end.ends > LO_END_ACTIVATION;
  if (rare)
    lo_before<N, V, STEP>(end, c, z, at);
  else
    LO_EACH_ELEMENT z[n][v] = __fmaf_rn(end.alpha, z[n][v], c.bias[v]);
  if (STRAIGHT || !(end.ends & LO_END_ACTIVATION))
    LO_EACH_ELEMENT z[n][v] = lo_not_below(z[n][v], floor);
  else
    lo_activate_all(end.e.activation, z, end.e.slope);
  if (rare) lo_behind<N, V, STEP>(end, z, at);
  if (lo_integers<Sum> && end.type >= LO_TYPE_I8) {
    lo_divide_all(c.divisor, z);
    lo_put_integers<N, V, STEP>(z, p, step, end.type, at);
  } else if (rare && end.ends & LO_END_F8) {
    LO_EACH_PIECE lo_put_8(p, z[n], end.type, at.whole, at.count);
  } else {
    lo_put_floats<N, V, STEP>(z, p, step, end.type, at);
  }
}
#undef LO_EACH_PIECE
#undef LO_EACH_ELEMENT

/* ---- A warp's ROWS x COLS sums in shared memory, in lines of PITCH: its own alone, and all there.
 * row0, col0: the matrix's; column0: of `columns`. */
template <bool STRAIGHT, int N, int V, int ROWS, int COLS, int PITCH, class Sum, class Columns>
LO_FN void lo_finish_lines(const lo_ending &end, const Columns &columns, int column0,
                           const Sum *sums, lo_i64 row0, lo_i64 col0, lo_i64 m, lo_i64 n) {
  constexpr int PIECES = COLS / V, WIDE = PIECES < 32 ? PIECES : 32, STEP = 32 / WIDE;
  constexpr int LINES = N * STEP;
  static_assert(32 % WIDE == 0 && PIECES % WIDE == 0 && ROWS % LINES == 0, "the lanes' pieces");
  int lane = threadIdx.x % 32, first = lane / WIDE;
#pragma unroll 1
  for (int x = lane % WIDE * V; x < COLS && col0 + x < n; x += WIDE * V) {
    lo_columns<V> c = columns.template at<V>(column0 + x);
    lo_pieces at = {row0 + first, col0 + x, 0, V, true};
    int left = lo_left(m, at.row, ROWS);
#pragma unroll 1
    for (int r = 0; r < ROWS && r < left; r += LINES, at.row += LINES) {
      const Sum *line = sums + (first + r) * PITCH + x;
      Sum mine[N][V];
#pragma unroll
      for (int i = 0; i < N; i++) lo_read<V>(mine[i], line + i * STEP * PITCH);
      at.rows = left - r;
      lo_finish<STRAIGHT, N, V, STEP>(
          end, c, mine, end.to + lo_bytes_of(end.type, at.row * end.stride + at.col), at);
    }
  }
}

template <bool STRAIGHT, int N, int ROWS, int COLS, int PITCH, class Sum, class Columns>
LO_FN void lo_finish_rows(const lo_ending &end, const Columns &columns, int column0,
                          const Sum *sums, lo_i64 row0, lo_i64 col0, lo_i64 m, lo_i64 n) {
  constexpr int QUADS = ROWS * COLS / 128, MOST = ROWS < N ? ROWS : N; /* of a lane */
  if (end.quads && (col0 + COLS <= n || n % 4 == 0))
    lo_finish_lines < STRAIGHT,
        QUADS<N ? QUADS : N, 4, ROWS, COLS, PITCH>(end, columns, column0, sums, row0, col0, m, n);
  else /* element by element: neighbours to neighbouring lanes */
    lo_finish_lines<STRAIGHT, MOST, 1, ROWS, COLS, PITCH>(end, columns, column0, sums, row0, col0,
                                                          m, n);
}

template <int ROWS, int COLS, int PITCH, class Sum, class Columns>
LO_FN void lo_finish_warp(const lo_ending &end, const Columns &columns, int column0,
                          const Sum *sums, lo_i64 row0, lo_i64 col0, lo_i64 m, lo_i64 n) {
  if (end.ends <= LO_END_SUMS)
    lo_finish_rows<true, 8, ROWS, COLS, PITCH>(end, columns, column0, sums, row0, col0, m, n);
  else
    lo_finish_rows<false, 4, ROWS, COLS, PITCH>(end, columns, column0, sums, row0, col0, m, n);
}

/* ---- One piece, of which the first `count` elements are there; p: where it goes. */
template <bool STRAIGHT, int V, class Sum>
LO_FN void lo_finish_one_at(const lo_ending &end, const lo_columns<V> &c, Sum (&sums)[1][V],
                            char *p, lo_i64 row, lo_i64 col, int count) {
  lo_finish<STRAIGHT, 1, V, 1>(end, c, sums, p, {row, col, 1, count, end.quads && count >= V});
}
template <int V, class Sum>
LO_FN void lo_finish_one(const lo_ending &end, const lo_columns<V> &c, Sum (&sums)[1][V],
                         lo_i64 row, lo_i64 col, int count) {
  char *p = end.to + lo_bytes_of(end.type, row * end.stride + col);
  if (end.ends <= LO_END_SUMS)
    lo_finish_one_at<true>(end, c, sums, p, row, col, count);
  else
    lo_finish_one_at<false>(end, c, sums, p, row, col, count);
}
template <class Quad>
LO_FN void lo_finish_quad(const lo_ending &end, const lo_columns<4> &c, Quad quad, lo_i64 row,
                          lo_i64 col, int count) {
  decltype(quad.x) sums[1][4] = {{quad.x, quad.y, quad.z, quad.w}};
  lo_finish_one(end, c, sums, row, col, count);
}

LO_FN void lo_finish_row_sum(const lo_cu_epilogue &e, float beta, lo_i64 row, float sum) {
  if (beta != 0.0f) sum = __fmaf_rn(beta, lo_load(e.row_sum, row), sum);
  if (e.row_sum.type == LO_TYPE_F32)
    ((float *)e.row_sum.p)[row] = sum;
  else
    ((unsigned short *)e.row_sum.p)[row] = lo_to_16(sum, e.row_sum.type == LO_TYPE_BF16);
}

#endif

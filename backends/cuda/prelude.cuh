/* What every kernel stands on: conversions, quads of four neighbours, scalars, reductions. No
 * header of the C library or of CUDA is needed here, so that the run-time compiler can take it too.
 */
#ifndef LO_CUDA_PRELUDE_CUH
#define LO_CUDA_PRELUDE_CUH

#include "common/kernel/codes.h"
#include "backends/cuda/params.h"

#define LO_FN static __device__ __forceinline__

/* A launch may begin while the one before it on the queue still runs (lo_cu_launch). Every kernel
 * begins with this, before it touches memory: what the one before stored is there from here on. */
LO_FN void lo_follow() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/* What an operand holds. Not __ldg: a load of what never changes may be moved to before
 * lo_follow(), and the launch before may be the one that writes it. */
template <class T> LO_FN T lo_load(const T *p) {
  return *p;
}
/* The next launch may begin once all blocks have come here, behind their main loops: blocks of the
 * next that came earlier would fill SMs unevenly. */
LO_FN void lo_lead() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

LO_FN float lo_exp(float x) {
  return expf(x);
}
LO_FN float lo_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
LO_FN float lo_rcp(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/* Phi(-|x|) = t 2^(Q(t) - x^2 log2(e) / 2) with t = 1 / (1 + |x| / sqrt(8)). Q is the minimax
 * polynomial of degree 9 over [1/6, 1], where Phi is more than any subnormal number: its error,
 * 7.4e-8, is 0.9 units of f32's rounding in Phi. */
LO_FN float lo_normal(float x, float *density) {
  const float half = 0.72134752f; /* log2(e) / 2 */
  float t = lo_rcp(fmaf(fabsf(x), 0.35355339f, 1.0f)), q = 0.21358531f;
  q = fmaf(q, t, -1.0063326f);
  q = fmaf(q, t, 1.7244933f);
  q = fmaf(q, t, -1.0769284f);
  q = fmaf(q, t, -0.057514939f);
  q = fmaf(q, t, -0.0281441f);
  q = fmaf(q, t, 0.059721752f);
  q = fmaf(q, t, 0.55584679f);
  q = fmaf(q, t, 1.4409385f);
  q = fmaf(q, t, -2.8256656f);
  float tail = t * lo_exp2(fmaf(-half * x, x, q));
  *density = 0.39894228f * lo_exp2(-half * x * x);
  return x > 0.0f ? 1.0f - tail : tail;
}
LO_FN float lo_tanh(float x) {
  return tanhf(x);
}
#include "common/kernel/activation.h"

#define LO_INFINITY __int_as_float(0x7f800000)

/* ReLU where `floor` is 0, nothing where it is -infinity; NaN stays NaN. */
LO_FN float lo_not_below(float z, float floor) {
#if __CUDA_ARCH__ >= 800
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(z), "f"(floor));
  return y;
#endif
  return lo_at_least(z, floor);
}

/* ---- Activations of what is stored with 16 bits or less: N chains of arithmetic step by step side
 * by side, for a compiler left to itself has two wait for each other.
 *
 * Phi(-t) = 2^P(t), P the minimax polynomial of log2 Phi(-t) on [0, 13.05], beyond which Phi is 0
 * in f32: the error is 2^-12.9 of the result, a fifteenth of bf16's rounding; and on [0, 5.85],
 * beyond which t Phi(-t) is 0 in f16: 2^-17.5 of the result, or of f16's smallest normal number
 * where that is larger. */
#define LO_EACH _Pragma("unroll") for (int i = 0; i < N; i++)
template <bool BF16, int N> LO_FN void lo_gelu_short(float (&z)[N]) {
  constexpr float most = BF16 ? 13.05f : 5.85f;
  constexpr int TERMS = BF16 ? 9 : 7;
  constexpr float c[2][9] = {{3.24447053e-5f, -7.48420807e-4f, 7.94227341e-3f, -5.3051836e-2f,
                              -0.459170396f, -1.15103671f, -1.00000757f},
                             {2.82373289e-8f, -1.78343601e-6f, 4.85732053e-5f, -7.53863424e-4f,
                              7.47409184e-3f, -5.0968077e-2f, -0.462538153f, -1.14917397f,
                              -1.00017142f}};
  float t[N], p[N];
  LO_EACH t[i] = fminf(fabsf(z[i]), most);
  LO_EACH p[i] = c[BF16][0];
#pragma unroll
  for (int k = 1; k < TERMS; k++) LO_EACH p[i] = fmaf(p[i], t[i], c[BF16][k]);
  LO_EACH p[i] = lo_exp2(p[i]);
  /* z Phi(z) = max(z, 0) - |z| Phi(-|z|) */
  LO_EACH z[i] = fmaf(-t[i], p[i], lo_not_below(z[i], -0.0f));
}
/* The argument of the exponential is off by 115 units of 2^-24 at most: 2^-17 of the result. */
template <int N> LO_FN void lo_silu_short(float (&z)[N]) {
  float e[N];
  LO_EACH z[i] = lo_not_below(z[i], -LO_TAIL);
  LO_EACH e[i] = lo_exp2(-1.442695041f * z[i]);
  LO_EACH e[i] = lo_rcp(1.0f + e[i]);
  LO_EACH z[i] *= e[i];
}
#undef LO_EACH
template <int N> LO_FN void lo_act_short(int kind, float (&z)[N]) {
  if (kind == LO_ACT_GELU_F16)
    lo_gelu_short<false>(z);
  else if (kind == LO_ACT_GELU_BF16)
    lo_gelu_short<true>(z);
  else
    lo_silu_short(z);
}
/* lo_activation, and those. */
LO_FN float lo_act(int kind, float z, float slope) {
  if (kind < LO_ACT_GELU_F16) return lo_activation(kind, z, slope);
  float one[1] = {z};
  lo_act_short(kind, one);
  return one[0];
}

/* ---- 16-bit storage. Turing has no bf16 instructions, so the bits are moved by hand. */
LO_FN float lo_from_f16(unsigned short h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
LO_FN unsigned short lo_to_f16(float f) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
LO_FN float lo_from_bf16(unsigned short b) {
  return __uint_as_float((unsigned)b << 16);
}
LO_FN unsigned short lo_to_bf16(float f) {
#if __CUDA_ARCH__ >= 800
  unsigned short h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#endif
  unsigned u = __float_as_uint(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (unsigned short)(u >> 16 | 0x40u);
  return (unsigned short)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
LO_FN float lo_from_16(unsigned short h, int bf16) {
  return bf16 ? lo_from_bf16(h) : lo_from_f16(h);
}
LO_FN unsigned short lo_to_16(float f, int bf16) {
  return bf16 ? lo_to_bf16(f) : lo_to_f16(f);
}

LO_FN float4 lo_from_16x4(uint2 u, int bf16) {
  return make_float4(
      lo_from_16((unsigned short)u.x, bf16), lo_from_16((unsigned short)(u.x >> 16), bf16),
      lo_from_16((unsigned short)u.y, bf16), lo_from_16((unsigned short)(u.y >> 16), bf16));
}
LO_FN uint2 lo_to_16x4(float4 v, int bf16) {
#if __CUDA_ARCH__ >= 800
  uint2 u;
  if (bf16)
    asm("cvt.rn.bf16x2.f32 %0, %3, %2;\n\tcvt.rn.bf16x2.f32 %1, %5, %4;"
        : "=r"(u.x), "=r"(u.y)
        : "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w));
  else
    asm("cvt.rn.f16x2.f32 %0, %3, %2;\n\tcvt.rn.f16x2.f32 %1, %5, %4;"
        : "=r"(u.x), "=r"(u.y)
        : "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w));
  return u;
#endif
  return make_uint2(lo_to_16(v.x, bf16) | (unsigned)lo_to_16(v.y, bf16) << 16,
                    lo_to_16(v.z, bf16) | (unsigned)lo_to_16(v.w, bf16) << 16);
}

/* ---- 8-bit floats: rounded to nearest even; too large ones, infinity too, become the largest. */
LO_FN float lo_from_f8(unsigned code, int e5m2) {
  if (e5m2) return lo_from_f16((unsigned short)(code << 8));
  /* a f16 of 2^-8 times the value */
  float f = 256.0f * lo_from_f16((unsigned short)((code & 0x80) << 8 | (code & 0x7f) << 7));
  return (code & 0x7f) == 0x7f ? __int_as_float(0x7fffffff) : f;
}
LO_FN unsigned lo_to_f8(float f, int e5m2) {
  int digits = e5m2 ? 2 : 3, bias = e5m2 ? 15 : 7, most = e5m2 ? 0x7b : 0x7e;
  float largest = e5m2 ? 57344.0f : 448.0f;
  unsigned bits = __float_as_uint(f), sign = bits >> 24 & 0x80;
  float size = fabsf(f);
  if (size != size) return sign | 0x7f;
  if (size >= largest) return sign | most;
  if (size < __uint_as_float((unsigned)(128 - bias) << 23)) /* in units of the subnormal numbers */
    return sign |
           (unsigned)__float2int_rn(size * __uint_as_float((unsigned)(126 + bias + digits) << 23));
  bits &= 0x7fffffffu;
  bits += (1u << (22 - digits)) - 1 + (bits >> (23 - digits) & 1);
  return sign | ((bits >> (23 - digits)) - ((127u - bias) << digits));
}
/* Four of them, the first in the low byte. */
LO_FN unsigned lo_to_f8x4(float4 f, int e5m2) {
#if __CUDA_ARCH__ >= 890
  unsigned short low, high;
  if (e5m2)
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %3, %2;\n\tcvt.rn.satfinite.e5m2x2.f32 %1, %5, %4;"
        : "=h"(low), "=h"(high)
        : "f"(f.x), "f"(f.y), "f"(f.z), "f"(f.w));
  else
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %3, %2;\n\tcvt.rn.satfinite.e4m3x2.f32 %1, %5, %4;"
        : "=h"(low), "=h"(high)
        : "f"(f.x), "f"(f.y), "f"(f.z), "f"(f.w));
  return low | (unsigned)high << 16;
#endif
  return lo_to_f8(f.x, e5m2) | lo_to_f8(f.y, e5m2) << 8 | lo_to_f8(f.z, e5m2) << 16 |
         lo_to_f8(f.w, e5m2) << 24;
}

/* ---- Elements of float views, by place in elements from the view's start. */
LO_FN float lo_load(const lo_cu_view &v, lo_i64 at) {
  if (v.type == LO_TYPE_F32) return ((const float *)v.p)[at];
  if (v.type >= LO_TYPE_F8E4M3)
    return lo_from_f8(((const unsigned char *)v.p)[at], v.type == LO_TYPE_F8E5M2);
  return lo_from_16(((const unsigned short *)v.p)[at], v.type == LO_TYPE_BF16);
}
/* To the nearest 8-bit integer, ties to even; saturates, NaN becomes 0. The low byte counts. */
LO_FN int lo_to_8(float f, int is_unsigned) {
  int low = is_unsigned ? 0 : -128, i = __float2int_rn(f);
  return i < low ? low : i > low + 255 ? low + 255 : i;
}
/* Of any 8-bit type. */
LO_FN unsigned char lo_to_byte(float f, int type) {
  return (unsigned char)(type >= LO_TYPE_F8E4M3 ? lo_to_f8(f, type == LO_TYPE_F8E5M2)
                                                : (unsigned)lo_to_8(f, type == LO_TYPE_U8));
}
LO_FN void lo_store(const lo_cu_view &v, lo_i64 at, float f) {
  if (v.type == LO_TYPE_F32)
    ((float *)v.p)[at] = f;
  else if (v.type >= LO_TYPE_I8)
    ((unsigned char *)v.p)[at] = lo_to_byte(f, v.type);
  else
    ((unsigned short *)v.p)[at] = lo_to_16(f, v.type == LO_TYPE_BF16);
}
/* Four of them, the first in the low byte. */
LO_FN unsigned lo_to_8x4(float4 f, int is_unsigned) {
  int x = __float2int_rn(f.x), y = __float2int_rn(f.y);
  int z = __float2int_rn(f.z), w = __float2int_rn(f.w);
  unsigned u;
  if (is_unsigned)
    asm("{\n.reg .u32 high;\ncvt.pack.sat.u8.s32.b32 high, %1, %2, 0;\n"
        "cvt.pack.sat.u8.s32.b32 %0, %3, %4, high;\n}"
        : "=r"(u)
        : "r"(w), "r"(z), "r"(y), "r"(x));
  else
    asm("{\n.reg .u32 high;\ncvt.pack.sat.s8.s32.b32 high, %1, %2, 0;\n"
        "cvt.pack.sat.s8.s32.b32 %0, %3, %4, high;\n}"
        : "=r"(u)
        : "r"(w), "r"(z), "r"(y), "r"(x));
  return u;
}
LO_FN unsigned lo_to_bytes(float4 f, int type) {
  return type >= LO_TYPE_F8E4M3 ? lo_to_f8x4(f, type == LO_TYPE_F8E5M2)
                                : lo_to_8x4(f, type == LO_TYPE_U8);
}

/* The quad moves on by one, so that a rolled loop of four steps can work on its first element: code
 * for one element, and no register is indexed. */
LO_FN void lo_rotate(float4 &v, float last) {
  v.x = v.y;
  v.y = v.z;
  v.z = v.w;
  v.w = last;
}

/* Up to four neighbours; those beyond `count` are 0, and are not stored. */
LO_FN float4 lo_load4(const lo_cu_view &v, lo_i64 at, int count) {
  if (v.vector && count >= 4) {
    if (v.type == LO_TYPE_F32) return *(const float4 *)((const float *)v.p + at);
    if (v.type >= LO_TYPE_F8E4M3) {
      unsigned u = *(const unsigned *)((const unsigned char *)v.p + at);
      int e5m2 = v.type == LO_TYPE_F8E5M2;
      return make_float4(lo_from_f8(u & 255, e5m2), lo_from_f8(u >> 8 & 255, e5m2),
                         lo_from_f8(u >> 16 & 255, e5m2), lo_from_f8(u >> 24, e5m2));
    }
    return lo_from_16x4(*(const uint2 *)((const unsigned short *)v.p + at), v.type == LO_TYPE_BF16);
  }
  float4 f = make_float4(0, 0, 0, 0);
#pragma unroll 1
  for (int i = 0; i < 4; i++) lo_rotate(f, i < count ? lo_load(v, at + i) : 0.0f);
  return f;
}
/* The compiler takes stores of structs apart. */
LO_FN void lo_store_words(void *p, float4 v) {
  asm volatile("st.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(p), "f"(v.x), "f"(v.y), "f"(v.z),
               "f"(v.w)
               : "memory");
}
LO_FN void lo_store_words(void *p, uint4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}
LO_FN void lo_store_words(void *p, uint2 v) {
  asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}
LO_FN void lo_store4(const lo_cu_view &v, lo_i64 at, int count, float4 f) {
  if (v.vector && count >= 4) {
    if (v.type == LO_TYPE_F32)
      lo_store_words((float *)v.p + at, f);
    else if (v.type >= LO_TYPE_I8)
      *(unsigned *)((unsigned char *)v.p + at) = lo_to_bytes(f, v.type);
    else
      lo_store_words((unsigned short *)v.p + at, lo_to_16x4(f, v.type == LO_TYPE_BF16));
    return;
  }
#pragma unroll 1
  for (int i = 0; i < 4 && i < count; i++) {
    lo_store(v, at + i, f.x);
    lo_rotate(f, 0.0f);
  }
}

LO_FN double lo_scalar_double(const lo_cu_scalar &s) {
  return s.p ? (double)*s.p : s.value;
}
LO_FN float lo_scalar_float(const lo_cu_scalar &s) {
  return s.p ? *s.p : (float)s.value;
}
LO_FN float lo_scalar_float(const lo_cu_factor &s) {
  return s.p ? *s.p : s.value;
}

/* ---- Quads of a matrix, four columns each, in a loop over the grid: LO_QUADS names row, col,
 * count. */
typedef struct lo_quads {
  lo_i64 at, total, per_row, step;
} lo_quads;
LO_FN lo_quads lo_quads_of(lo_i64 rows, lo_i64 cols) {
  lo_quads q;
  q.per_row = (cols + 3) / 4;
  q.total = rows * q.per_row;
  q.at = (lo_i64)blockIdx.x * blockDim.x + threadIdx.x;
  q.step = (lo_i64)gridDim.x * blockDim.x;
  return q;
}
LO_FN lo_i64 lo_quad_row(const lo_quads &q) {
  return q.total == q.per_row ? 0 : q.at / q.per_row;
}
LO_FN int lo_quad_count(lo_i64 cols, lo_i64 col) {
  return cols - col < 4 ? (int)(cols - col) : 4;
}

/* ---- Reductions whose order is fixed. */
template <class T> LO_FN T lo_warp_sum(T v) {
#pragma unroll
  for (int d = 16; d; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}
LO_FN float lo_warp_max(float v) {
#pragma unroll
  for (int d = 16; d; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}

/* The sum over a block, in every thread; `shared` holds one T a warp. */
template <class T> LO_FN T lo_block_sum(T v, T *shared) {
  v = lo_warp_sum(v);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  T sum = 0;
  for (unsigned w = 0; w < blockDim.x / 32; w++) sum += shared[w];
  return sum;
}

LO_FN void lo_report(lo_u64 *fault, lo_i64 place, int value) {
  lo_u64 at = place < 0xfffffffell ? (lo_u64)place : 0xfffffffeull;
  atomicMin(fault, at << 32 | (unsigned)value);
}

#endif

/* The vector of an instruction set: VECTOR floats, on which C's operators work, and what they do
 * not say. Comparisons with NaN are false. */
#ifndef LO_ISA_VECTOR_H
#define LO_ISA_VECTOR_H

#include "backends/cpu/isa/part.h"

#define LO_FN static inline __attribute__((always_inline))

/* Of the n first floats, 0 < n < VECTOR: a load takes the others from `rest`, a store leaves them
 * as they are. */
#if defined __AVX512F__
typedef __m512 vf;
typedef int32_t vi __attribute__((vector_size(64)));
LO_FN __mmask16 first(int64_t n) {
  return (__mmask16)((1u << n) - 1);
}
LO_FN vf v_load_part(const float *p, int64_t n, vf rest) {
  return _mm512_mask_loadu_ps(rest, first(n), p);
}
LO_FN void v_store_part(float *p, vf v, int64_t n) {
  _mm512_mask_storeu_ps(p, first(n), v);
}
LO_FN vf v_fma(vf a, vf b, vf c) {
  return _mm512_fmadd_ps(a, b, c);
}
LO_FN vf v_sqrt(vf a) {
  return _mm512_sqrt_ps(a);
}
/* b where either is NaN */
LO_FN vf v_max(vf a, vf b) {
  return _mm512_max_ps(a, b);
}
LO_FN vf v_min(vf a, vf b) {
  return _mm512_min_ps(a, b);
}
LO_FN vf v_if_less(vf a, vf b, vf yes, vf no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
LO_FN vf v_if_at_most(vf a, vf b, vf yes, vf no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LE_OQ), no, yes);
}
LO_FN vi v_if_nan(vf a, vi yes, vi no) {
  return (vi)_mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), (__m512i)no,
                                     (__m512i)yes);
}

#elif defined __AVX2__
typedef __m256 vf;
typedef int32_t vi __attribute__((vector_size(32)));
LO_FN __m256i first(int64_t n) {
  static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256((const __m256i *)(const void *)(ones + 8 - n));
}
LO_FN vf v_load_part(const float *p, int64_t n, vf rest) {
  return _mm256_blendv_ps(rest, _mm256_maskload_ps(p, first(n)), (__m256)first(n));
}
LO_FN void v_store_part(float *p, vf v, int64_t n) {
  _mm256_maskstore_ps(p, first(n), v);
}
LO_FN vf v_fma(vf a, vf b, vf c) {
  return _mm256_fmadd_ps(a, b, c);
}
LO_FN vf v_sqrt(vf a) {
  return _mm256_sqrt_ps(a);
}
LO_FN vf v_max(vf a, vf b) {
  return _mm256_max_ps(a, b);
}
LO_FN vf v_min(vf a, vf b) {
  return _mm256_min_ps(a, b);
}
LO_FN vf v_if_less(vf a, vf b, vf yes, vf no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
LO_FN vf v_if_at_most(vf a, vf b, vf yes, vf no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LE_OQ));
}
LO_FN vi v_if_nan(vf a, vi yes, vi no) {
  return (vi)_mm256_blendv_epi8((__m256i)no, (__m256i)yes,
                                (__m256i)_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

#else
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
LO_FN vf v_load_part(const float *p, int64_t n, vf rest) {
  return (vf){p[0], n > 1 ? p[1] : rest[1], n > 2 ? p[2] : rest[2], rest[3]};
}
LO_FN void v_store_part(float *p, vf v, int64_t n) {
  p[0] = v[0];
  if (n > 1) p[1] = v[1];
  if (n > 2) p[2] = v[2];
}
LO_FN vf v_fma(vf a, vf b, vf c) {
#if LO_FUSED
  return (vf){fma32(a[0], b[0], c[0]), fma32(a[1], b[1], c[1]), fma32(a[2], b[2], c[2]),
              fma32(a[3], b[3], c[3])};
#else
  return a * b + c;
#endif
}
LO_FN vf v_sqrt(vf a) {
  return (vf){__builtin_sqrtf(a[0]), __builtin_sqrtf(a[1]), __builtin_sqrtf(a[2]),
              __builtin_sqrtf(a[3])};
}
LO_FN vf v_pick(vi yes_where, vf yes, vf no) {
  return (vf)(((vi)yes & yes_where) | ((vi)no & ~yes_where));
}
LO_FN vf v_max(vf a, vf b) {
  return v_pick(a > b, a, b);
}
LO_FN vf v_min(vf a, vf b) {
  return v_pick(a < b, a, b);
}
LO_FN vf v_if_less(vf a, vf b, vf yes, vf no) {
  return v_pick(a < b, yes, no);
}
LO_FN vf v_if_at_most(vf a, vf b, vf yes, vf no) {
  return v_pick(a <= b, yes, no);
}
LO_FN vi v_if_nan(vf a, vi yes, vi no) {
  return (yes & (a != a)) | (no & ~(a != a));
}
#endif

LO_FN vf v_load(const float *p) {
  vf v;
  memcpy(&v, p, sizeof v);
  return v;
}
LO_FN void v_store(float *p, vf v) {
  memcpy(p, &v, sizeof v);
}
LO_FN vf v_all(float x) {
  return x - (vf){0}; /* -0 stays */
}
LO_FN vf v_abs(vf x) {
  return (vf)((vi)x & 0x7fffffff);
}
LO_FN vf v_copysign(vf x, vf sign) {
  return (vf)(((vi)x & 0x7fffffff) | ((vi)sign & INT32_MIN));
}

/* The first of `left` floats, a vector of them or as many as there are. */
LO_FN vf v_load_upto(const float *p, int64_t left, vf rest) {
  return left >= VECTOR ? v_load(p) : v_load_part(p, left, rest);
}
LO_FN void v_store_upto(float *p, vf v, int64_t left) {
  if (left >= VECTOR)
    v_store(p, v);
  else
    v_store_part(p, v, left);
}

/* The body for each vector of n floats: j is its place, `left` the floats from there on (VECTOR
 * where there are more). The last part goes through the same code. */
#define V_EACH(n, j, left, ...)                                                                    \
  do {                                                                                             \
    int64_t j = 0;                                                                                 \
    for (; j + VECTOR <= (n); j += VECTOR) {                                                       \
      enum { left = VECTOR };                                                                      \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
    if (j < (n)) {                                                                                 \
      const int64_t left = (n)-j;                                                                  \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  } while (0)

#endif

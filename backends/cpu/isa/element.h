/* Vectors of floats from and to the 16-bit types: round to nearest even, overflow to infinity, NaN
 * stays one. */
#ifndef LO_ISA_ELEMENT_H
#define LO_ISA_ELEMENT_H

#include "backends/cpu/isa/vector.h"

/* ---- One vector ---- */

#if defined __AVX512F__
typedef __m256i v16; /* VECTOR elements of 16 bits */
LO_FN v16 v16_load(const uint16_t *p) {
  return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
LO_FN void v16_store(uint16_t *p, v16 v) {
  _mm256_storeu_si256((__m256i *)(void *)p, v);
}
LO_FN v16 v16_load_part(const uint16_t *p, int64_t n) {
  return _mm256_maskz_loadu_epi16(first(n), p);
}
LO_FN void v16_store_part(uint16_t *p, v16 v, int64_t n) {
  _mm256_mask_storeu_epi16(p, first(n), v);
}
LO_FN vf v_from_f16(v16 h) {
  return _mm512_cvtph_ps(h);
}
LO_FN v16 v_to_f16(vf v) {
  return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
}
LO_FN vi v_widen(v16 h) {
  return (vi)_mm512_cvtepu16_epi32(h);
}
LO_FN v16 v_narrow(vi v) { /* the lower halves */
  return _mm512_cvtepi32_epi16((__m512i)v);
}

#elif defined __AVX2__
typedef __m128i v16;
LO_FN v16 v16_load(const uint16_t *p) {
  return _mm_loadu_si128((const __m128i *)(const void *)p);
}
LO_FN void v16_store(uint16_t *p, v16 v) {
  _mm_storeu_si128((__m128i *)(void *)p, v);
}
LO_FN vf v_from_f16(v16 h) {
  return _mm256_cvtph_ps(h);
}
LO_FN v16 v_to_f16(vf v) {
  return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
}
LO_FN vi v_widen(v16 h) {
  return (vi)_mm256_cvtepu16_epi32(h);
}
LO_FN v16 v_narrow(vi v) {
  v &= 0xffff;
  return _mm_packus_epi32(_mm256_castsi256_si128((__m256i)v),
                          _mm256_extracti128_si256((__m256i)v, 1));
}

#else
typedef uint16_t v16 __attribute__((vector_size(8)));
LO_FN v16 v16_load(const uint16_t *p) {
  v16 h;
  memcpy(&h, p, sizeof h);
  return h;
}
LO_FN void v16_store(uint16_t *p, v16 v) {
  memcpy(p, &v, sizeof v);
}
LO_FN vi v_widen(v16 h) {
  return __builtin_convertvector(h, vi);
}
LO_FN v16 v_narrow(vi v) {
  return __builtin_convertvector(v, v16);
}
LO_FN vf v_from_f16(v16 half) {
  const vi h = v_widen(half), sign = (h & 0x8000) << 16, rest = (h & 0x7fff) << 13;
  /* Infinity and NaN: the exponent's bits must all be set. NaN becomes quiet, as in hardware. */
  const vi special = rest | 0x7f800000 | ((rest > 0x0f800000) & 0x400000);
  const vf finite = (vf)rest * 0x1p112f; /* moves the bias, subnormals included */
  const vi is_special = rest >= 0x0f800000;
  return (vf)((special & is_special) | ((vi)finite & ~is_special) | sign);
}
LO_FN v16 v_to_f16(vf x) {
  const vi a = (vi)x & 0x7fffffff, sign = (vi)x >> 16 & 0x8000;
  /* Below 2^-14 the sum with 1/2 rounds at f16's last place; above, integer arithmetic does. */
  const vi small = (vi)((vf)a + 0.5f) - 0x3f000000;
  const vi normal = (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13;
  const vi is_small = a<0x38800000, too_large = a >= 0x477ff000, is_nan = a> 0x7f800000;
  vi r = (small & is_small) | (normal & ~is_small);
  r = (r & ~too_large) | (0x7c00 & too_large);
  r = (r & ~is_nan) | ((0x7e00 | (a >> 13 & 0x1ff)) & is_nan);
  return v_narrow(r | sign);
}
#endif

#if !defined __AVX512F__
LO_FN v16 v16_load_part(const uint16_t *p, int64_t n) {
  uint16_t part[VECTOR] = {0};
  for (int64_t l = 0; l < n; l++) part[l] = p[l];
  return v16_load(part);
}
LO_FN void v16_store_part(uint16_t *p, v16 v, int64_t n) {
  uint16_t part[VECTOR];
  v16_store(part, v);
  for (int64_t l = 0; l < n; l++) p[l] = part[l];
}
#endif

LO_FN vf v_from_bf16(v16 h) {
  return (vf)(v_widen(h) << 16);
}
LO_FN v16 v_to_bf16(vf x) {
  const vi u = (vi)x, upper = u >> 16;
  return v_narrow(v_if_nan(x, upper | 0x40, (u + 0x7fff + (upper & 1)) >> 16));
}

/* ---- Of any type that a product stores ---- */

/* The first of `left` elements at p, a vector of them or as many as there are (0 behind). */
LO_FN vf v_get(layerops_type type, const void *p, int64_t left) {
  if (type == LAYEROPS_F32) return v_load_upto(p, left, v_all(0));
  v16 h = left >= VECTOR ? v16_load(p) : v16_load_part(p, left);
  return type == LAYEROPS_F16 ? v_from_f16(h) : v_from_bf16(h);
}

LO_FN void v_put(layerops_type type, void *p, vf v, int64_t left) {
  if (type == LAYEROPS_F32) {
    v_store_upto(p, v, left);
    return;
  }
  v16 h = type == LAYEROPS_F16 ? v_to_f16(v) : v_to_bf16(v);
  if (left >= VECTOR)
    v16_store(p, h);
  else
    v16_store_part(p, h, left);
}

#endif

/* Conversion between the storage types and f32: round to nearest even, 16-bit floats overflow to
 * infinity, integers saturate and take NaN as 0. */
#include <config.h>

#include <string.h>

#include "backends/cpu/isa/part.h"

#if defined __F16C__
#include <immintrin.h>
#endif

/* ---- f16 ---- */

#ifndef __F16C__
static inline float f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
  /* Infinity and NaN: the exponent's bits must all be set. NaN becomes quiet, as in hardware. */
  uint32_t special = rest | 0x7f800000 | (rest & 0x7fffff ? 0x400000 : 0);
  float finite = float_of(rest) * 0x1p112f; /* moves the bias, subnormals included */
  return float_of((rest >= 0x0f800000 ? special : bits_of(finite)) | sign);
}

static inline uint16_t f32_to_f16(float x) {
  uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
  /* Below 2^-14 the sum with 1/2 rounds at f16's last place; above, integer arithmetic does. */
  uint32_t small = bits_of(float_of(a) + 0.5f) - 0x3f000000;
  uint32_t normal = (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13;
  uint32_t r = a < 0x38800000 ? small : normal;
  r = a >= 0x477ff000 ? 0x7c00 : r;
  r = a > 0x7f800000 ? 0x7e00 | (a >> 13 & 0x1ff) : r;
  return (uint16_t)(r | sign);
}
#endif

static void load_f16(const uint16_t *from, float *to, int64_t n) {
  int64_t j = 0;
#if defined __AVX512F__
  for (; j + 16 <= n; j += 16)
    _mm512_storeu_ps(to + j, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from + j))));
  if (j < n) {
    __mmask16 m = (__mmask16)((1u << (n - j)) - 1);
    _mm512_mask_storeu_ps(to + j, m, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, from + j)));
  }
#elif defined __F16C__
  for (; j + 8 <= n; j += 8)
    _mm256_storeu_ps(to + j, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + j))));
  for (; j < n; j++) to[j] = _cvtsh_ss(from[j]);
#else
  for (; j < n; j++) to[j] = f16_to_f32(from[j]);
#endif
}

static void store_f16(const float *from, uint16_t *to, int64_t n) {
  int64_t j = 0;
#if defined __AVX512F__
  for (; j + 16 <= n; j += 16)
    _mm256_storeu_si256((__m256i *)(to + j),
                        _mm512_cvtps_ph(_mm512_loadu_ps(from + j), _MM_FROUND_TO_NEAREST_INT));
  if (j < n) {
    __mmask16 m = (__mmask16)((1u << (n - j)) - 1);
    _mm256_mask_storeu_epi16(
        to + j, m, _mm512_cvtps_ph(_mm512_maskz_loadu_ps(m, from + j), _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined __F16C__
  for (; j + 8 <= n; j += 8)
    _mm_storeu_si128((__m128i *)(to + j),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + j), _MM_FROUND_TO_NEAREST_INT));
  for (; j < n; j++) to[j] = _cvtss_sh(from[j], _MM_FROUND_TO_NEAREST_INT);
#else
  for (; j < n; j++) to[j] = f32_to_f16(from[j]);
#endif
}

/* ---- bf16 ---- */

static void load_bf16(const uint16_t *from, float *to, int64_t n) {
  uint32_t *bits = (uint32_t *)(void *)to;
  LO_EACH
  for (int64_t j = 0; j < n; j++) bits[j] = (uint32_t)from[j] << 16;
}

static void store_bf16(const float *restrict from, uint16_t *restrict to, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) {
    uint32_t u = bits_of(from[j]);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    to[j] = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : rounded);
  }
}

/* ---- Integers ---- */

static void load_i32(const int32_t *from, float *to, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) to[j] = (float)from[j];
}

static void load_i8(const int8_t *from, float *to, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) to[j] = (float)from[j];
}

static void load_u8(const uint8_t *from, float *to, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) to[j] = (float)from[j];
}

/* Beyond 2^24 the low 8 bits become one sticky bit above them: exact in f32, and on the same side
 * of each point where f16 or bf16 rounds. */
void LO_ISA_NAME(lo_load_odd)(const int32_t *from, float *to, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) {
    uint32_t sign = from[j] < 0 ? 0xffffffffu : 0, a = ((uint32_t)from[j] ^ sign) - sign;
    uint32_t odd = (a & ~0xffu) | (a & 0xff ? 0x100 : 0);
    a = a >> 24 ? odd : a;
    to[j] = (float)(int32_t)((a ^ sign) - sign);
  }
}

static inline float whole(float x, float low, float high) {
  x = x == x ? x : 0.0f;
  x = x < low ? low : x;
  return __builtin_rintf(x > high ? high : x);
}

static void store_i32(const float *restrict from, int32_t *restrict to, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) {
    float x = whole(from[j], -0x1p31f, 0x1.fffffep30f); /* the largest float below 2^31 */
    to[j] = from[j] >= 0x1p31f ? INT32_MAX : (int32_t)x;
  }
}

static void store_i8(const float *restrict from, int8_t *restrict to, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) to[j] = (int8_t)(int32_t)whole(from[j], -128, 127);
}

static void store_u8(const float *restrict from, uint8_t *restrict to, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) to[j] = (uint8_t)(int32_t)whole(from[j], 0, 255);
}

void LO_ISA_NAME(lo_load)(layerops_type type, const void *from, float *to, int64_t n) {
  switch (type) {
  case LAYEROPS_F32:
    memcpy(to, from, (size_t)n * sizeof *to);
    break;
  case LAYEROPS_F16:
    load_f16(from, to, n);
    break;
  case LAYEROPS_BF16:
    load_bf16(from, to, n);
    break;
  case LAYEROPS_I32:
    load_i32(from, to, n);
    break;
  case LAYEROPS_I8:
    load_i8(from, to, n);
    break;
  case LAYEROPS_U8:
    load_u8(from, to, n);
    break;
  }
}

void LO_ISA_NAME(lo_store)(layerops_type type, const float *from, void *to, int64_t n) {
  switch (type) {
  case LAYEROPS_F32:
    memcpy(to, from, (size_t)n * sizeof *from);
    break;
  case LAYEROPS_F16:
    store_f16(from, to, n);
    break;
  case LAYEROPS_BF16:
    store_bf16(from, to, n);
    break;
  case LAYEROPS_I32:
    store_i32(from, to, n);
    break;
  case LAYEROPS_I8:
    store_i8(from, to, n);
    break;
  case LAYEROPS_U8:
    store_u8(from, to, n);
    break;
  }
}

static void copy_rows(const float *from, int64_t from_row, float *to, int64_t to_row, int64_t rows,
                      int64_t n) {
  if (n > 8 * VECTOR)
    for (int64_t r = 0; r < rows; r++)
      memcpy(to + r * to_row, from + r * from_row, (size_t)n * sizeof *to);
  else
    for (int64_t r = 0; r < rows; r++) copy_floats(from + r * from_row, to + r * to_row, n);
}

void LO_ISA_NAME(lo_load_rows)(layerops_type type, const void *from, int64_t from_row, float *to,
                               int64_t to_row, int64_t rows, int64_t n) {
  if (type == LAYEROPS_F32) {
    copy_rows(from, from_row, to, to_row, rows, n);
    return;
  }
  const int64_t step = from_row * (int64_t)layerops_type_size(type);
  for (int64_t r = 0; r < rows; r++)
    LO_ISA_NAME(lo_load)(type, (const char *)from + r * step, to + r * to_row, n);
}

/* Conversion between the storage types and f32: round to nearest even, 16-bit floats overflow to
 * infinity, 8-bit floats saturate, integers too and take NaN as 0. */
#include <config.h>

#include <string.h>

#include "backends/cpu/isa/element.h"

/* ---- 16-bit floats ---- */

LO_FN void load_16(layerops_type type, const uint16_t *from, float *to, int64_t n) {
  V_EACH(n, j, left, v_store_upto(to + j, v_get(type, from + j, left), left););
}

LO_FN void store_16(layerops_type type, const float *from, uint16_t *to, int64_t n) {
  V_EACH(n, j, left, v_put(type, to + j, v_load_upto(from + j, left, v_all(0)), left););
}

/* ---- 8-bit floats ---- */

/* A format of 8 bits inside f32: `digits` of fraction; its exponents are less by `bias` there. The
 * code of the largest number; above it stand NaN and, in e5m2, infinity. */
typedef struct f8 {
  uint32_t digits, bias, largest;
} f8;
static const f8 e4m3 = {3, 120, 0x7e}, e5m2 = {2, 112, 0x7b};

/* The value of code 1, and what a small number is added to so that it rounds to a multiple. */
#define LEAST(f)  float_of((f.bias + 1 - f.digits) << 23)
#define MAGIC(f)  float_of((f.bias + 24 - f.digits) << 23)
#define DIGITS(f) (23 - f.digits) /* of f32 behind its own */

LO_FN float from_f8(f8 f, uint32_t code) {
  const uint32_t a = code & 0x7f;
  const float small = (float)(int32_t)a * LEAST(f);
  /* Codes above the largest get the exponent of infinity, e4m3's NaN a digit too. */
  const uint32_t normal = (a << DIGITS(f)) + (f.bias << 23), special = normal | 0x7f800000;
  const float x = a >> f.digits ? float_of(a > f.largest ? special : normal) : small;
  return float_of(bits_of(x) | (code & 0x80) << 24);
}

LO_FN uint8_t to_f8(f8 f, float x) {
  const uint32_t u = bits_of(x), top = (f.largest << DIGITS(f)) + (f.bias << 23);
  const uint32_t a = u & 0x7fffffff, cut = a < top ? a : top;
  const uint32_t small = bits_of(float_of(cut) + MAGIC(f)) - bits_of(MAGIC(f));
  const uint32_t half = (1u << (DIGITS(f) - 1)) - 1 + (cut >> DIGITS(f) & 1); /* ties to even */
  const uint32_t normal = (cut - (f.bias << 23) + half) >> DIGITS(f);
  const uint32_t code = cut < (f.bias + 1) << 23 ? small : normal;
  return (uint8_t)((a > 0x7f800000 ? 0x7f : code) | (u >> 24 & 0x80));
}

#define F8_LOOPS(name)                                                                             \
  static void load_##name(const uint8_t *restrict from, float *restrict to, int64_t n) {           \
    for (int64_t j = 0; j < n; j++) to[j] = from_f8(name, from[j]);                                \
  }                                                                                                \
  static void store_##name(const float *restrict from, uint8_t *restrict to, int64_t n) {          \
    for (int64_t j = 0; j < n; j++) to[j] = to_f8(name, from[j]);                                  \
  }
F8_LOOPS(e4m3)
F8_LOOPS(e5m2)

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
    load_16(LAYEROPS_F16, from, to, n);
    break;
  case LAYEROPS_BF16:
    load_16(LAYEROPS_BF16, from, to, n);
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
  case LAYEROPS_F8E4M3:
    load_e4m3(from, to, n);
    break;
  case LAYEROPS_F8E5M2:
    load_e5m2(from, to, n);
    break;
  }
}

void LO_ISA_NAME(lo_store)(layerops_type type, const float *from, void *to, int64_t n) {
  switch (type) {
  case LAYEROPS_F32:
    memcpy(to, from, (size_t)n * sizeof *from);
    break;
  case LAYEROPS_F16:
    store_16(LAYEROPS_F16, from, to, n);
    break;
  case LAYEROPS_BF16:
    store_16(LAYEROPS_BF16, from, to, n);
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
  case LAYEROPS_F8E4M3:
    store_e4m3(from, to, n);
    break;
  case LAYEROPS_F8E5M2:
    store_e5m2(from, to, n);
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

/* Elements of views: the formats of 16 and 8 bits, rounding, saturation. */
#include <config.h>

#include <math.h>

#include "backends/cpu/reference.h"

/* A binary format: 1 sign, then exponent, then `fraction` bits. */
typedef struct format {
  int fraction, least; /* the exponent of the smallest normal number, 2^least */
  unsigned sign;       /* its bit */
  unsigned largest;    /* the bits of the largest number, */
  unsigned infinity;   /* of what is larger, */
  unsigned nan;
} format;

static const format formats[LAYEROPS_TYPE_COUNT] = {
    [LAYEROPS_F16] = {10, -14, 0x8000, 0x7bff, 0x7c00, 0x7e00},
    [LAYEROPS_BF16] = {7, -126, 0x8000, 0x7f7f, 0x7f80, 0x7fc0},
    [LAYEROPS_F8E4M3] = {3, -6, 0x80, 0x7e, 0x7e, 0x7f}, /* saturates */
    [LAYEROPS_F8E5M2] = {2, -14, 0x80, 0x7b, 0x7b, 0x7f},
};

uint16_t lo_ref_encode(layerops_type type, double x) {
  const format *f = &formats[type];
  unsigned sign = signbit(x) ? f->sign : 0;
  double magnitude = fabs(x);
  if (isnan(x)) return (uint16_t)(sign | f->nan);
  if (magnitude == 0) return (uint16_t)sign;
  if (magnitude > 0x1p200) return (uint16_t)(sign | f->infinity); /* before ldexp gets large */
  int exponent = ilogb(magnitude);
  if (exponent < f->least) exponent = f->least;                   /* subnormal */
  double digits = rint(ldexp(magnitude, f->fraction - exponent)); /* ties to even */
  /* The leading digit of a normal number adds 1 to the exponent field, and so does a carry. */
  unsigned bits = ((unsigned)(exponent - f->least) << f->fraction) + (unsigned)digits;
  return (uint16_t)(sign | (bits > f->largest ? f->infinity : bits));
}

double lo_ref_decode_f8(layerops_type type, uint8_t bits) {
  const format *f = &formats[type];
  const unsigned magnitude = bits & 0x7f, field = magnitude >> f->fraction;
  const unsigned one = 1u << f->fraction, digits = magnitude & (one - 1);
  double value =
      ldexp(field ? one + digits : digits, f->least - f->fraction + (field ? (int)field - 1 : 0));
  if (magnitude > f->largest) value = type == LAYEROPS_F8E5M2 && !digits ? INFINITY : NAN;
  return bits & f->sign ? -value : value;
}

static double saturate(double x, double low, double high) {
  return isnan(x) ? 0 : x < low ? low : x > high ? high : rint(x);
}

void lo_ref_store_at(const layerops_matrix *v, int64_t l, int64_t i, int64_t j, double x) {
  int64_t at = l * v->batch_stride + i * v->stride + j;
  void *base = lo_address(v);
  switch (v->type) {
  case LAYEROPS_F32:
    ((float *)base)[at] = (float)x;
    break;
  case LAYEROPS_I32:
    ((int32_t *)base)[at] = (int32_t)saturate(x, INT32_MIN, INT32_MAX);
    break;
  case LAYEROPS_I8:
    ((int8_t *)base)[at] = (int8_t)saturate(x, INT8_MIN, INT8_MAX);
    break;
  case LAYEROPS_U8:
    ((uint8_t *)base)[at] = (uint8_t)saturate(x, 0, UINT8_MAX);
    break;
  case LAYEROPS_F8E4M3:
  case LAYEROPS_F8E5M2:
    ((uint8_t *)base)[at] = (uint8_t)lo_ref_encode(v->type, x);
    break;
  default:
    ((uint16_t *)base)[at] = lo_ref_encode(v->type, x);
  }
}

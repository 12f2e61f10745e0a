/* Elements of views: the formats of 16 bits, rounding, saturation. */
#include <config.h>

#include <math.h>

#include "backends/cpu/reference.h"

/* A binary format of 16 bits: 1 sign, then exponent, then `fraction` bits. */
typedef struct format {
  int fraction, least; /* the exponent of the smallest normal number, 2^least */
  unsigned infinity;
} format;

static const format f16 = {10, -14, 0x7c00};
static const format bf16 = {7, -126, 0x7f80};

static const format *format_of(layerops_type type) {
  return type == LAYEROPS_F16 ? &f16 : &bf16;
}

uint16_t lo_ref_encode_half(layerops_type type, double x) {
  const format *f = format_of(type);
  unsigned sign = signbit(x) ? 0x8000 : 0;
  double magnitude = fabs(x);
  if (isnan(x)) return (uint16_t)(sign | f->infinity | 1u << (f->fraction - 1));
  if (isinf(x)) return (uint16_t)(sign | f->infinity);
  if (magnitude == 0) return (uint16_t)sign;
  int exponent = ilogb(magnitude);
  if (exponent < f->least) exponent = f->least;                   /* subnormal */
  if (exponent > 200) return (uint16_t)(sign | f->infinity);      /* before ldexp gets large */
  double digits = rint(ldexp(magnitude, f->fraction - exponent)); /* ties to even */
  /* The leading digit of a normal number adds 1 to the exponent field, and so does a carry. */
  unsigned bits = ((unsigned)(exponent - f->least) << f->fraction) + (unsigned)digits;
  return (uint16_t)(sign | (bits > f->infinity ? f->infinity : bits));
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
  default:
    ((uint16_t *)base)[at] = lo_ref_encode_half(v->type, x);
  }
}

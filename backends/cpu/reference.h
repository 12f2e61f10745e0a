/* What the files of the reference share: elements of views as doubles, activations, its operations.
 */
#ifndef LO_CPU_REFERENCE_H
#define LO_CPU_REFERENCE_H

#include <string.h>

#include "common/context.h"

/* The value of 16 bits of f16 or bf16. bf16 is the upper half of an f32; an f16 with its exponent
 * moved is 2^112 times too small as one, a subnormal one is counted in its least unit. Inline,
 * since products spend their time here. */
static inline double lo_ref_decode_half(layerops_type type, uint16_t bits) {
  uint32_t magnitude = bits & 0x7fff, wide = magnitude << 16;
  float f;
  if (type == LAYEROPS_F16)
    wide = magnitude >= 0x7c00 ? 0x7f800000 | magnitude << 13 : magnitude << 13;
  memcpy(&f, &wide, sizeof f);
  double value = f;
  if (type == LAYEROPS_F16 && magnitude < 0x7c00)
    value = magnitude < 0x400 ? magnitude * 0x1p-24 : value * 0x1p112;
  return bits & 0x8000 ? -value : value;
}

/* The value of 8 bits of an 8-bit float, from its definition. */
double lo_ref_decode_f8(layerops_type type, uint8_t bits);

/* The bits nearest to a value in a format of 16 or 8 bits, ties to even. */
uint16_t lo_ref_encode(layerops_type type, double x);

/* Element (i, j) of batch entry l. */
static inline double lo_ref_load_at(const layerops_matrix *v, int64_t l, int64_t i, int64_t j) {
  int64_t at = l * v->batch_stride + i * v->stride + j;
  const void *base = lo_address(v);
  switch (v->type) {
  case LAYEROPS_F32:
    return ((const float *)base)[at];
  case LAYEROPS_I32:
    return ((const int32_t *)base)[at];
  case LAYEROPS_I8:
    return ((const int8_t *)base)[at];
  case LAYEROPS_U8:
    return ((const uint8_t *)base)[at];
  case LAYEROPS_F8E4M3:
  case LAYEROPS_F8E5M2:
    return lo_ref_decode_f8(v->type, ((const uint8_t *)base)[at]);
  default:
    return lo_ref_decode_half(v->type, ((const uint16_t *)base)[at]);
  }
}

/* Rounds once to the view's type: to nearest even; f16 and bf16 overflow to infinity, 8-bit floats
 * saturate, integers too and take NaN as 0. */
void lo_ref_store_at(const layerops_matrix *v, int64_t l, int64_t i, int64_t j, double x);

static inline double lo_ref_load(const layerops_matrix *v, int64_t i, int64_t j) {
  return lo_ref_load_at(v, 0, i, j);
}
static inline void lo_ref_store(const layerops_matrix *v, int64_t i, int64_t j, double x) {
  lo_ref_store_at(v, 0, i, j, x);
}

/* base.h says what they are; `saved` too. */
double lo_ref_activation(layerops_activation kind, double z, double slope);
double lo_ref_derivative(layerops_activation kind, double saved, double slope);

/* What follows a forward product, sparse or not: `sum` is element (i, j) of X W^T. Transposed:
 * preact, residual and y have a feature in each row. */
typedef struct lo_ref_finish {
  const layerops_matrix *bias, *preact, *residual, *y;
  bool transposed;
  double alpha, slope, scale_y;
  layerops_activation activation;
} lo_ref_finish;
void lo_ref_finish_sum(const lo_ref_finish *f, int64_t i, int64_t j, double sum);

#define REF_DECLARE(name, number)                                                                  \
  layerops_status lo_ref_##name(layerops_context *ctx, const layerops_##name##_args *args);
LAYEROPS_OP_LIST(REF_DECLARE)
#undef REF_DECLARE

#endif

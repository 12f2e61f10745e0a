/* The epilogue in registers of AVX-512's main loops (isa/grouped.h), for the file of each, which
 * defines before: sums_to_floats(out, constants, sums, r, v), the floats of vector v in row r.
 * Stores of bf16 take subnormals as 0, as the products do. */
#include "backends/cpu/isa/grouped.h"

/* What all rows of a tile share. */
typedef struct out_constants {
  __mmask32 columns;
  __m512 low, bias[2], scale[2]; /* scale: of integers */
  __m512i sums[2];               /* of W's columns */
} out_constants;

static inline __mmask16 out_mask(const out_constants *c, int v) {
  return (__mmask16)(c->columns >> 16 * v);
}

/* 16 values of an array for the columns from 16 v on: those that there are, or one for all. */
static inline __m512 out_floats(const out_constants *c, const float *p, int64_t step, int v) {
  return step ? _mm512_maskz_loadu_ps(out_mask(c, v), p + 16 * v) : _mm512_set1_ps(*p);
}

static inline __attribute__((always_inline)) out_constants open_out(const lo_grouped_out *o,
                                                                    int vectors, int columns) {
  static const float none = -0.0f; /* x + -0 is x */
  const lo_scaling *s = &o->scaling;
  out_constants c = {.columns = columns >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << columns) - 1,
                     .low = _mm512_set1_ps(o->low)};
  for (int v = 0; v < vectors; v++) {
    c.bias[v] = out_floats(&c, o->bias ? o->bias : &none, o->bias != NULL, v);
    if (!OUT_SCALES) continue;
    c.scale[v] = out_floats(&c, s->column_scale, s->column_step, v);
    if (!s->row_step) c.scale[v] = _mm512_mul_ps(_mm512_set1_ps(*s->row_scale), c.scale[v]);
    if (s->column) c.sums[v] = _mm512_loadu_si512(s->column + 16 * v);
  }
  return c;
}

static inline __attribute__((always_inline)) void finish_row(const lo_grouped_out *o,
                                                             const out_constants *c,
                                                             const __m512i *sums, int r,
                                                             int vectors) {
  char *y = o->y + r * o->y_row;
  __m512 z[2];
  for (int v = 0; v < vectors; v++)
    z[v] = _mm512_max_ps(c->low, _mm512_add_ps(sums_to_floats(o, c, sums[v], r, v), c->bias[v]));
#ifdef __AVX512BF16__
  if (o->type == LAYEROPS_BF16) {
    if (vectors == 2)
      _mm512_mask_storeu_epi16(y, c->columns, (__m512i)_mm512_cvtne2ps_pbh(z[1], z[0]));
    else
      _mm256_mask_storeu_epi16(y, out_mask(c, 0), (__m256i)_mm512_cvtneps_pbh(z[0]));
    return;
  }
#endif
  for (int v = 0; v < vectors; v++) _mm512_mask_storeu_ps(y + 64 * v, out_mask(c, v), z[v]);
}

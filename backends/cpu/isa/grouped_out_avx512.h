/* The epilogue in registers of AVX-512's main loops (isa/grouped.h), for the file of each, which
 * defines before: sums_to_floats(out, sums, r, v), the floats of vector v in row r. Stores of bf16
 * take subnormals as 0, as the products do. */
#include "backends/cpu/isa/grouped.h"

/* 16 values of an array for the columns from 16 v on: those that there are, or one for all. */
static inline __m512 out_floats(const float *p, int64_t step, int v, int columns) {
  const int left = columns - 16 * v;
  if (!step) return _mm512_set1_ps(*p);
  return _mm512_maskz_loadu_ps((__mmask16)(left >= 16 ? 0xffff : (1 << left) - 1), p + 16 * v);
}

static inline __attribute__((always_inline)) void
out_row(const lo_grouped_out *o, const __m512 z[2], int vectors, int columns, char *y) {
  const __mmask32 m = columns >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << columns) - 1;
#ifdef __AVX512BF16__
  if (o->type == LAYEROPS_BF16) {
    if (vectors == 2)
      _mm512_mask_storeu_epi16(y, m, (__m512i)_mm512_cvtne2ps_pbh(z[1], z[0]));
    else
      _mm256_mask_storeu_epi16(y, (__mmask16)m, (__m256i)_mm512_cvtneps_pbh(z[0]));
    return;
  }
#else
  (void)o;
#endif
  _mm512_mask_storeu_ps(y, (__mmask16)m, z[0]);
  if (vectors == 2) _mm512_mask_storeu_ps(y + 64, (__mmask16)(m >> 16), z[1]);
}

#define vec_out(t, sums, rows, vectors)                                                            \
  do {                                                                                             \
    const lo_grouped_out *o = (t)->out;                                                            \
    static const float none = -0.0f; /* x + -0 is x */                                             \
    const __m512 low = _mm512_set1_ps(o->low);                                                     \
    __m512 bias[2];                                                                                \
    for (int v = 0; v < vectors; v++)                                                              \
      bias[v] = out_floats(o->bias ? o->bias : &none, o->bias != NULL, v, (t)->columns);           \
    _Pragma("GCC unroll 32") for (int r = 0; r < rows; r++) {                                      \
      __m512 z[2];                                                                                 \
      for (int v = 0; v < vectors; v++)                                                            \
        z[v] = _mm512_max_ps(                                                                      \
            low, _mm512_add_ps(sums_to_floats(o, sums[r][v], r, v, (t)->columns), bias[v]));       \
      out_row(o, z, vectors, (t)->columns, o->y + r * o->y_row);                                   \
    }                                                                                              \
  } while (0)

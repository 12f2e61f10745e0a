/* Integer sums as floats, in registers: the arithmetic of integers.c, with its bits. */
#include "backends/cpu/isa/grouped_out_avx512.h"

static inline __attribute__((always_inline)) __m512
sums_to_floats(const lo_grouped_out *o, __m512i sums, int r, int v, int columns) {
  const lo_scaling *s = &o->scaling;
  if (s->column) {
    const uint32_t zero = (uint32_t)s->zero[r * s->zero_step] + (uint32_t)s->shift;
    const __m512i column = _mm512_loadu_si512(s->column + 16 * v);
    sums = _mm512_sub_epi32(sums, _mm512_mullo_epi32(_mm512_set1_epi32((int)zero), column));
  }
  const __m512 factor = _mm512_set1_ps(s->row_scale[r * s->row_step]);
  return _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums), factor),
                       out_floats(s->column_scale, s->column_step, v, columns));
}

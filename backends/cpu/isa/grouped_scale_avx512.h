/* Integer sums as floats, in registers: the arithmetic of integers.c, with its bits. */
#define OUT_SCALES                                 1
#define sums_to_floats(out, constants, sums, r, v) scaled(&(out)->scaling, constants, sums, r, v)
#include "backends/cpu/isa/grouped.h"

struct out_constants;
static inline __m512 scaled(const lo_scaling *s, const struct out_constants *c, __m512i sums, int r,
                            int v);
#include "backends/cpu/isa/grouped_out_avx512.h"

static inline __attribute__((always_inline)) __m512
scaled(const lo_scaling *s, const out_constants *c, __m512i sums, int r, int v) {
  __m512 scale = c->scale[v];
  if (s->column) {
    const uint32_t zero = (uint32_t)s->zero[r * s->zero_step] + (uint32_t)s->shift;
    sums = _mm512_sub_epi32(sums, _mm512_mullo_epi32(_mm512_set1_epi32((int)zero), c->sums[v]));
  }
  if (s->row_step) scale = _mm512_mul_ps(_mm512_set1_ps(s->row_scale[r]), scale);
  return _mm512_mul_ps(_mm512_cvtepi32_ps(sums), scale);
}

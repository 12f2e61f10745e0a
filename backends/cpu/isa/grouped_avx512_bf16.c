/* bf16 by vdpbf16ps: 14 x 32, 28 sums of the 32 registers; its latency asks for 15 at least.
 *
 * Of a pair the second product is added first, each rounded to nearest even. Subnormal inputs,
 * products and sums become 0, whatever the floating-point modes are. */
#include <config.h>

#include <immintrin.h>
#include <stdint.h>

typedef __m512i vec;
#define LANES           16
#define MAX_ROWS        14
#define GROUP           2
#define vec_zero()      _mm512_setzero_si512()
#define vec_load(p)     _mm512_loadu_si512(p)
#define vec_store(p, v) _mm512_storeu_si512(p, v)
#define vec_word(x)     _mm512_set1_epi32((int)(x))
#define vec_dot(x, w, sums)                                                                        \
  _mm512_castps_si512(_mm512_dpbf16_ps(_mm512_castsi512_ps(sums), (__m512bh)(x), (__m512bh)(w)))
#define ROWS(X)                                    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define OUT_SCALES                                 0
#define sums_to_floats(out, constants, sums, r, v) _mm512_castsi512_ps(sums)

static inline uint32_t vec_total(vec v) {
  const __m512 f = _mm512_castsi512_ps(v);
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(f), _mm512_extractf32x8_ps(f, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return (uint32_t)_mm_cvtsi128_si32(_mm_castps_si128(_mm_add_ss(two, _mm_movehdup_ps(two))));
}
#define DOT_FLIPS 0
#include "backends/cpu/isa/grouped_dots_avx512.h"
#include "backends/cpu/isa/grouped_out_avx512.h"
#include "backends/cpu/isa/grouped_kernel.h"
#include "backends/cpu/isa/grouped_short.h"

const lo_grouped lo_grouped_avx512_bf16 = {.type = LAYEROPS_BF16,
                                           .size = 2,
                                           .depth = 2,
                                           .masks = true,
                                           .rows = MAX_ROWS,
                                           .row_unit = 1,
                                           .panel = 2 * LANES,
                                           .flops_per_ns = 300,
                                           .out_types = 1u << LAYEROPS_F32 | 1u << LAYEROPS_BF16,
                                           .run = run_tile,
                                           .run_short = run_short,
                                           .dots = run_dots};

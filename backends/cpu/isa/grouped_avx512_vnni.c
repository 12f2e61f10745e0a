/* u8 by i8, by vpdpbusd: 14 x 32. Sums wrap around, so that the order does not matter. */
#include <config.h>

#include <immintrin.h>
#include <stdint.h>

typedef __m512i vec;
#define LANES               16
#define MAX_ROWS            14
#define GROUP               4
#define vec_zero()          _mm512_setzero_si512()
#define vec_load(p)         _mm512_loadu_si512(p)
#define vec_store(p, v)     _mm512_storeu_si512(p, v)
#define vec_word(x)         _mm512_set1_epi32((int)(x))
#define vec_dot(x, w, sums) _mm512_dpbusd_epi32(sums, x, w)
#define ROWS(X)             X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)

static inline uint32_t vec_total(vec v) {
  return (uint32_t)_mm512_reduce_add_epi32(v);
}
#define DOT_FLIPS 1
#include "backends/cpu/isa/grouped_dots_avx512.h"
#include "backends/cpu/isa/grouped_scale_avx512.h"
#include "backends/cpu/isa/grouped_kernel.h"
#include "backends/cpu/isa/grouped_short.h"

const lo_grouped lo_grouped_avx512_vnni = {.type = LAYEROPS_U8,
                                           .size = 1,
                                           .depth = 4,
                                           .masks = true,
                                           .rows = MAX_ROWS,
                                           .row_unit = 1,
                                           .panel = 2 * LANES,
                                           .flops_per_ns = 600,
                                           .out_types = 1u << LAYEROPS_F32,
                                           .run = run_tile,
                                           .run_short = run_short,
                                           .dots = run_dots};

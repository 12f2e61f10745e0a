/* bf16 in AMX's tiles: of 32 products the even and the odd ones are added apart; subnormals become
 * 0.
 */
#include <config.h>

#include <immintrin.h>

#define DEPTH                                      32
#define PRODUCT(c, x, w)                           _tile_dpbf16ps(c, x, w)
#define OUT_SCALES                                 0
#define sums_to_floats(out, constants, sums, r, v) _mm512_castsi512_ps(sums)
#include "backends/cpu/isa/grouped_out_avx512.h"

#include "backends/cpu/isa/grouped_amx.h"

const lo_grouped lo_grouped_amx_bf16 = {.type = LAYEROPS_BF16,
                                        .size = 2,
                                        .depth = DEPTH,
                                        .rows = 32,
                                        .row_unit = 16,
                                        .panel = LO_GROUPED_PANEL,
                                        .flops_per_ns = 2000,
                                        .out_types = 1u << LAYEROPS_F32 | 1u << LAYEROPS_BF16,
                                        .run = run_tile,
                                        .begin = begin,
                                        .end = end};

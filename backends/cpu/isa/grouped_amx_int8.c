/* u8 by i8 in AMX's tiles. */
#include <config.h>

#include <immintrin.h>

#include "backends/cpu/isa/grouped_scale_avx512.h"

#define DEPTH            64
#define PRODUCT(c, x, w) _tile_dpbusd(c, x, w)
#include "backends/cpu/isa/grouped_amx.h"

const lo_grouped lo_grouped_amx_int8 = {.type = LAYEROPS_U8,
                                        .size = 1,
                                        .depth = DEPTH,
                                        .rows = 32,
                                        .row_unit = 16,
                                        .panel = LO_GROUPED_PANEL,
                                        .flops_per_ns = 4000,
                                        .out_types = 1u << LAYEROPS_F32,
                                        .run = run_tile,
                                        .begin = begin,
                                        .end = end};

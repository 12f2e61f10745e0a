/* bf16 and u8 by i8 in AMX's tiles: 2 x 2 of 16 x 16 sums. A tile of X is 16 rows of 64 bytes, as
 * they stand in X; one of W 16 words of k by 16 columns, half of a panel. So a step of 64 bytes of
 * k takes 4 loads and 4 products, of which each waits for one load only.
 *
 * bf16: of 32 products the even and the odd ones are added apart; subnormals become 0. */
#include <config.h>

#include <immintrin.h>

#include "backends/cpu/isa/grouped.h"

/* Palette 1: 8 tiles of 16 rows by 64 bytes. Static, since the intrinsic does not tell the compiler
 * that it reads all of it. */
static const struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} shape __attribute__((aligned(64))) = {.palette = 1,
                                        .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                        .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

static void begin(void) {
  _tile_loadconfig(&shape);
}

/* Tiles in use cost every context switch 8 KB. */
static void end(void) {
  _tile_release();
}

/* Tiles: 0 to 3 sums, 4 and 5 of X, 6 and 7 of W. */
#define AMX_LOOP(name, step_of_k, product)                                                         \
  static void name(const lo_grouped_tile *t) {                                                     \
    const bool tall = t->rows > 16, wide = t->columns > 16;                                        \
    const char *x = t->x, *w = (const char *)t->w;                                                 \
    const int64_t row = t->c_row * 4;                                                              \
    char *c = t->c, *below = c + 16 * row;                                                         \
    if (t->load) {                                                                                 \
      _tile_loadd(0, c, row);                                                                      \
      if (wide) _tile_loadd(1, c + 64, row);                                                       \
      if (tall) _tile_loadd(2, below, row);                                                        \
      if (tall && wide) _tile_loadd(3, below + 64, row);                                           \
    } else {                                                                                       \
      _tile_zero(0);                                                                               \
      _tile_zero(1);                                                                               \
      _tile_zero(2);                                                                               \
      _tile_zero(3);                                                                               \
    }                                                                                              \
    for (int64_t k = 0; k < t->k; k += step_of_k) {                                                \
      _tile_loadd(6, w, 4 * LO_GROUPED_PANEL);                                                     \
      _tile_loadd(4, x, t->x_row);                                                                 \
      product(0, 4, 6);                                                                            \
      if (wide) {                                                                                  \
        _tile_loadd(7, w + 64, 4 * LO_GROUPED_PANEL);                                              \
        product(1, 4, 7);                                                                          \
      }                                                                                            \
      if (tall) {                                                                                  \
        _tile_loadd(5, x + 16 * t->x_row, t->x_row);                                               \
        product(2, 5, 6);                                                                          \
        if (wide) product(3, 5, 7);                                                                \
      }                                                                                            \
      x += 64;                                                                                     \
      w += 16 * 4 * LO_GROUPED_PANEL;                                                              \
    }                                                                                              \
    _tile_stored(0, c, row);                                                                       \
    if (wide) _tile_stored(1, c + 64, row);                                                        \
    if (tall) _tile_stored(2, below, row);                                                         \
    if (tall && wide) _tile_stored(3, below + 64, row);                                            \
  }
AMX_LOOP(run_bf16, 32, _tile_dpbf16ps)
AMX_LOOP(run_int8, 64, _tile_dpbusd)

const lo_grouped lo_grouped_amx_bf16 = {.type = LAYEROPS_BF16,
                                        .size = 2,
                                        .depth = 32,
                                        .rows = 32,
                                        .row_unit = 16,
                                        .panel = LO_GROUPED_PANEL,
                                        .flops_per_ns = 2000,
                                        .run = run_bf16,
                                        .begin = begin,
                                        .end = end};

const lo_grouped lo_grouped_amx_int8 = {.type = LAYEROPS_U8,
                                        .size = 1,
                                        .depth = 64,
                                        .rows = 32,
                                        .row_unit = 16,
                                        .panel = LO_GROUPED_PANEL,
                                        .flops_per_ns = 4000,
                                        .run = run_int8,
                                        .begin = begin,
                                        .end = end};

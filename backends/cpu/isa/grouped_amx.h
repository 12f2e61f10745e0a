/* A main loop in AMX's tiles: 2 x 2 of 16 x 16 sums. A tile of X is 16 rows of 64 bytes, as they
 * stand in X; one of W 16 words of k by 16 columns, half of a panel. So a step of 64 bytes of k
 * takes 4 loads and 4 products, of which each waits for one load only.
 *
 * Whoever includes this file defines before: DEPTH, the elements of k in 64 bytes; PRODUCT, the
 * tiles' product; and what grouped_out_avx512.h wants. */
#include <immintrin.h>

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

/* The sums pass through memory on their way from tiles to vectors. */
static void finish_rows(const lo_grouped_tile *t) {
  const int vectors = t->columns > 16 ? 2 : 1;
  const out_constants constants = open_out(t->out, vectors, t->columns);
  const int32_t *c = t->c;
  for (int r = 0; r < t->rows; r++, c += t->c_row) {
    const __m512i sums[2] = {_mm512_load_si512(c), _mm512_load_si512(c + 16)};
    finish_row(t->out, &constants, sums, r, vectors);
  }
}

/* Tiles: 0 to 3 sums, 4 and 5 of X, 6 and 7 of W. */
static void run_tile(const lo_grouped_tile *t) {
  const bool tall = t->rows > 16, wide = t->columns > 16;
  const char *x = t->x, *w = (const char *)t->w;
  const int64_t row = t->c_row * 4;
  char *c = t->c, *below = c + 16 * row;
  if (t->load) {
    _tile_loadd(0, c, row);
    if (wide) _tile_loadd(1, c + 64, row);
    if (tall) _tile_loadd(2, below, row);
    if (tall && wide) _tile_loadd(3, below + 64, row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t k = 0; k < t->k; k += DEPTH) {
    _tile_loadd(6, w, 4 * LO_GROUPED_PANEL);
    _tile_loadd(4, x, t->x_row);
    PRODUCT(0, 4, 6);
    if (wide) {
      _tile_loadd(7, w + 64, 4 * LO_GROUPED_PANEL);
      PRODUCT(1, 4, 7);
    }
    if (tall) {
      _tile_loadd(5, x + 16 * t->x_row, t->x_row);
      PRODUCT(2, 5, 6);
      if (wide) PRODUCT(3, 5, 7);
    }
    x += 64;
    w += 16 * 4 * LO_GROUPED_PANEL;
  }
  _tile_stored(0, c, row);
  if (wide) _tile_stored(1, c + 64, row);
  if (tall) _tile_stored(2, below, row);
  if (tall && wide) _tile_stored(3, below + 64, row);
  if (t->out) finish_rows(t);
}

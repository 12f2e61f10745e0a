/* Dot tiles (isa/grouped.h) of AVX-512, for the file of each main loop, which defines before: vec,
 * vec_dot, and vec_total(v), the sum of a vector's lanes as a word, in a fixed order. Both operands
 * are read along k, so that no lane idles for want of columns; a sum has one chain a lane. */
#include "backends/cpu/isa/grouped.h"

enum { DOT_ROWS = 4, DOT_COLUMNS = 4 };

static inline __attribute__((always_inline)) void dot_step(vec sums[DOT_ROWS][DOT_COLUMNS],
                                                           const lo_grouped_dots *t, int64_t at,
                                                           __mmask64 m, int rows, int columns) {
  const vec flip = _mm512_set1_epi32((int)t->flip);
  vec w[DOT_COLUMNS];
  for (int j = 0; j < columns; j++) w[j] = _mm512_maskz_loadu_epi8(m, t->w + j * t->w_row + at);
  for (int r = 0; r < rows; r++) {
    vec x = _mm512_maskz_loadu_epi8(m, t->x + r * t->x_row + at);
    if (DOT_FLIPS) x = _mm512_xor_si512(x, flip);
    for (int j = 0; j < columns; j++) sums[r][j] = vec_dot(x, w[j], sums[r][j]);
  }
}

static inline __attribute__((always_inline)) void dot_tile(const lo_grouped_dots *t, int rows,
                                                           int columns) {
  vec sums[DOT_ROWS][DOT_COLUMNS];
  const int64_t whole = t->bytes & ~(int64_t)63;
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < columns; j++) sums[r][j] = _mm512_setzero_si512();
  for (int64_t at = 0; at < whole; at += 64) dot_step(sums, t, at, ~(__mmask64)0, rows, columns);
  if (t->bytes > whole)
    dot_step(sums, t, whole, ((__mmask64)1 << (t->bytes - whole)) - 1, rows, columns);
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < columns; j++) t->c[r * t->c_row + j] = vec_total(sums[r][j]);
}

#define DOT_TILES(rows)                                                                            \
  static void dots_##rows##_1(const lo_grouped_dots *t) {                                          \
    dot_tile(t, rows, 1);                                                                          \
  }                                                                                                \
  static void dots_##rows##_2(const lo_grouped_dots *t) {                                          \
    dot_tile(t, rows, 2);                                                                          \
  }                                                                                                \
  static void dots_##rows##_3(const lo_grouped_dots *t) {                                          \
    dot_tile(t, rows, 3);                                                                          \
  }                                                                                                \
  static void dots_##rows##_4(const lo_grouped_dots *t) {                                          \
    dot_tile(t, rows, 4);                                                                          \
  }
DOT_TILES(1)
DOT_TILES(2)
DOT_TILES(3)
DOT_TILES(4)

/* Rows and columns beyond a tile's: tile after tile. */
static void run_dots(const lo_grouped_dots *all) {
#define DOT_LINE(rows)                                                                             \
  { dots_##rows##_1, dots_##rows##_2, dots_##rows##_3, dots_##rows##_4 }
  static void (*const tiles[DOT_ROWS][DOT_COLUMNS])(const lo_grouped_dots *) = {
      DOT_LINE(1), DOT_LINE(2), DOT_LINE(3), DOT_LINE(4)};
  for (int i = 0; i < all->rows; i += DOT_ROWS)
    for (int j = 0; j < all->columns; j += DOT_COLUMNS) {
      const int rows = all->rows - i, columns = all->columns - j;
      lo_grouped_dots t = *all;
      t.x += i * t.x_row;
      t.w += j * t.w_row;
      t.c += i * t.c_row + j;
      tiles[(rows < DOT_ROWS ? rows : DOT_ROWS) - 1]
           [(columns < DOT_COLUMNS ? columns : DOT_COLUMNS) - 1](&t);
    }
}

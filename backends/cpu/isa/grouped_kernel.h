/* The microkernel of a main loop that adds groups of k, written once over a vector of words; the
 * file of each loop gives it one. As microkernel.h, but that X is in bytes at any alignment and may
 * end within a group, where the rest is read by itself and the partners are zeros.
 *
 * Whoever includes this file defines before: vec, LANES, MAX_ROWS, ROWS(X) (X(1) to X(MAX_ROWS)),
 * GROUP, and, where it has an epilogue in registers, what grouped_out_avx512.h defines; vec_zero(),
 * vec_load(p), vec_store(p, v), vec_word(word), vec_dot(x, w, sums). It may use run_tile. */
#include <string.h>

#include "backends/cpu/isa/grouped.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define SIZE          (4 / GROUP)
#define VECTORS       2

/* As in microkernel.h: a pointer for every third row. */
#define BASES ((MAX_ROWS + 2) / 3)

ALWAYS_INLINE uint32_t word_at(const char *p, int64_t bytes) {
  uint32_t word = 0;
  memcpy(&word, p, (size_t)bytes);
  return word;
}

/* The `bytes` of X are 4, but at the end of k. */
ALWAYS_INLINE void step(vec sums[MAX_ROWS][VECTORS], const char *const x[], int64_t row,
                        int64_t bytes, const uint32_t *w, int rows, int vectors) {
  vec b[VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) b[v] = vec_load(w + v * LANES);
#pragma GCC unroll 32
  for (int r = 0; r < rows; r++) {
    vec a = vec_word(word_at(x[r / 3] + r % 3 * row, bytes));
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) sums[r][v] = vec_dot(a, b[v], sums[r][v]);
  }
}

ALWAYS_INLINE void tile(const lo_grouped_tile *t, int rows, int vectors) {
  vec sums[MAX_ROWS][VECTORS];
  const char *x[BASES];
  const uint32_t *w = t->w;
  int32_t *c = t->c;
#pragma GCC unroll 32
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      sums[r][v] = t->load ? vec_load(c + r * t->c_row + v * LANES) : vec_zero();
#pragma GCC unroll 16
  for (int i = 0; i < (rows + 2) / 3; i++) x[i] = t->x + 3 * i * t->x_row;
  for (int64_t words = t->k / GROUP; words > 0; words--) {
    step(sums, x, t->x_row, 4, w, rows, vectors);
    w += VECTORS * LANES;
#pragma GCC unroll 16
    for (int i = 0; i < (rows + 2) / 3; i++) x[i] += 4;
  }
  for (int rest = 1; rest < GROUP; rest++) /* its number of bytes becomes a constant */
    if (t->k % GROUP == rest) step(sums, x, t->x_row, rest * SIZE, w, rows, vectors);
#ifdef sums_to_floats
  if (t->out) {
    const out_constants constants = open_out(t->out, vectors, t->columns);
#pragma GCC unroll 32
    for (int r = 0; r < rows; r++) finish_row(t->out, &constants, sums[r], r, vectors);
    return;
  }
#endif
#pragma GCC unroll 32
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) vec_store(c + r * t->c_row + v * LANES, sums[r][v]);
}

#define TILES(rows)                                                                                \
  static void tile_##rows##_1(const lo_grouped_tile *t) {                                          \
    tile(t, rows, 1);                                                                              \
  }                                                                                                \
  static void tile_##rows##_2(const lo_grouped_tile *t) {                                          \
    tile(t, rows, 2);                                                                              \
  }
ROWS(TILES)

static void run_tile(const lo_grouped_tile *t) {
#define NARROW(rows) tile_##rows##_1,
#define WIDE(rows)   tile_##rows##_2,
  static void (*const tiles[VECTORS][MAX_ROWS])(const lo_grouped_tile *) = {{ROWS(NARROW)},
                                                                            {ROWS(WIDE)}};
  tiles[t->columns > LANES][t->rows - 1](t);
}

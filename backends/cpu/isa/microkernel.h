/* The microkernel, written once over a vector type; the file of each instruction set gives it one.
 *
 * A tile of ROWS x (VECTORS * LANES) sums stays in registers over the whole list of segments. A
 * step of k loads VECTORS vectors of W and broadcasts one X value a row.
 *
 * Whoever includes this file defines before: vec, LANES, MAX_ROWS, ROWS(X) (X(1) to X(MAX_ROWS)),
 * PANEL (the tile's width as a string),
 * FLOPS_PER_NS, vec_zero(), vec_load(p), vec_store(p, v), vec_broadcast(p), vec_fma(a, b, c). The
 * arrays below become registers, since all bounds are constants once inlined. */
#include "backends/cpu/isa/isa.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Rows at a stride are addressed from every third row (base, base + stride, base + 2 stride: scaled
 * index addressing), so that 14 rows take 5 pointers and not 14. */
#define BASES ((MAX_ROWS + 2) / 3)

ALWAYS_INLINE void step(vec sums[MAX_ROWS][LO_MAX_VECTORS], const float *const x[], int64_t row,
                        const float *w, int rows, int vectors, int layout) {
  vec b[LO_MAX_VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) b[v] = vec_load(w + v * LANES);
#pragma GCC unroll 32
  for (int r = 0; r < rows; r++) {
    vec a = vec_broadcast(layout == LO_K_MAJOR ? x[0] + r : x[r / 3] + r % 3 * row);
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) sums[r][v] = vec_fma(a, b[v], sums[r][v]);
  }
}

ALWAYS_INLINE void segment(vec sums[MAX_ROWS][LO_MAX_VECTORS], const lo_segment *s,
                           const lo_tile *t, int rows, int vectors, int layout) {
  const int64_t row = t->x_row, x_step = layout == LO_K_MAJOR ? t->x_step : 1, w_step = t->w_step;
  const int bases = layout == LO_K_MAJOR ? 1 : (rows + 2) / 3;
  const float *x[BASES], *w = s->w;
#pragma GCC unroll 16
  for (int i = 0; i < bases; i++) x[i] = s->x + t->x_first + 3 * i * row;
  int64_t k = s->k;
  for (; k >= 4; k -= 4) {
#pragma GCC unroll 4
    for (int u = 0; u < 4; u++) {
      step(sums, x, row, w, rows, vectors, layout);
      w += w_step;
#pragma GCC unroll 16
      for (int i = 0; i < bases; i++) x[i] += x_step;
    }
  }
  for (; k > 0; k--) {
    step(sums, x, row, w, rows, vectors, layout);
    w += w_step;
#pragma GCC unroll 16
    for (int i = 0; i < bases; i++) x[i] += x_step;
  }
}

ALWAYS_INLINE void tile(const lo_tile *t, int rows, int vectors, int layout) {
  vec sums[MAX_ROWS][LO_MAX_VECTORS];
#pragma GCC unroll 32
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      sums[r][v] = t->load ? vec_load(t->c + r * t->c_row + v * LANES) : vec_zero();
  for (int64_t i = 0; i < t->count; i++) segment(sums, &t->list[i], t, rows, vectors, layout);
#pragma GCC unroll 32
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) vec_store(t->c + r * t->c_row + v * LANES, sums[r][v]);
}

/* All heights, with tiles of 1 and of 2 vectors, in both layouts of X. */
#define TILES(rows)                                                                                \
  static void row_major_##rows##_1(const lo_tile *t) {                                             \
    tile(t, rows, 1, LO_ROW_MAJOR);                                                                \
  }                                                                                                \
  static void row_major_##rows##_2(const lo_tile *t) {                                             \
    tile(t, rows, 2, LO_ROW_MAJOR);                                                                \
  }                                                                                                \
  static void k_major_##rows##_1(const lo_tile *t) {                                               \
    tile(t, rows, 1, LO_K_MAJOR);                                                                  \
  }                                                                                                \
  static void k_major_##rows##_2(const lo_tile *t) {                                               \
    tile(t, rows, 2, LO_K_MAJOR);                                                                  \
  }
ROWS(TILES)

#define ROW_MAJOR_1(rows) row_major_##rows##_1,
#define ROW_MAJOR_2(rows) row_major_##rows##_2,
#define K_MAJOR_1(rows)   k_major_##rows##_1,
#define K_MAJOR_2(rows)   k_major_##rows##_2,
#define STRING_(x)        #x
#define STRING(x)         STRING_(x)
#define SHAPE             STRING(LO_ISA) "_" STRING(MAX_ROWS) "x" PANEL
const lo_microkernels LO_ISA_NAME(lo_microkernels) = {
    .kernels = {{SHAPE "_in_place", lo_refuses_w_in_place}, {SHAPE "_packed", NULL}},
    .rows = MAX_ROWS,
    .vectors = LO_MAX_VECTORS,
    .lanes = LANES,
    .flops_per_ns = FLOPS_PER_NS,
    .run = {{{ROWS(ROW_MAJOR_1)}, {ROWS(ROW_MAJOR_2)}}, {{ROWS(K_MAJOR_1)}, {ROWS(K_MAJOR_2)}}},
};

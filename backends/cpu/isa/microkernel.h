/* The microkernels, written once over a vector type; the file of each instruction set gives it one.
 *
 * A tile of ROWS x (VECTORS * LANES) sums stays in registers over the whole list of segments. A
 * step of k loads VECTORS vectors of W and broadcasts one X value a row. Wide and low tiles load
 * least for each multiply-add, and rows that many pages apart do not evict each other.
 *
 * A dot tile has both operands along k: ROWS x COLUMNS vectors of partial sums, each added up in a
 * fixed tree behind the last k. It reads W as it is stored and wastes no lane on few columns.
 *
 * Whoever includes this file defines before: vec, LANES, SHAPE (the name), FLOPS_PER_NS,
 * vec_zero(), vec_load(p), vec_load_part(p, n) (n < LANES elements, then zeros), vec_store(p, v),
 * vec_store_part(p, v, n), vec_broadcast(p), vec_set(x), vec_fma(a, b, c), vec_add(a, b),
 * vec_mul(a, b), vec_max(a, b) (b where either is NaN), vec_store_sums(p, a, b, c, d) (the sums of
 * four vectors' lanes); MOST_ROWS, VECTORS, TILES(X) (X(rows, vectors) of each tile), TILE_ROWS
 * (the most rows for each number of vectors) and the same for dots: DOT_COLUMNS, DOTS(X), DOT_ROWS.
 * The arrays below become registers, since all bounds are constants once inlined. RESIDENT is the
 * longest k whose W of two vectors stays in registers (0 or 13). For slices: SLICE_ROWS,
 * SLICE_VECTORS, vec_join(x, parts) (a vector of 1, 2 or 4 slices, as SLICES(X) has them: X(rows,
 * vectors, parts)). */
#include "backends/cpu/isa/isa.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#define UPTO_1(X, v)  X(1, v)
#define UPTO_2(X, v)  UPTO_1(X, v) X(2, v)
#define UPTO_3(X, v)  UPTO_2(X, v) X(3, v)
#define UPTO_4(X, v)  UPTO_3(X, v) X(4, v)
#define UPTO_5(X, v)  UPTO_4(X, v) X(5, v)
#define UPTO_6(X, v)  UPTO_5(X, v) X(6, v)
#define UPTO_7(X, v)  UPTO_6(X, v) X(7, v)
#define UPTO_8(X, v)  UPTO_7(X, v) X(8, v)
#define UPTO_9(X, v)  UPTO_8(X, v) X(9, v)
#define UPTO_10(X, v) UPTO_9(X, v) X(10, v)
#define UPTO_11(X, v) UPTO_10(X, v) X(11, v)
#define UPTO_12(X, v) UPTO_11(X, v) X(12, v)
#define UPTO_13(X, v) UPTO_12(X, v) X(13, v)
#define UPTO_14(X, v) UPTO_13(X, v) X(14, v)

/* ---- Tiles ---- */

/* Rows at a stride are addressed from every third row (base, base + stride, base + 2 stride: scaled
 * index addressing), so that 14 rows take 5 pointers and not 14. */
ALWAYS_INLINE void step(vec sums[MOST_ROWS][VECTORS], const float *const x[], int64_t row,
                        const float *w, int rows, int vectors, int layout) {
  vec b[VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) b[v] = vec_load(w + v * LANES);
#pragma GCC unroll 32
  for (int r = 0; r < rows; r++) {
    vec a = vec_broadcast(layout == LO_K_MAJOR     ? x[0] + r
                          : layout == LO_SCATTERED ? x[r]
                                                   : x[r / 3] + r % 3 * row);
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) sums[r][v] = vec_fma(a, b[v], sums[r][v]);
  }
}

/* The tile's place in C is fetched meanwhile, a row every few steps: its stores would else hold up
 * the loads of the next tile. */
ALWAYS_INLINE void segment(vec sums[MOST_ROWS][VECTORS], const lo_segment *s, const lo_tile *t,
                           int rows, int vectors, int layout) {
  const float *c = t->c;
  int left = s == t->list ? rows : 0;
  const int64_t row = t->x_row, x_step = layout == LO_K_MAJOR ? t->x_step : 1, w_step = t->w_step;
  const int bases = layout == LO_K_MAJOR ? 1 : layout == LO_SCATTERED ? rows : (rows + 2) / 3;
  const float *x[MOST_ROWS], *w = s->w;
#pragma GCC unroll 16
  for (int i = 0; i < bases; i++)
    x[i] = layout == LO_SCATTERED ? t->x_rows[t->x_first + i] : s->x + t->x_first + 3 * i * row;
  int64_t k = s->k;
  for (; k >= 4; k -= 4) {
    if (left) {
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) __builtin_prefetch(c + v * LANES, 1);
      c += t->c_row;
      left--;
    }
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

/* The commonest epilogues without leaving the registers. */
ALWAYS_INLINE void add_bias(vec sums[MOST_ROWS][VECTORS], const lo_tile *t, int rows, int vectors) {
  const int64_t last = t->columns - (vectors - 1) * LANES;
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) {
    const float *p = t->bias + v * LANES;
    vec b = v == vectors - 1 && last < LANES ? vec_load_part(p, (int)last) : vec_load(p);
#pragma GCC unroll 32
    for (int r = 0; r < rows; r++) sums[r][v] = vec_add(sums[r][v], b);
  }
}

ALWAYS_INLINE void raise(vec sums[MOST_ROWS][VECTORS], int rows, int vectors) {
  const vec zero = vec_zero();
#pragma GCC unroll 32
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) sums[r][v] = vec_max(zero, sums[r][v]);
}

ALWAYS_INLINE void add_from(vec sums[MOST_ROWS][VECTORS], const lo_tile *t, int rows, int vectors) {
#pragma GCC unroll 32
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      sums[r][v] = vec_add(vec_load(t->from + r * t->from_row + v * LANES), sums[r][v]);
}

ALWAYS_INLINE void store(vec sums[MOST_ROWS][VECTORS], const lo_tile *t, int rows, int vectors) {
  const int64_t last = t->columns - (vectors - 1) * LANES, row = t->c_row;
  float *c = t->c;
#pragma GCC unroll 32
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors - 1; v++) vec_store(c + v * LANES, sums[r][v]);
    if (last == LANES)
      vec_store(c + (vectors - 1) * LANES, sums[r][vectors - 1]);
    else
      vec_store_part(c + (vectors - 1) * LANES, sums[r][vectors - 1], (int)last);
    c += row;
  }
}

ALWAYS_INLINE void tile(const lo_tile *t, int rows, int vectors, int layout) {
  vec sums[MOST_ROWS][VECTORS];
  const bool first = t->from && !t->late;
#pragma GCC unroll 32
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      sums[r][v] = first ? vec_load(t->from + r * t->from_row + v * LANES) : vec_zero();
  for (int64_t i = 0; i < t->count; i++) segment(sums, &t->list[i], t, rows, vectors, layout);
  if (t->late) add_from(sums, t, rows, vectors);
  if (t->bias) add_bias(sums, t, rows, vectors);
  if (t->relu) raise(sums, rows, vectors);
  store(sums, t, rows, vectors);
}

ALWAYS_INLINE void tiles(lo_tile *t, int rows, int vectors, int layout) {
  for (int64_t i = 0; i < t->tiles; i++) {
    tile(t, rows, vectors, layout);
    t->x_first += rows * (layout == LO_ROW_MAJOR ? t->x_row : 1);
    t->c += rows * t->c_row;
    if (t->from) t->from += rows * t->from_row;
  }
}

#define TILE_FUNCTIONS(rows, vectors)                                                              \
  static void row_major_##rows##_##vectors(lo_tile *t) {                                           \
    tiles(t, rows, vectors, LO_ROW_MAJOR);                                                         \
  }                                                                                                \
  static void k_major_##rows##_##vectors(lo_tile *t) {                                             \
    tiles(t, rows, vectors, LO_K_MAJOR);                                                           \
  }                                                                                                \
  static void scattered_##rows##_##vectors(lo_tile *t) {                                           \
    tiles(t, rows, vectors, LO_SCATTERED);                                                         \
  }
TILES(TILE_FUNCTIONS)

/* ---- Short k ---- */

#if RESIDENT
/* A tile of one row, `tiles` times, with all of W in registers: rows are independent chains, and
 * their stores are spread among the multiply-adds. */
ALWAYS_INLINE void resident(lo_tile *t, int depth, int vectors) {
  const int64_t last = t->columns - (vectors - 1) * LANES, x_row = t->x_row, c_row = t->c_row;
  const float *x = t->list->x + t->x_first, floor = t->relu ? 0.0f : -__builtin_inff();
  const vec low = vec_broadcast(&floor);
  float *c = t->c;
  vec w[RESIDENT][2], bias[2];
#pragma GCC unroll 16
  for (int k = 0; k < depth; k++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) w[k][v] = vec_load(t->list->w + k * t->w_step + v * LANES);
#pragma GCC unroll 2
  for (int v = 0; v < vectors; v++) {
    const int at = v * LANES; /* t->bias + at is no pointer where there is no bias */
    bias[v] = !t->bias                           ? vec_zero()
              : v + 1 < vectors || last == LANES ? vec_load(t->bias + at)
                                                 : vec_load_part(t->bias + at, (int)last);
  }
  for (int64_t i = 0; i < t->tiles; i++) {
    vec s[2];
#pragma GCC unroll 16
    for (int k = 0; k < depth; k++) {
      const vec a = vec_broadcast(x + k);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) s[v] = k ? vec_fma(a, w[k][v], s[v]) : vec_mul(a, w[k][v]);
    }
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      s[v] = vec_max(low, vec_add(s[v], bias[v]));
      if (v + 1 < vectors || last == LANES)
        vec_store(c + v * LANES, s[v]);
      else
        vec_store_part(c + v * LANES, s[v], (int)last);
    }
    x += x_row;
    c += c_row;
  }
}

#define RESIDENTS(X) UPTO_13(X, 1) UPTO_13(X, 2)
#define RESIDENT_FUNCTION(depth, vectors)                                                          \
  static void resident_##depth##_##vectors(lo_tile *t) {                                           \
    resident(t, depth, vectors);                                                                   \
  }
RESIDENTS(RESIDENT_FUNCTION)
#endif

/* ---- Dot tiles ---- */

enum { MOST_DOT_ROWS = 8 };

/* The partial sums added up, four at a time: four of a row or of a dense column with one store. */
ALWAYS_INLINE void store_dots(vec sums[MOST_DOT_ROWS][LO_MAX_DOT_COLUMNS], const lo_dot_tile *t,
                              int rows, int columns) {
  const int first = columns < 4 ? 0 : 4, rest = columns - first; /* columns left over by fours */
#pragma GCC unroll 16
  for (int r = 0; first && r < rows; r++)
    vec_store_sums(t->c + r * t->c_row, sums[r][0], sums[r][1], sums[r][2], sums[r][3]);
#pragma GCC unroll 16
  for (int q = 0; q < rows * rest; q += 4) {
    float four[4];
    vec s[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
      s[i] = q + i < rows * rest ? sums[(q + i) / rest][first + (q + i) % rest] : vec_zero();
    if (columns == 1 && q + 4 <= rows && t->c_row == 1) {
      vec_store_sums(t->c + q, s[0], s[1], s[2], s[3]);
      continue;
    }
    vec_store_sums(four, s[0], s[1], s[2], s[3]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
      if (q + i < rows * rest) t->c[(q + i) / rest * t->c_row + first + (q + i) % rest] = four[i];
  }
}

ALWAYS_INLINE void dot_part(vec sums[MOST_DOT_ROWS][LO_MAX_DOT_COLUMNS], const lo_dot_tile *t,
                            const float *x, const float *w, int64_t k, int rows, int columns) {
  vec b[LO_MAX_DOT_COLUMNS];
  const int64_t x_row = t->x_row, w_row = t->w_row;
  for (; k >= LANES; k -= LANES) {
#pragma GCC unroll 8
    for (int c = 0; c < columns; c++) b[c] = vec_load(w + c * w_row);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      vec a = vec_load(x + r * x_row);
#pragma GCC unroll 8
      for (int c = 0; c < columns; c++) sums[r][c] = vec_fma(a, b[c], sums[r][c]);
    }
    x += LANES;
    w += LANES;
  }
  if (k == 0) return;
#pragma GCC unroll 8
  for (int c = 0; c < columns; c++) b[c] = vec_load_part(w + c * w_row, (int)k);
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
    vec a = vec_load_part(x + r * x_row, (int)k);
#pragma GCC unroll 8
    for (int c = 0; c < columns; c++) sums[r][c] = vec_fma(a, b[c], sums[r][c]);
  }
}

ALWAYS_INLINE void dot(const lo_dot_tile *t, int rows, int columns) {
  vec sums[MOST_DOT_ROWS][LO_MAX_DOT_COLUMNS];
#pragma GCC unroll 32
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int c = 0; c < columns; c++) sums[r][c] = vec_zero();
  for (int64_t i = 0; i < t->count; i++) {
    const lo_segment *s = &t->list[i];
    dot_part(sums, t, s->x + t->x_first, s->w + t->w_first, s->k, rows, columns);
  }
  const int64_t part = t->part ? t->part : t->k;
  const float *x = t->x, *w = t->w;
  for (int64_t k = t->k; k > 0; k -= part) {
    dot_part(sums, t, x, w, k < part ? k : part, rows, columns);
    x += t->x_next;
    w += t->w_next;
  }
  store_dots(sums, t, rows, columns);
}

#define DOT_FUNCTION(rows, columns)                                                                \
  static void dot_##rows##_##columns(const lo_dot_tile *t) {                                       \
    dot(t, rows, columns);                                                                         \
  }
DOTS(DOT_FUNCTION)

/* ---- Slices ---- */

ALWAYS_INLINE void slices(const lo_slices *t, int rows, int vectors, int parts) {
  vec sums[SLICE_ROWS][SLICE_VECTORS];
  const float *x[LO_MAX_SLICES], *d = t->d;
  const int64_t x_row = t->x_row, d_row = t->d_row;
#pragma GCC unroll 16
  for (int s = 0; s < vectors * parts; s++) x[s] = t->x[s];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) sums[r][v] = vec_zero();
  for (int64_t i = 0; i < t->m; i++) {
    vec b[SLICE_VECTORS];
    __builtin_prefetch(d + 12 * d_row); /* rows may lie pages apart */
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) b[v] = vec_join(x + v * parts, parts);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const vec a = vec_broadcast(d + r);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) sums[r][v] = vec_fma(a, b[v], sums[r][v]);
    }
    d += d_row;
#pragma GCC unroll 16
    for (int s = 0; s < vectors * parts; s++) x[s] += x_row;
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) vec_store(t->c + r * t->c_row + v * LANES, sums[r][v]);
}

#define SLICES_FUNCTION(rows, vectors, parts)                                                      \
  static void slices_##rows##_##vectors##_##parts(const lo_slices *t) {                            \
    slices(t, rows, vectors, parts);                                                               \
  }
SLICES(SLICES_FUNCTION)

/* ---- The table ---- */

#define ROW_MAJOR(rows, vectors) [vectors - 1][rows - 1] = row_major_##rows##_##vectors,
#define K_MAJOR(rows, vectors)   [vectors - 1][rows - 1] = k_major_##rows##_##vectors,
#define SCATTERED(rows, vectors) [vectors - 1][rows - 1] = scattered_##rows##_##vectors,
#define RESIDENT_ENTRY(depth, v) [v - 1][depth - 1] = resident_##depth##_##v,
#define DOT_ENTRY(rows, columns) [columns - 1][rows - 1] = dot_##rows##_##columns,
#define SLICES_ENTRY(rows, vectors, parts)                                                         \
  [parts / 2][vectors - 1][rows < SLICE_ROWS] = slices_##rows##_##vectors##_##parts,
#define STRING_(x) #x
#define STRING(x)  STRING_(x)
#define NAME(kind) STRING(LO_ISA) "_" SHAPE "_" kind
const lo_microkernels LO_ISA_NAME(lo_microkernels) = {
    .kernels = {{STRING(LO_ISA) "_dot", lo_refuses_dot},
                {NAME("prepacked"), lo_refuses_prepacked},
                {NAME("in_place"), lo_refuses_in_place},
                {NAME("packed"), NULL}},
    .lanes = LANES,
    .vectors = VECTORS,
    .rows = TILE_ROWS,
    .dot_columns = DOT_COLUMNS,
    .dot_rows = DOT_ROWS,
    .lane_bits = LANES == 16  ? 4
                 : LANES == 8 ? 3
                              : 2,
    .flops_per_ns = FLOPS_PER_NS,
    .ns = 2.0 * LANES / FLOPS_PER_NS,
    .lane_share = 1.0 / LANES,
    .run = {{TILES(ROW_MAJOR)}, {TILES(K_MAJOR)}, {TILES(SCATTERED)}},
    .dot = {DOTS(DOT_ENTRY)},
    .slice_rows = SLICE_ROWS,
    .slice_vectors = SLICE_VECTORS,
    .slices = {SLICES(SLICES_ENTRY)},
#if RESIDENT
    .resident = {RESIDENTS(RESIDENT_ENTRY)},
#endif
};

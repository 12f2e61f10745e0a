/* The epilogue of a product: what follows a tile of finished sums before it leaves the core.
 * Arithmetic runs over whole vectors, the tile's padding too; only loads and stores of the operands
 * stop at the edge. */
#include <config.h>

#include "backends/cpu/isa/part.h"

typedef struct place {
  float *tile;
  int64_t tile_row, i, j, rows, cols;
  int64_t width; /* cols in whole vectors */
} place;

static inline char *element(const lo_plane *p, int64_t i, int64_t j) {
  return p->base + (i * p->stride + j) * (int64_t)(p->type == LAYEROPS_F32 ? 4 : 2);
}

/* Row i of a plane as whole vectors of floats: in place, or in `copy` (zeros at first). */
static inline const float *get_row(const lo_plane *p, int64_t i, const place *t, float *copy) {
  const char *from = element(p, i, t->j);
  if (p->type != LAYEROPS_F32)
    LO_ISA_NAME(lo_load)(p->type, from, copy, t->cols);
  else if (t->cols == t->width)
    return (const float *)(const void *)from;
  else
    copy_floats((const float *)(const void *)from, copy, t->cols);
  return copy;
}

static inline float *row_of(const place *t, int64_t r) {
  return t->tile + r * t->tile_row;
}

static inline void add_row(float *row, float factor, const float *more, int64_t width) {
  for (int64_t c = 0; c < width; c += VECTOR)
    for (int l = 0; l < VECTOR; l++) row[c + l] += factor * more[c + l];
}

static void scale(float alpha, const place *t) {
  for (int64_t r = 0; r < t->rows; r++)
    for (int64_t c = 0; c < t->width; c += VECTOR)
      for (int l = 0; l < VECTOR; l++) row_of(t, r)[c + l] *= alpha;
}

static void add_bias(const lo_plane *bias, const place *t) {
  float copy[LO_MAX_PANEL] = {0};
  const float *b = get_row(bias, 0, t, copy);
  for (int64_t r = 0; r < t->rows; r++) add_row(row_of(t, r), 1.0f, b, t->width);
}

static void add_rows(float factor, const lo_plane *p, const place *t) {
  float copy[LO_MAX_PANEL] = {0};
  for (int64_t r = 0; r < t->rows; r++)
    add_row(row_of(t, r), factor, get_row(p, t->i + r, t, copy), t->width);
}

static void derive(const lo_finish *f, const place *t) {
  float copy[LO_MAX_PANEL] = {0};
  for (int64_t r = 0; r < t->rows; r++) {
    const float *saved = get_row(&f->saved, t->i + r, t, copy);
    LO_ISA_NAME(lo_derive)
    (f->derivative, f->derivative_slope, row_of(t, r), saved, row_of(t, r), t->width);
  }
}

static void store(const lo_plane *to, const place *t) {
  for (int64_t r = 0; r < t->rows; r++) {
    char *row = element(to, t->i + r, t->j);
    if (to->type == LAYEROPS_F32)
      copy_floats(row_of(t, r), (float *)(void *)row, t->cols);
    else
      LO_ISA_NAME(lo_store)(to->type, row_of(t, r), row, t->cols);
  }
}

void LO_ISA_NAME(lo_finish_tile)(const lo_finish *f, float *tile, int64_t tile_row, int64_t i,
                                 int64_t j, int64_t rows, int64_t cols) {
  const int64_t width = (cols + VECTOR - 1) / VECTOR * VECTOR;
  const place t = {tile, tile_row, i, j, rows, cols, width};
  if (f->alpha != 1.0f) scale(f->alpha, &t);
  if (f->beta != 0.0f) add_rows(f->beta, &f->c, &t);
  if (f->bias.base) add_bias(&f->bias, &t);
  if (f->preact.base) store(&f->preact, &t);
  if (f->activation != LAYEROPS_IDENTITY) {
    const bool whole = width == tile_row; /* one call for all rows */
    for (int64_t r = 0; r < (whole ? 1 : rows); r++) LO_ISA_NAME(lo_activate)
    (f->activation, f->slope, row_of(&t, r), row_of(&t, r), whole ? rows * width : width);
  }
  if (f->derivative != LAYEROPS_IDENTITY) derive(f, &t);
  if (f->residual.base) add_rows(1.0f, &f->residual, &t);
  store(&f->c, &t);
}

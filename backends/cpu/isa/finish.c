/* The epilogue of a product: what follows a tile of finished sums before it leaves the core. */
#include <config.h>

#include "backends/cpu/isa/part.h"

static inline char *element(const lo_plane *p, int64_t i, int64_t j) {
  return p->base + (i * p->stride + j) * (int64_t)(p->type == LAYEROPS_F32 ? 4 : 2);
}

/* Row i of a plane as floats: in place where it is f32, else converted to `copy`. */
static inline const float *row_of(const lo_plane *p, int64_t i, int64_t j, float *copy,
                                  int64_t cols) {
  const char *from = element(p, i, j);
  if (p->type == LAYEROPS_F32) return (const float *)(const void *)from;
  LO_ISA_NAME(lo_load)(p->type, from, copy, cols);
  return copy;
}

static inline void put_row(const lo_plane *p, int64_t i, int64_t j, const float *row,
                           int64_t cols) {
  LO_ISA_NAME(lo_store)(p->type, row, element(p, i, j), cols);
}

typedef struct place {
  float *tile;
  int64_t tile_row, i, j, rows, cols;
} place;

static void scale(float alpha, const place *t) {
  for (int64_t r = 0; r < t->rows; r++) LO_EACH
  for (int64_t c = 0; c < t->cols; c++) t->tile[r * t->tile_row + c] *= alpha;
}

static void add_old(float beta, const lo_plane *c, const place *t) {
  float copy[LO_MAX_PANEL];
  for (int64_t r = 0; r < t->rows; r++) {
    const float *old = row_of(c, t->i + r, t->j, copy, t->cols);
    float *row = t->tile + r * t->tile_row;
    LO_EACH
    for (int64_t l = 0; l < t->cols; l++) row[l] += beta * old[l];
  }
}

static void add_bias(const lo_plane *bias, const place *t) {
  float copy[LO_MAX_PANEL];
  const float *b = row_of(bias, 0, t->j, copy, t->cols);
  for (int64_t r = 0; r < t->rows; r++) {
    float *row = t->tile + r * t->tile_row;
    LO_EACH
    for (int64_t l = 0; l < t->cols; l++) row[l] += b[l];
  }
}

static void add_residual(const lo_plane *residual, const place *t) {
  float copy[LO_MAX_PANEL];
  for (int64_t r = 0; r < t->rows; r++) {
    const float *more = row_of(residual, t->i + r, t->j, copy, t->cols);
    float *row = t->tile + r * t->tile_row;
    LO_EACH
    for (int64_t l = 0; l < t->cols; l++) row[l] += more[l];
  }
}

static void derive(const lo_finish *f, const place *t) {
  float copy[LO_MAX_PANEL];
  for (int64_t r = 0; r < t->rows; r++) {
    float *row = t->tile + r * t->tile_row;
    const float *saved = row_of(&f->saved, t->i + r, t->j, copy, t->cols);
    LO_ISA_NAME(lo_derive)(f->derivative, f->derivative_slope, row, saved, row, t->cols);
  }
}

static void store(const lo_plane *to, const place *t) {
  for (int64_t r = 0; r < t->rows; r++)
    put_row(to, t->i + r, t->j, t->tile + r * t->tile_row, t->cols);
}

void LO_ISA_NAME(lo_finish_tile)(const lo_finish *f, float *tile, int64_t tile_row, int64_t i,
                                 int64_t j, int64_t rows, int64_t cols) {
  const place t = {tile, tile_row, i, j, rows, cols};
  if (f->alpha != 1.0f) scale(f->alpha, &t);
  if (f->beta != 0.0f) add_old(f->beta, &f->c, &t);
  if (f->bias.base) add_bias(&f->bias, &t);
  if (f->preact.base) store(&f->preact, &t);
  if (f->activation != LAYEROPS_IDENTITY) /* the tile as a whole, its padding too */
    LO_ISA_NAME(lo_activate)(f->activation, f->slope, tile, tile, (rows - 1) * tile_row + cols);
  if (f->derivative != LAYEROPS_IDENTITY) derive(f, &t);
  if (f->residual.base) add_residual(&f->residual, &t);
  store(&f->c, &t);
}

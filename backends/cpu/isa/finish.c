/* The epilogue of a product: what follows a tile of finished sums before it leaves the core.
 *
 * The usual one (bias, activation or derivative) is one pass: each vector of sums is loaded once
 * and stays in a register until it is stored. The others take a pass before the activation, which
 * leaves its results in the tile, and one behind it. */
#include <config.h>

#include "backends/cpu/isa/element.h"
#include "backends/cpu/isa/mathematics.h"

enum {
  ALPHA = 1,
  BETA = 2,
  BIAS = 4,
  PREACT = 8,
  BEFORE = ALPHA | BETA | BIAS | PREACT, /* the activation or derivative */
  RESIDUAL = 16,
  STORE = 32,
  NARROW = 64 /* some operand has 16 bits an element */
};

static int steps_of(const lo_finish *f) {
  return STORE | (f->alpha != 1.0f ? ALPHA : 0) | (f->beta != 0.0f ? BETA : 0) |
         (f->bias.base ? BIAS : 0) | (f->preact.base ? PREACT : 0) |
         (f->residual.base ? RESIDUAL : 0);
}

static bool is_narrow(const lo_plane *p) {
  return p->base && p->type != LAYEROPS_F32;
}

typedef struct place {
  float *tile;
  int64_t tile_row, i, j, rows, cols;
} place;

/* ---- The usual epilogue ---- */

/* f32 operands from the tile's first element on. */
typedef struct usual {
  const float *bias, *saved; /* bias: NULL where there is none */
  float *to;
  int64_t saved_row, to_row;
  float slope;
} usual;

/* A vector of each row. What is constant: with_bias, the kinds, and `left` but in the last part. */
LO_FN void column(const usual *u, const place *t, int64_t c, int64_t left, bool with_bias,
                  int activation, int derivative) {
  const vf slope = v_all(u->slope),
           bias = with_bias ? v_load_upto(u->bias + c, left, v_all(0)) : v_all(0);
  for (int64_t r = 0; r < t->rows; r++) {
    vf v = v_load(t->tile + r * t->tile_row + c);
    if (with_bias) v += bias;
    v = lo_activation(activation, v, slope);
    if (derivative != LO_ACT_IDENTITY) {
      vf saved = v_load_upto(u->saved + r * u->saved_row + c, left, v_all(0));
      v *= lo_activation_derivative(derivative, saved, slope);
    }
    v_store_upto(u->to + r * u->to_row + c, v, left);
  }
}

LO_FN void columns(const usual *u, const place *t, bool with_bias, int activation, int derivative) {
  int64_t c = 0;
  for (; c + VECTOR <= t->cols; c += VECTOR)
    column(u, t, c, VECTOR, with_bias, activation, derivative);
  if (c < t->cols) column(u, t, c, t->cols - c, with_bias, activation, derivative);
}

#define KINDS(X)                                                                                   \
  X(LO_ACT_IDENTITY)                                                                               \
  X(LO_ACT_RELU)                                                                                   \
  X(LO_ACT_LEAKY_RELU)                                                                             \
  X(LO_ACT_GELU)                                                                                   \
  X(LO_ACT_GELU_TANH)                                                                              \
  X(LO_ACT_SILU)                                                                                   \
  X(LO_ACT_SIGMOID)                                                                                \
  X(LO_ACT_TANH)

static void activate_usual(const usual *u, const place *t, layerops_activation activation) {
  switch ((int)activation) {
#define X(kind)                                                                                    \
  case kind:                                                                                       \
    if (u->bias)                                                                                   \
      columns(u, t, true, kind, LO_ACT_IDENTITY);                                                  \
    else                                                                                           \
      columns(u, t, false, kind, LO_ACT_IDENTITY);                                                 \
    break;
    KINDS(X)
#undef X
  }
}

static void derive_usual(const usual *u, const place *t, layerops_activation derivative) {
  switch ((int)derivative) {
#define X(kind)                                                                                    \
  case kind:                                                                                       \
    columns(u, t, false, LO_ACT_IDENTITY, kind);                                                   \
    break;
    KINDS(X)
#undef X
  }
}

static bool is_usual(const lo_finish *f, int steps) {
  if (steps & ~(STORE | BIAS)) return false;
  if (f->derivative == LAYEROPS_IDENTITY) return true;
  return f->activation == LAYEROPS_IDENTITY && !(steps & BIAS) && !is_narrow(&f->saved);
}

static const float *floats_at(const lo_plane *p, int64_t i, int64_t j) {
  return (const float *)(const void *)p->base + i * p->stride + j;
}

/* A narrow C is computed in the tile first. */
static void run_usual(const lo_finish *f, const place *t) {
  float bias[LO_MAX_PANEL];
  const bool narrow = is_narrow(&f->c), derives = f->derivative != LAYEROPS_IDENTITY;
  usual u = {.to = t->tile, .to_row = t->tile_row, .slope = f->slope};
  if (!narrow) {
    u.to = (float *)(void *)f->c.base + t->i * f->c.stride + t->j;
    u.to_row = f->c.stride;
  }
  if (is_narrow(&f->bias)) {
    LO_ISA_NAME(lo_load)(f->bias.type, f->bias.base + t->j * 2, bias, t->cols);
    u.bias = bias;
  } else if (f->bias.base) {
    u.bias = floats_at(&f->bias, 0, t->j);
  }
  if (derives) {
    u.saved = floats_at(&f->saved, t->i, t->j);
    u.saved_row = f->saved.stride;
    u.slope = f->derivative_slope;
    derive_usual(&u, t, f->derivative);
  } else {
    activate_usual(&u, t, f->activation);
  }
  for (int64_t r = 0; narrow && r < t->rows; r++) LO_ISA_NAME(lo_store)
  (f->c.type, t->tile + r * t->tile_row, f->c.base + ((t->i + r) * f->c.stride + t->j) * 2,
   t->cols);
}

/* ---- Any epilogue ---- */

/* A row of an operand from column j on; its type is a constant where no operand is narrow. */
typedef struct row {
  char *at;
  layerops_type type;
} row;

LO_FN row row_of(const lo_plane *p, int64_t i, int64_t j, int steps) {
  const layerops_type type = steps & NARROW ? p->type : LAYEROPS_F32;
  return (row){p->base + (i * p->stride + j) * (type == LAYEROPS_F32 ? 4 : 2), type};
}
LO_FN vf get(row r, int64_t c, int64_t left) {
  return v_get(r.type, r.at + c * (r.type == LAYEROPS_F32 ? 4 : 2), left);
}
LO_FN void put(row r, int64_t c, vf v, int64_t left) {
  v_put(r.type, r.at + c * (r.type == LAYEROPS_F32 ? 4 : 2), v, left);
}

/* The steps in their order; without STORE the results stay in the tile. */
LO_FN void pass(const lo_finish *f, const place *t, int steps) {
  const vf alpha = v_all(f->alpha), beta = v_all(f->beta);
  const row bias = row_of(&f->bias, 0, t->j, steps);
  for (int64_t r = 0; r < t->rows; r++) {
    const int64_t i = t->i + r;
    const row c = row_of(&f->c, i, t->j, steps), preact = row_of(&f->preact, i, t->j, steps);
    const row residual = row_of(&f->residual, i, t->j, steps);
    float *tile = t->tile + r * t->tile_row;
    V_EACH(t->cols, j, left, {
      vf v = v_load(tile + j);
      if (steps & ALPHA) v *= alpha;
      if (steps & BETA) v += beta * get(c, j, left);
      if (steps & BIAS) v += get(bias, j, left);
      if (steps & PREACT) put(preact, j, v, left);
      if (steps & RESIDUAL) v += get(residual, j, left);
      if (steps & STORE)
        put(c, j, v, left);
      else
        v_store(tile + j, v);
    });
  }
}

static void run_pass(const lo_finish *f, const place *t, int steps) {
  if (is_narrow(&f->bias) || is_narrow(&f->preact) || is_narrow(&f->residual) || is_narrow(&f->c))
    pass(f, t, steps | NARROW);
  else
    pass(f, t, steps);
}

static void activate_tile(const lo_finish *f, const place *t) {
  const int64_t width = (t->cols + VECTOR - 1) / VECTOR * VECTOR;
  for (int64_t r = 0; r < t->rows; r++) {
    float *tile = t->tile + r * t->tile_row;
    LO_ISA_NAME(lo_activate)(f->activation, f->slope, tile, tile, width);
  }
}

static void derive_tile(const lo_finish *f, const place *t) {
  float saved[LO_MAX_PANEL];
  for (int64_t r = 0; r < t->rows; r++) {
    const row from = row_of(&f->saved, t->i + r, t->j, NARROW);
    float *tile = t->tile + r * t->tile_row;
    V_EACH(t->cols, j, left, v_store(saved + j, get(from, j, left)););
    LO_ISA_NAME(lo_derive)(f->derivative, f->derivative_slope, tile, saved, tile, t->cols);
  }
}

static void run_steps(const lo_finish *f, const place *t, int steps) {
  const bool activates = f->activation != LAYEROPS_IDENTITY;
  const bool derives = f->derivative != LAYEROPS_IDENTITY;
  if ((activates || derives) && (steps & BEFORE)) run_pass(f, t, steps & BEFORE);
  if (activates || derives) steps &= ~BEFORE;
  if (activates) activate_tile(f, t);
  if (derives) derive_tile(f, t);
  run_pass(f, t, steps);
}

/* The sums times their scales, in the tile. */
static void scale_tile(const lo_finish *f, const place *t) {
  for (int64_t r = 0; r < t->rows; r++) {
    float *sums = t->tile + r * t->tile_row;
    const float scale = f->row_scale[(t->i + r) * f->row_step];
    const float *scales = f->column_scale + t->j * f->column_step;
    if (f->column_step)
      for (int64_t c = 0; c < t->cols; c++) sums[c] *= scale * scales[c];
    else
      for (int64_t c = 0; c < t->cols; c++) sums[c] *= scale * scales[0];
  }
}

/* A C of bytes is computed in the tile, which stands in for it, and then divided and rounded. */
static void finish_bytes(const lo_finish *f, const place *t) {
  lo_finish within = *f;
  within.row_scale = NULL; /* done */
  const int64_t before = (t->i * t->tile_row + t->j) * (int64_t)sizeof(float);
  within.c =
      (lo_plane){(char *)((uintptr_t)t->tile - (uintptr_t)before), t->tile_row, LAYEROPS_F32};
  LO_ISA_NAME(lo_finish_tile)
  (&within, t->tile, t->tile_row, t->i, t->j, t->rows, t->cols);
  for (int64_t r = 0; r < t->rows; r++) {
    float *sums = t->tile + r * t->tile_row;
    for (int64_t c = 0; c < t->cols; c++) sums[c] /= f->scale_c;
    LO_ISA_NAME(lo_store)
    (f->c.type, sums, f->c.base + (t->i + r) * f->c.stride + t->j, t->cols);
  }
}

void LO_ISA_NAME(lo_finish_tile)(const lo_finish *f, float *tile, int64_t tile_row, int64_t i,
                                 int64_t j, int64_t rows, int64_t cols) {
  const place t = {tile, tile_row, i, j, rows, cols};
  const int steps = steps_of(f);
  if (f->row_scale) scale_tile(f, &t);
  if (lo_type_bytes(f->c.type) == 1)
    finish_bytes(f, &t);
  else if (is_usual(f, steps))
    run_usual(f, &t);
  else
    run_steps(f, &t, steps);
}

/* linear_backward. */
#include <config.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "t/conformance/session.h"

static const cf_layout layouts[] = {{0, 0, 0}, {1, 3, 0}, {3, 0, 0}, {4, 4, 0}, {8, -8, 0}};

enum { DZ = 1, DX = 2, DW = 4, DBIAS = 8 };

typedef struct layer {
  layerops_type type, saved_type, dx_type, dw_type;
  int64_t m, n, k;
  int outputs;
  layerops_activation activation, dx_activation;
  double beta;
  bool dz_in_place, dx_in_place, planted;
  cf_fill fill;
} layer;

static layer of(layerops_type type, int64_t m, int64_t n, int64_t k) {
  return (layer){.type = type,
                 .saved_type = type,
                 .dx_type = type,
                 .dw_type = type,
                 .m = m,
                 .n = n,
                 .k = k,
                 .outputs = DX | DW | DBIAS,
                 .fill = CF_REAL};
}

typedef struct operands {
  cf_operand *dy, *x, *w, *saved, *dz, *dx, *dx_saved, *dw, *dbias;
} operands;

/* Values that an activation may have saved: the output where that serves, else z. 0.5 is leaky
 * relu's slope here. */
static cf_operand *saved_by(cf_session *s, const char *name, layerops_activation kind,
                            layerops_type type, int64_t rows, int64_t cols) {
  if (kind == LAYEROPS_IDENTITY) return NULL;
  cf_operand *o = cf_matrix(s, name, type, rows, cols, CF_ZERO);
  for (int64_t n = 0; n < o->count; n++)
    o->values[n] = kind == LAYEROPS_SIGMOID ? cf_uniform(s, 0, 1)
                   : kind == LAYEROPS_TANH  ? cf_uniform(s, -1, 1)
                                            : cf_uniform(s, -4, 4);
  return o;
}

static void make(cf_session *s, const layer *l, operands *o) {
  cf_fill old = l->beta == 0 ? CF_NAN : l->fill;
  memset(o, 0, sizeof *o);
  o->dy = cf_matrix(s, "dy", l->type, l->m, l->n, l->fill);
  o->saved = saved_by(s, "saved", l->activation, l->saved_type, l->m, l->n);
  o->dx_saved = saved_by(s, "dx_saved", l->dx_activation, l->dx_type, l->m, l->k);
  if (l->outputs & DX) {
    o->w = cf_matrix(s, "w", l->type, l->n, l->k, l->fill);
    o->dx = l->dx_in_place ? o->dx_saved : cf_output(s, "dx", l->dx_type, l->m, l->k, CF_NAN);
    o->dx->is_output = true;
  }
  if (l->outputs & DW) {
    o->x = cf_matrix(s, "x", l->type, l->m, l->k, l->fill);
    o->dw = cf_output(s, "dw", l->dw_type, l->n, l->k, old);
  }
  if (l->outputs & DBIAS) o->dbias = cf_output(s, "dbias", l->dw_type, 1, l->n, old);
  if (l->outputs & DZ) {
    o->dz = l->dz_in_place ? o->dy : cf_output(s, "dz", l->type, l->m, l->n, CF_NAN);
    o->dz->is_output = o->dz->narrow = true; /* always T */
  }
  if (l->planted) cf_plant(s, o->dy);
}

/* What an element of dZ is off by, relative to |dY|: the derivative within 32 u, the product's
 * rounding, and the rounding to T of who stores dZ before the products. */
static double dz_error(const layer *l) {
  if (l->activation == LAYEROPS_IDENTITY) return 0;
  return 34 * CF_U + cf_rounding(l->type) * cf_lipschitz(l->activation, 0.5);
}

static void bound_dx(cf_session *s, const layer *l, operands *o) {
  double *sums = cf_magnitudes(s, o->dy, 0, o->w, 0), *bounds = cf_bound(s, o->dx);
  double first = cf_lipschitz(l->activation, 0.5), second = cf_lipschitz(l->dx_activation, 0.5);
  double sum = first * CF_U * (cf_steps(l->type, l->n) + 2) + dz_error(l);
  double derivative = l->dx_activation == LAYEROPS_IDENTITY ? 0 : 34 * CF_U * first;
  for (int64_t i = 0; i < o->dx->count; i++) bounds[i] = sums[i] * (second * sum + derivative);
  cf_add_store(s, o->dx);
}

static void bound_dw(cf_session *s, const layer *l, operands *o) {
  double *sums = cf_magnitudes(s, o->dy, 1, o->x, 0), *bounds = cf_bound(s, o->dw);
  double first = cf_lipschitz(l->activation, 0.5);
  double sum = first * CF_U * (cf_steps(l->type, l->m) + 2) + dz_error(l);
  for (int64_t i = 0; i < o->dw->count; i++)
    bounds[i] = sums[i] * sum + (l->beta ? 4 * CF_U * fabs(l->beta * o->dw->values[i]) : 0);
  cf_add_store(s, o->dw);
}

static void bound_dbias(cf_session *s, const layer *l, operands *o) {
  double *bounds = cf_bound(s, o->dbias), first = cf_lipschitz(l->activation, 0.5);
  for (int64_t j = 0; j < l->n; j++) {
    double sum = 0;
    for (int64_t i = 0; i < l->m; i++) sum += fabs(o->dy->values[i * l->n + j]);
    bounds[j] = sum * (first * CF_U * (cf_steps(l->type, l->m) + 2) + dz_error(l)) +
                (l->beta ? 4 * CF_U * fabs(l->beta * o->dbias->values[j]) : 0);
  }
  cf_add_store(s, o->dbias);
}

static void bound_dz(cf_session *s, const layer *l, operands *o) {
  double *bounds = cf_bound(s, o->dz);
  for (int64_t i = 0; i < o->dz->count; i++)
    bounds[i] = l->activation == LAYEROPS_IDENTITY ? 0 : 34 * CF_U * fabs(o->dy->values[i]);
  cf_add_store(s, o->dz);
}

static bool exact(const layer *l) {
  return l->fill == CF_INTEGER && l->activation <= LAYEROPS_LEAKY_RELU &&
         l->dx_activation <= LAYEROPS_LEAKY_RELU && !l->planted;
}

static void bound(cf_session *s, const layer *l, operands *o) {
  if (o->dx) bound_dx(s, l, o);
  if (o->dw) bound_dw(s, l, o);
  if (o->dbias) bound_dbias(s, l, o);
  if (o->dz) bound_dz(s, l, o);
}

static void call(cf_session *s, const layer *l, operands *o) {
  CF_SIDES(s, side) {
    layerops_linear_backward_args args = {.dy = cf_on(o->dy, side),
                                          .x = cf_on(o->x, side),
                                          .w = cf_on(o->w, side),
                                          .saved = cf_on(o->saved, side),
                                          .dz = cf_on(o->dz, side),
                                          .dx = cf_on(o->dx, side),
                                          .dx_saved = cf_on(o->dx_saved, side),
                                          .dw = cf_on(o->dw, side),
                                          .dbias = cf_on(o->dbias, side),
                                          .activation = l->activation,
                                          .dx_activation = l->dx_activation,
                                          .slope = layerops_value(0.5),
                                          .dx_slope = layerops_value(0.5)};
    if (l->beta) args.beta = layerops_value(l->beta);
    CF_CALL(s, side, linear_backward, &args);
  }
  if (!exact(l)) bound(s, l, o);
  cf_end(s);
}

static void run(cf_session *s, const layer *l) {
  operands o;
  cf_case(s,
          "m=%" PRId64 " n=%" PRId64 " k=%" PRId64
          "%s%s%s%s activation=%s,%s types=%s,%s,%s beta=%g%s%s "
          "offset=%" PRId64 " pad=%" PRId64,
          l->m, l->n, l->k, l->outputs & DZ ? " dz" : "", l->outputs & DX ? " dx" : "",
          l->outputs & DW ? " dw" : "", l->outputs & DBIAS ? " dbias" : "",
          layerops_activation_name(l->activation), layerops_activation_name(l->dx_activation),
          layerops_type_name(l->saved_type), layerops_type_name(l->dx_type),
          layerops_type_name(l->dw_type), l->beta, l->dz_in_place ? " dz over dy" : "",
          l->dx_in_place ? " dx over dx_saved" : "", s->layout.offset, s->layout.pad);
  make(s, l, &o);
  call(s, l, &o);
}

static void tile_edges(cf_session *s, layerops_type type) {
  static const int64_t tiles[] = {2, 8, 16, 32, 64, 128};
  int turn = 0;
  int64_t count = cf_in_full(s) ? CF_COUNT(tiles) : CF_COUNT(tiles) - 1;
  for (int64_t t = 0; t < count; t++)
    for (int64_t m = -1; m <= 1; m++)
      for (int64_t n = -1; n <= 1; n++)
        for (int64_t k = -1; k <= 1; k++) {
          turn++;
          if (!s->options->full && tiles[t] > 32 && turn % 3) continue;
          layer l = of(type, tiles[t] + m, tiles[t] + n, tiles[t] + k);
          l.fill = CF_INTEGER;
          l.beta = turn / 3 % 2;
          l.activation = turn / 6 % 3; /* none, relu, leaky relu by 0.5 */
          l.dx_activation = turn / 2 % 3;
          if (turn % 2) l.dx_type = l.dw_type = LAYEROPS_F32;
          run(s, &l);
        }
}

static void activations(cf_session *s, layerops_type type) {
  for (layerops_activation a = 0; a < LAYEROPS_ACTIVATION_COUNT; a++)
    for (layerops_activation b = 0; b < LAYEROPS_ACTIVATION_COUNT; b++) {
      if (!s->options->full && a && b && (a + b) % 3) continue;
      layer l = of(type, 33, 19, 37);
      s->layout = layouts[(a + b) % CF_COUNT(layouts)];
      l.activation = a;
      l.dx_activation = b;
      l.outputs |= (a + b) % 2 ? DZ : 0;
      run(s, &l);
    }
}

/* Every set of outputs, with and without accumulation. */
static void outputs(cf_session *s, layerops_type type) {
  for (int set = 1; set < 16; set++)
    for (int beta = 0; beta < 3; beta++) {
      layer l = of(type, 21, 17, 35);
      l.outputs = set;
      l.beta = beta == 2 ? -0.5 : beta;
      l.activation = set % 2 ? LAYEROPS_TANH : LAYEROPS_IDENTITY;
      l.dx_activation = set & DX ? LAYEROPS_RELU : LAYEROPS_IDENTITY;
      s->layout = layouts[set % CF_COUNT(layouts)];
      run(s, &l);
    }
}

static void types(cf_session *s, layerops_type type) {
  for (int set = 0; set < 8; set++) {
    layer l = of(type, 15, 33, 20);
    l.outputs |= DZ;
    l.activation = LAYEROPS_SIGMOID;
    l.dx_activation = LAYEROPS_GELU;
    if (set & 1) l.saved_type = LAYEROPS_F32;
    if (set & 2) l.dx_type = LAYEROPS_F32;
    if (set & 4) l.dw_type = LAYEROPS_F32;
    run(s, &l);
  }
}

static void in_place(cf_session *s, layerops_type type) {
  for (int set = 1; set < 4; set++)
    for (layerops_activation a = LAYEROPS_RELU; a < LAYEROPS_ACTIVATION_COUNT; a++) {
      layer l = of(type, 23, 18, 39);
      l.outputs |= DZ;
      l.dz_in_place = set & 1;
      l.dx_in_place = set & 2;
      l.activation = a;
      l.dx_activation = a;
      s->layout = layouts[a % CF_COUNT(layouts)];
      run(s, &l);
    }
}

static void empty_sizes(cf_session *s, layerops_type type) {
  static const int64_t shapes[][3] = {{0, 5, 7}, {5, 0, 7}, {5, 7, 0}, {0, 0, 7}, {0, 0, 0}};
  for (int64_t i = 0; i < CF_COUNT(shapes); i++)
    for (int beta = 0; beta < 2; beta++) {
      layer l = of(type, shapes[i][0], shapes[i][1], shapes[i][2]);
      l.fill = CF_INTEGER;
      l.beta = beta;
      run(s, &l);
      l.activation = l.dx_activation = LAYEROPS_RELU;
      l.outputs |= DZ;
      run(s, &l);
    }
}

/* Column sums over very many rows: the bias gradient of ones is the number of rows. */
static void many_rows(cf_session *s, layerops_type type) {
  static const int64_t rows[] = {65537, 100000};
  for (int64_t i = 0; i < (s->options->full ? 2 : 1); i++) {
    layer l = of(type, rows[i], s->options->full ? 129 : 33, 1);
    l.fill = CF_ONE;
    l.outputs = DBIAS;
    l.dw_type = LAYEROPS_F32;
    operands o;
    cf_case(s, "dbias of %" PRId64 " rows of ones", l.m);
    make(s, &l, &o);
    CF_SIDES(s, side) {
      layerops_linear_backward_args args = {.dy = cf_on(o.dy, side), .dbias = cf_on(o.dbias, side)};
      CF_CALL(s, side, linear_backward, &args);
    }
    double *got = cf_read(s, o.dbias, CF_DEVICE);
    for (int64_t j = 0; j < l.n; j++)
      cf_expect(s, got[j] == (double)l.m, "dbias[%" PRId64 "] is %g", j, got[j]);
    cf_end(s);
  }
}

static void nan_and_infinity(cf_session *s, layerops_type type) {
  for (layerops_activation a = 0; a < LAYEROPS_ACTIVATION_COUNT; a++) {
    layer l = of(type, 31, 21, 25);
    l.planted = true;
    l.activation = a;
    run(s, &l);
  }
  /* A derivative of 0 does not hide an infinite gradient: 0 times infinity is NaN. */
  layer l = of(type, 9, 11, 13);
  l.activation = l.dx_activation = LAYEROPS_RELU;
  l.planted = true;
  l.outputs |= DZ;
  run(s, &l);
}

static void random_shapes(cf_session *s, layerops_type type) {
  for (int i = 0; i < (s->options->full ? 150 : 20); i++) {
    layer l = of(type, 1 + cf_below(s, 150), 1 + cf_below(s, 150), 1 + cf_below(s, 150));
    s->layout = (cf_layout){cf_below(s, 9), cf_below(s, 9), 0};
    l.activation = (layerops_activation)cf_below(s, LAYEROPS_ACTIVATION_COUNT);
    l.dx_activation = (layerops_activation)cf_below(s, LAYEROPS_ACTIVATION_COUNT);
    l.beta = (double)cf_below(s, 2);
    l.dx_type = cf_below(s, 2) ? type : LAYEROPS_F32;
    l.dw_type = cf_below(s, 2) ? type : LAYEROPS_F32;
    run(s, &l);
  }
}

static void network_shapes(cf_session *s, layerops_type type) {
  static const int64_t shapes[][3] = {{64, 128, 784}, {64, 10, 128}, {96, 10, 300}};
  for (int64_t i = 0; i < CF_COUNT(shapes); i++) {
    layer l = of(type, shapes[i][0], shapes[i][1], shapes[i][2]);
    l.dx_activation = LAYEROPS_RELU;
    run(s, &l);
  }
}

const cf_check cf_backward_checks[] = {
    {LAYEROPS_OP_linear_backward, "edges of tiles", CF_FLOATS, CF_MEMORY, tile_edges},
    {LAYEROPS_OP_linear_backward, "activations", CF_FLOATS, CF_EVERY, activations},
    {LAYEROPS_OP_linear_backward, "sets of outputs", CF_FLOATS, CF_EVERY, outputs},
    {LAYEROPS_OP_linear_backward, "types", CF_FLOATS, 0, types},
    {LAYEROPS_OP_linear_backward, "in place", CF_FLOATS, CF_MEMORY, in_place},
    {LAYEROPS_OP_linear_backward, "empty sizes", CF_FLOATS, CF_EVERY, empty_sizes},
    {LAYEROPS_OP_linear_backward, "many rows", CF_FLOATS, 0, many_rows},
    {LAYEROPS_OP_linear_backward, "NaN and infinity", CF_FLOATS, 0, nan_and_infinity},
    {LAYEROPS_OP_linear_backward, "random shapes", CF_FLOATS, 0, random_shapes},
    {LAYEROPS_OP_linear_backward, "shapes of a network", CF_FLOATS, CF_BIT(CF_TWICE),
     network_shapes},
    {0},
};

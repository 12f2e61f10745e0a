/* bsr_linear_backward. */
#include <config.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "t/conformance/sparse.h"

static const cf_layout layouts[] = {{0, 0, 0}, {1, 3, 0}, {3, 0, 0}, {4, 4, 0}, {8, -8, 0}};

enum { DZ = 1, DX = 2, DW = 4, DBIAS = 8, DGATE = 16, PRODUCTS = DX | DW };

typedef struct layer {
  cf_sparse w;
  int64_t m;
  layerops_type saved_type, dx_type, dw_type;
  int outputs;
  layerops_activation activation, dx_activation;
  double beta;
  bool gated, dz_in_place, dx_in_place, planted;
} layer;

static layer of(cf_session *s, layerops_type type, int64_t m, int64_t n, int64_t k, int64_t height,
                int64_t width) {
  return (layer){.w = cf_sparse_of(s, type, n, k, height, width),
                 .m = m,
                 .saved_type = type,
                 .dx_type = type,
                 .dw_type = type,
                 .outputs = PRODUCTS | DBIAS};
}

static layer of_blocks(cf_session *s, layerops_type type, int64_t m, int64_t rows, int64_t cols,
                       int64_t block) {
  return of(s, type, m, rows * block, cols * block, block, block);
}

typedef struct operands {
  cf_operand *dy, *x, *saved, *dz, *dx, *dx_saved, *dw, *dbias, *dgate;
} operands;

/* Values that an activation may have saved. 0.5 is leaky relu's slope here. */
static cf_operand *saved_by(cf_session *s, const cf_sparse *w, const char *name,
                            layerops_activation kind, layerops_type type, int64_t m,
                            int64_t features) {
  if (kind == LAYEROPS_IDENTITY) return NULL;
  cf_operand *o = cf_samples(s, w, name, type, m, features, CF_ZERO);
  for (int64_t n = 0; n < o->count; n++)
    o->values[n] = kind == LAYEROPS_SIGMOID ? cf_uniform(s, 0, 1)
                   : kind == LAYEROPS_TANH  ? cf_uniform(s, -1, 1)
                                            : cf_uniform(s, -4, 4);
  return o;
}

static void make(cf_session *s, layer *l, operands *o) {
  const cf_sparse *w = &l->w;
  const cf_fill old = l->beta == 0 ? CF_NAN : w->fill;
  cf_sparse_fill(s, &l->w, l->gated);
  *o = (operands){.dy = cf_samples(s, w, "dy", w->type, l->m, w->n, w->fill)};
  o->saved = saved_by(s, w, "saved", l->activation, l->saved_type, l->m, w->n);
  o->dx_saved = saved_by(s, w, "dx_saved", l->dx_activation, l->dx_type, l->m, w->k);
  if (l->outputs & DX) {
    o->dx = l->dx_in_place ? o->dx_saved : cf_samples(s, w, "dx", l->dx_type, l->m, w->k, CF_NAN);
    o->dx->is_output = true;
  }
  if (l->outputs & (DW | DGATE)) o->x = cf_samples(s, w, "x", w->type, l->m, w->k, w->fill);
  if (l->outputs & DW) o->dw = cf_output(s, "dw", l->dw_type, w->count * w->height, w->width, old);
  if (l->outputs & DBIAS) o->dbias = cf_output(s, "dbias", l->dw_type, 1, w->n, old);
  if (l->outputs & DGATE) o->dgate = cf_output(s, "dgate", LAYEROPS_F32, 1, w->count, old);
  if (l->outputs & DZ) {
    o->dz = l->dz_in_place ? o->dy : cf_samples(s, w, "dz", w->type, l->m, w->n, CF_NAN);
    o->dz->is_output = o->dz->narrow = true; /* always T */
  }
  if (l->planted) cf_plant(s, o->dy);
}

static layerops_bsr_linear_backward_args args_of(const layer *l, const operands *o, int side) {
  layerops_bsr_linear_backward_args args = {.dy = cf_on(o->dy, side),
                                            .x = cf_on(o->x, side),
                                            .w = l->w.w[side],
                                            .gate = cf_on(l->w.gate, side),
                                            .saved = cf_on(o->saved, side),
                                            .dz = cf_on(o->dz, side),
                                            .dx = cf_on(o->dx, side),
                                            .dx_saved = cf_on(o->dx_saved, side),
                                            .dw = cf_on(o->dw, side),
                                            .dbias = cf_on(o->dbias, side),
                                            .dgate = cf_on(o->dgate, side),
                                            .activation = l->activation,
                                            .dx_activation = l->dx_activation,
                                            .slope = layerops_value(0.5),
                                            .dx_slope = layerops_value(0.5),
                                            .layout = cf_sparse_layout(&l->w)};
  if (l->beta) args.beta = layerops_value(l->beta);
  return args;
}

/* ---- Bounds: as in the dense layer's backward pass ---- */

static double dz_error(const layer *l) {
  if (l->activation == LAYEROPS_IDENTITY) return 0;
  return 34 * CF_U + cf_rounding(l->w.type) * cf_lipschitz(l->activation, 0.5);
}

/* Of a sum of `terms` products, relative to that of the magnitudes; two roundings more for a gate.
 */
static double sum_error(const layer *l, int64_t terms) {
  return cf_lipschitz(l->activation, 0.5) * CF_U * (cf_steps(l->w.type, terms) + 4) + dz_error(l);
}

static double accumulated(const layer *l, double old) {
  return l->beta ? 4 * CF_U * fabs(l->beta * old) : 0;
}

static void bound_dx(cf_session *s, const layer *l, const operands *o) {
  const cf_sparse *w = &l->w;
  double *sums = cf_sparse_magnitudes(s, w, o->dy, l->m, true);
  double *bounds = cf_bound(s, o->dx), first = cf_lipschitz(l->activation, 0.5);
  double second = cf_lipschitz(l->dx_activation, 0.5), sum = sum_error(l, w->n);
  double derivative = l->dx_activation == LAYEROPS_IDENTITY ? 0 : 34 * CF_U * first;
  for (int64_t i = 0; i < l->m; i++)
    for (int64_t j = 0; j < w->k; j++)
      bounds[cf_sample_at(w, o->dx, i, j)] = sums[i * w->k + j] * (second * sum + derivative);
  cf_add_store(s, o->dx);
}

/* Calls `at` for each element of a kept block that lies in W. */
#define EACH_ELEMENT(w, b, i, j, row, col)                                                         \
  for (int64_t r_ = 0; r_ < (w)->block_rows; r_++)                                                 \
    for (int64_t b = (w)->row_start[r_]; b < (w)->row_start[r_ + 1]; b++)                          \
      for (int64_t i = 0, row = r_ * (w)->height; i < (w)->height && row < (w)->n; i++, row++)     \
        for (int64_t j = 0, col = (w)->column[b] * (w)->width; j < (w)->width && col < (w)->k;     \
             j++, col++)

static double gate_of(const cf_sparse *w, int64_t b) {
  return w->gate ? w->gate->values[b] : 1;
}

static void bound_dw(cf_session *s, const layer *l, const operands *o, const double *sums) {
  const cf_sparse *w = &l->w;
  double *bounds = cf_bound(s, o->dw);
  EACH_ELEMENT(w, b, i, j, row, col) {
    const int64_t at = (b * w->height + i) * w->width + j;
    bounds[at] = fabs(gate_of(w, b)) * sums[row * w->k + col] * sum_error(l, l->m) +
                 accumulated(l, o->dw->values[at]);
  }
  cf_add_store(s, o->dw);
}

/* A sum over the block of what dW's errors are of, times W, and of so many additions. */
static void bound_dgate(cf_session *s, const layer *l, const operands *o, const double *sums) {
  const cf_sparse *w = &l->w;
  double *bounds = cf_bound(s, o->dgate);
  double error = sum_error(l, l->m) + cf_lipschitz(l->activation, 0.5) * CF_U *
                                          (cf_steps(LAYEROPS_F32, w->height * w->width) + 2);
  EACH_ELEMENT(w, b, i, j, row, col)
  bounds[b] += sums[row * w->k + col] * error * fabs(w->values[(b * w->height + i) * w->width + j]);
  for (int64_t b = 0; b < w->count; b++) bounds[b] += accumulated(l, o->dgate->values[b]);
  cf_add_store(s, o->dgate);
}

static void bound_dbias(cf_session *s, const layer *l, const operands *o) {
  const cf_sparse *w = &l->w;
  double *bounds = cf_bound(s, o->dbias);
  for (int64_t j = 0; j < w->n; j++) {
    for (int64_t i = 0; i < l->m; i++)
      bounds[j] += fabs(o->dy->values[cf_sample_at(w, o->dy, i, j)]) * sum_error(l, l->m);
    bounds[j] += accumulated(l, o->dbias->values[j]);
  }
  cf_add_store(s, o->dbias);
}

static void bound_dz(cf_session *s, const layer *l, const operands *o) {
  double *bounds = cf_bound(s, o->dz);
  for (int64_t i = 0; i < o->dz->count; i++)
    bounds[i] = l->activation == LAYEROPS_IDENTITY ? 0 : 34 * CF_U * fabs(o->dy->values[i]);
  cf_add_store(s, o->dz);
}

static void bound(cf_session *s, const layer *l, const operands *o) {
  const int by_features = l->w.by_features;
  const double *sums = o->x ? cf_magnitudes(s, o->dy, !by_features, o->x, by_features) : NULL;
  if (o->dx) bound_dx(s, l, o);
  if (o->dw) bound_dw(s, l, o, sums);
  if (o->dgate) bound_dgate(s, l, o, sums);
  if (o->dbias) bound_dbias(s, l, o);
  if (o->dz) bound_dz(s, l, o);
}

static bool exact(const layer *l) {
  return l->w.fill == CF_INTEGER && l->activation <= LAYEROPS_LEAKY_RELU &&
         l->dx_activation <= LAYEROPS_LEAKY_RELU && !l->planted;
}

/* ---- The reference against the dense layer on the expanded matrix ---- */

/* An operand as rows of samples in f32. */
static cf_operand *dense(cf_session *s, const layer *l, const cf_operand *o, int64_t features) {
  if (!o) return NULL;
  cf_operand *d = cf_matrix(s, "dense", LAYEROPS_F32, l->m, features, CF_ZERO);
  for (int64_t i = 0; i < l->m; i++)
    for (int64_t j = 0; j < features; j++) cf_set(d, i, j, o->values[cf_sample_at(&l->w, o, i, j)]);
  cf_on(d, CF_REFERENCE);
  d->made = false; /* nothing on the device's side to compare */
  return d;
}

/* Both sum in double, in the same order but for zeros, and round once to f32; dW is then multiplied
 * and added to, which the dense layer does not. */
static void agree(cf_session *s, const char *what, int64_t at, double got, double wanted,
                  double slack) {
  cf_expect(s, fabs(got - wanted) <= 0x1p-22 * fabs(wanted) + slack + 0x1p-40,
            "the reference: %s[%" PRId64 "] is %g, by the dense layer %g", what, at, got, wanted);
}

static layerops_matrix on_reference(cf_operand *o) {
  if (!o) return (layerops_matrix){0};
  o->made = true;
  layerops_matrix view = cf_on(o, CF_REFERENCE);
  o->made = false;
  return view;
}

static void compare_reference(cf_session *s, const layer *l, const operands *o, cf_operand *dx,
                              cf_operand *dw) {
  const cf_sparse *w = &l->w;
  double *weights = cf_read(s, dw, CF_REFERENCE), *along = cf_memory(s, (size_t)w->count * 8);
  double *size = cf_memory(s, (size_t)w->count * 8);
  if (o->dx) {
    double *got = cf_read(s, o->dx, CF_REFERENCE), *wanted = cf_read(s, dx, CF_REFERENCE);
    for (int64_t i = 0; i < l->m; i++)
      for (int64_t j = 0; j < w->k; j++)
        agree(s, "dx", i * w->k + j, got[cf_sample_at(w, o->dx, i, j)], wanted[i * w->k + j], 0);
  }
  double *got = o->dw ? cf_read(s, o->dw, CF_REFERENCE) : NULL;
  EACH_ELEMENT(w, b, i, j, row, col) {
    const int64_t at = (b * w->height + i) * w->width + j;
    const double sum = gate_of(w, b) * weights[row * w->k + col];
    const double old = l->beta && got ? l->beta * o->dw->values[at] : 0;
    if (got) agree(s, "dw", at, got[at], sum + old, 0x1p-22 * (fabs(sum) + fabs(old)));
    along[b] += weights[row * w->k + col] * w->values[at];
    size[b] += fabs(weights[row * w->k + col] * w->values[at]);
  }
  got = o->dgate ? cf_read(s, o->dgate, CF_REFERENCE) : NULL;
  for (int64_t b = 0; got && b < w->count; b++) {
    const double old = l->beta ? l->beta * o->dgate->values[b] : 0;
    agree(s, "dgate", b, got[b], along[b] + old, 0x1p-22 * (size[b] + fabs(old)));
  }
}

static void check_reference(cf_session *s, const layer *l, const operands *o) {
  const cf_sparse *w = &l->w;
  cf_operand *dy = dense(s, l, o->dy, w->n), *x = dense(s, l, o->x, w->k);
  cf_operand *saved = dense(s, l, o->saved, w->n), *dx_saved = dense(s, l, o->dx_saved, w->k);
  cf_operand *dx = cf_output(s, "dense dx", LAYEROPS_F32, l->m, w->k, CF_ZERO);
  cf_operand *dw = cf_output(s, "dense dw", LAYEROPS_F32, w->n, w->k, CF_ZERO);
  layerops_linear_backward_args args = {.dy = on_reference(dy),
                                        .x = on_reference(x),
                                        .w = cf_on(w->effective, CF_REFERENCE),
                                        .saved = on_reference(saved),
                                        .dx = cf_on(dx, CF_REFERENCE),
                                        .dx_saved = on_reference(dx_saved),
                                        .dw = cf_on(dw, CF_REFERENCE),
                                        .activation = l->activation,
                                        .dx_activation = l->dx_activation,
                                        .slope = layerops_value(0.5),
                                        .dx_slope = layerops_value(0.5)};
  cf_after(s, CF_REFERENCE, layerops_linear_backward(s->ctx[CF_REFERENCE], &args));
  compare_reference(s, l, o, dx, dw);
  dx->made = dw->made = w->effective->made = false;
}

static void run(cf_session *s, layer *l) {
  operands o;
  const cf_sparse *w = &l->w;
  s->cases++;
  make(s, l, &o);
  snprintf(s->label, sizeof s->label,
           "m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " block=%" PRId64 "x%" PRId64 " kept=%" PRId64
           "%s%s%s%s%s activation=%s,%s types=%s,%s,%s beta=%g%s%s%s%s offset=%" PRId64
           " pad=%" PRId64,
           l->m, w->n, w->k, w->height, w->width, w->count, l->outputs & DZ ? " dz" : "",
           l->outputs & DX ? " dx" : "", l->outputs & DW ? " dw" : "",
           l->outputs & DBIAS ? " dbias" : "", l->outputs & DGATE ? " dgate" : "",
           layerops_activation_name(l->activation), layerops_activation_name(l->dx_activation),
           layerops_type_name(l->saved_type), layerops_type_name(l->dx_type),
           layerops_type_name(l->dw_type), l->beta, l->gated ? " gated" : "",
           w->by_features ? " features by row" : "", l->dz_in_place ? " dz over dy" : "",
           l->dx_in_place ? " dx over dx_saved" : "", s->layout.offset, s->layout.pad);
  CF_SIDES(s, side) {
    cf_sparse_on(s, &l->w, side);
    layerops_bsr_linear_backward_args args = args_of(l, &o, side);
    CF_CALL(s, side, bsr_linear_backward, &args);
  }
  if (!exact(l)) bound(s, l, &o);
  if (o.dx && o.x && !l->planted) check_reference(s, l, &o);
  cf_end(s);
  cf_sparse_free(&l->w);
}

/* ---- What a device has ---- */

static layerops_status try_layer(cf_session *s, layer *l) {
  operands o;
  cf_keep(s, &l->w, 100);
  make(s, l, &o);
  layerops_status status = cf_sparse_make(s, &l->w, CF_DEVICE);
  if (status) return status;
  layerops_bsr_linear_backward_args args = args_of(l, &o, CF_DEVICE);
  status = layerops_bsr_linear_backward(s->ctx[CF_DEVICE], &args);
  cf_sparse_free(&l->w);
  return status;
}

static layerops_status has_squares(cf_session *s, layerops_type type) {
  layer l = of(s, type, 1, 32, 32, 32, 32);
  return try_layer(s, &l);
}
static layerops_status has_blocks(cf_session *s, layerops_type type) {
  layer l = of(s, type, 1, 8, 128, 8, 128);
  return try_layer(s, &l);
}
static layerops_status has_blocks_of_4(cf_session *s, layerops_type type) {
  layer l = of(s, type, 1, 4, 4, 4, 4);
  return try_layer(s, &l);
}
static layerops_status has_ragged(cf_session *s, layerops_type type) {
  layer l = of(s, type, 1, 33, 33, 32, 32);
  return try_layer(s, &l);
}
static layerops_status has_features_by_row(cf_session *s, layerops_type type) {
  layer l = of(s, type, 1, 33, 33, 32, 32);
  l.w.by_features = true;
  return try_layer(s, &l);
}
static layerops_status has_gates(cf_session *s, layerops_type type) {
  layer l = of(s, type, 1, 32, 32, 32, 32);
  l.gated = true;
  l.outputs |= DGATE;
  return try_layer(s, &l);
}
static layerops_status has_all(cf_session *s, layerops_type type) {
  layer l = of(s, type, 1, 9, 7, 8, 16);
  l.gated = l.w.by_features = true;
  l.outputs |= DGATE | DZ;
  return try_layer(s, &l);
}

/* ---- Cases ---- */

static const int64_t sizes[] = {8, 16, 32, 64, 128};
static const int64_t batches[] = {1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 65, 129};

static void block_sizes(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_blocks(s, type))) return;
  int turn = 0;
  for (int64_t h = 0; h < CF_COUNT(sizes); h++)
    for (int64_t w = 0; w < CF_COUNT(sizes); w++) {
      layer l = of(s, type, batches[turn % CF_COUNT(batches)], 3 * sizes[h], 2 * sizes[w], sizes[h],
                   sizes[w]);
      s->layout = layouts[turn % CF_COUNT(layouts)];
      l.beta = turn % 2;
      l.activation = turn / 2 % 3; /* none, relu, leaky relu by 0.5 */
      l.dx_activation = turn / 3 % 3;
      if (turn++ % 3) l.dx_type = l.dw_type = LAYEROPS_F32;
      cf_keep(s, &l.w, 60);
      run(s, &l);
    }
}

static void batch_sizes(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_blocks(s, type))) return;
  for (int64_t b = 0; b < 3; b++)
    for (int64_t i = 0; i < CF_COUNT(batches); i++) {
      layer l = of_blocks(s, type, batches[i], 3, 4, sizes[b]);
      cf_keep(s, &l.w, 60);
      run(s, &l);
    }
}

static void blocks_of_4(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_blocks_of_4(s, type))) return;
  static const int64_t fours[][2] = {{4, 4}, {4, 8}, {8, 4}, {4, 32}, {32, 4}, {128, 4}};
  for (int64_t b = 0; b < CF_COUNT(fours); b++)
    for (int64_t i = 0; i < CF_COUNT(batches); i++) {
      const int64_t h = fours[b][0], w = fours[b][1];
      layer l = of(s, type, batches[i], 5 * h - 1, 7 * w - 3, h, w);
      l.w.by_features = i % 2;
      l.gated = i % 3 == 2;
      if (l.gated) l.outputs |= DGATE;
      cf_keep(s, &l.w, 60);
      run(s, &l);
    }
}

static void ragged(cf_session *s, layerops_type type, bool by_features) {
  static const int64_t edges[] = {1, -1, 3};
  for (int64_t h = 0; h < CF_COUNT(sizes); h++)
    for (int64_t e = 0; e < 9; e++) {
      const int64_t w = (h + e) % CF_COUNT(sizes), rows = e == 0 ? 0 : 2, cols = e == 1 ? 0 : 2;
      const int64_t n = rows * sizes[h] + edges[rows ? e % 3 : 0];
      const int64_t k = cols * sizes[w] + edges[cols ? e / 3 : 0];
      layer l = of(s, type, batches[(3 * h + e) % CF_COUNT(batches)], n, k, sizes[h], sizes[w]);
      s->layout = layouts[e % CF_COUNT(layouts)];
      l.w.by_features = by_features;
      l.beta = e % 2;
      l.dx_activation = e % 3;
      cf_keep(s, &l.w, 70);
      run(s, &l);
    }
}
static void ragged_edges(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_ragged(s, type))) return;
  ragged(s, type, false);
}
static void features_by_row(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_features_by_row(s, type))) return;
  ragged(s, type, true);
}

static void activations(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_squares(s, type))) return;
  for (layerops_activation a = 0; a < LAYEROPS_ACTIVATION_COUNT; a++)
    for (layerops_activation b = 0; b < LAYEROPS_ACTIVATION_COUNT; b++) {
      if (!s->options->full && a && b && (a + b) % 3) continue;
      layer l = of_blocks(s, type, 33, 3, 4, sizes[(a + b) % 3]);
      s->layout = layouts[(a + b) % CF_COUNT(layouts)];
      l.w.fill = CF_REAL;
      l.activation = a;
      l.dx_activation = b;
      l.outputs |= (a + b) % 2 ? DZ : 0;
      cf_keep(s, &l.w, 50);
      run(s, &l);
    }
}

/* Every set of outputs, with and without accumulation. */
static void outputs(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_gates(s, type))) return;
  for (int set = 1; set < 32; set++)
    for (int beta = 0; beta < 3; beta++) {
      layer l = of_blocks(s, type, 21, 4, 3, sizes[set % 3]);
      l.w.fill = CF_REAL;
      l.outputs = set;
      l.gated = set & DGATE && beta;
      l.beta = beta == 2 ? -0.5 : beta;
      l.activation = set % 2 ? LAYEROPS_TANH : LAYEROPS_IDENTITY;
      l.dx_activation = set & DX ? LAYEROPS_RELU : LAYEROPS_IDENTITY;
      s->layout = layouts[set % CF_COUNT(layouts)];
      cf_keep(s, &l.w, 50);
      run(s, &l);
    }
}

static void gates(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_gates(s, type))) return;
  for (int64_t b = 0; b < CF_COUNT(sizes); b++)
    for (int64_t i = 0; i < CF_COUNT(batches); i += 2) {
      layer l = of_blocks(s, type, batches[i], b < 3 ? 4 : 2, b < 3 ? 3 : 2, sizes[b]);
      l.gated = true;
      l.outputs |= DGATE;
      l.beta = i % 4 ? 1 : 0;
      cf_keep(s, &l.w, 80);
      run(s, &l);
    }
}

static void in_place(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_squares(s, type))) return;
  for (int set = 1; set < 4; set++)
    for (layerops_activation a = LAYEROPS_RELU; a < LAYEROPS_ACTIVATION_COUNT; a++) {
      layer l = of_blocks(s, type, 23, 3, 2, sizes[a % 3]);
      l.w.fill = CF_REAL;
      l.outputs |= DZ;
      l.dz_in_place = set & 1;
      l.dx_in_place = set & 2;
      l.activation = l.dx_activation = a;
      s->layout = layouts[a % CF_COUNT(layouts)];
      cf_keep(s, &l.w, 60);
      run(s, &l);
    }
}

static void empty_sizes(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_blocks(s, type))) return;
  static const int64_t shapes[][3] = {{0, 3, 2}, {5, 0, 2}, {5, 3, 0}, {0, 0, 2}, {0, 0, 0}};
  for (int64_t i = 0; i < CF_COUNT(shapes); i++)
    for (int turn = 0; turn < 8; turn++) {
      layer l = of_blocks(s, type, shapes[i][0], shapes[i][1], shapes[i][2], turn % 2 ? 8 : 32);
      l.beta = turn / 2 % 2;
      l.activation = l.dx_activation = turn / 4 ? LAYEROPS_RELU : LAYEROPS_IDENTITY;
      l.outputs |= turn / 4 ? DZ : 0;
      cf_keep(s, &l.w, 100);
      run(s, &l);
    }
}

static void no_blocks(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_squares(s, type))) return;
  for (int beta = 0; beta < 2; beta++) {
    layer l = of_blocks(s, type, 9, 3, 2, 16);
    l.beta = beta;
    run(s, &l);
  }
}

/* One column and one row hold most blocks. */
static void hubs(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_blocks(s, type))) return;
  for (int64_t b = 0; b < 3; b++)
    for (int64_t i = 0; i < 2; i++) {
      layer l = of_blocks(s, type, i ? 70 : 5, 40, 30, sizes[b]);
      for (int64_t n = 0; n < 40 * 30; n++) l.w.kept[n] = n / 30 == 17 || n % 30 == 11;
      run(s, &l);
    }
}

static void nan_and_infinity(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_all(s, type))) return;
  for (int i = 0; i < 24; i++) {
    layer l = of(s, type, batches[i % CF_COUNT(batches)], 67, 90, sizes[i % 4], sizes[i / 4 % 4]);
    l.w.by_features = i % 2;
    l.gated = i % 3;
    l.planted = true;
    l.activation = (layerops_activation)(i % LAYEROPS_ACTIVATION_COUNT);
    cf_keep(s, &l.w, 50);
    run(s, &l);
  }
}

static void random_layers(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_all(s, type))) return;
  for (int i = 0; i < (s->options->full ? 300 : 50); i++) {
    const int64_t h = sizes[cf_below(s, 4)], w = sizes[cf_below(s, 4)];
    layer l = of(s, type, 1 + cf_below(s, 100), 1 + cf_below(s, 200), 1 + cf_below(s, 200), h, w);
    s->layout = (cf_layout){cf_below(s, 9), cf_below(s, 9), 0};
    l.w.fill = CF_REAL;
    l.w.by_features = cf_below(s, 2);
    l.gated = cf_below(s, 2);
    if (cf_below(s, 2)) l.outputs |= DGATE;
    if (cf_below(s, 2)) l.outputs |= DZ;
    l.activation = (layerops_activation)cf_below(s, LAYEROPS_ACTIVATION_COUNT);
    l.dx_activation = (layerops_activation)cf_below(s, LAYEROPS_ACTIVATION_COUNT);
    l.beta = (double)cf_below(s, 2);
    l.saved_type = cf_below(s, 2) ? type : LAYEROPS_F32;
    l.dx_type = cf_below(s, 2) ? type : LAYEROPS_F32;
    l.dw_type = cf_below(s, 2) ? type : LAYEROPS_F32;
    cf_keep(s, &l.w, (int)cf_below(s, 101));
    run(s, &l);
  }
}

#define CHECK(name, variants, run)                                                                 \
  { LAYEROPS_OP_bsr_linear_backward, name, CF_FLOATS, variants, run }
const cf_check cf_bsr_backward_checks[] = {
    CHECK("sizes of blocks", CF_EVERY, block_sizes),
    CHECK("sizes of the batch", CF_MEMORY, batch_sizes),
    CHECK("blocks of 4", CF_EVERY, blocks_of_4),
    CHECK("ragged edges", CF_EVERY, ragged_edges),
    CHECK("features by row", CF_EVERY, features_by_row),
    CHECK("activations", CF_MEMORY, activations),
    CHECK("sets of outputs", CF_MEMORY, outputs),
    CHECK("gates", CF_MEMORY, gates),
    CHECK("in place", CF_MEMORY, in_place),
    CHECK("empty sizes", CF_EVERY, empty_sizes),
    CHECK("no blocks", CF_EVERY, no_blocks),
    CHECK("hubs", CF_BIT(CF_TWICE), hubs),
    CHECK("NaN and infinity", 0, nan_and_infinity),
    CHECK("random layers", CF_BIT(CF_TWICE), random_layers),
    {0},
};

#include <config.h>

#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "t/conformance/session.h"

static const layerops_type floats[] = {LAYEROPS_F32, LAYEROPS_F16, LAYEROPS_BF16};
static const cf_layout layouts[] = {{0, 0, 0}, {1, 3, 0}, {3, 0, 0}};
static const int64_t sizes[][2] = {{1, 1},   {1, 2},   {1, 7},  {3, 5},   {1, 31},
                                   {1, 33},  {16, 16}, {7, 65}, {5, 129}, {1, 1009},
                                   {300, 3}, {0, 4},   {4, 0}};

/* ---- sgd ---- */

typedef struct descent {
  layerops_type type, gradient;
  double lr, momentum, decay;
  bool velocity, nesterov;
} descent;

/* w - lr * step, step being g + decay w (+ momentum v): each product and each sum rounds once, each
 * scalar once on its way to f32. */
static void sgd(cf_session *s, const descent *d, int64_t rows, int64_t cols) {
  cf_case(s, "%" PRId64 " x %" PRId64 " g=%s lr=%g momentum=%g decay=%g velocity=%d nesterov=%d",
          rows, cols, layerops_type_name(d->gradient), d->lr, d->momentum, d->decay, d->velocity,
          d->nesterov);
  cf_operand *w = cf_output(s, "w", d->type, rows, cols, CF_REAL);
  cf_operand *g = cf_matrix(s, "g", d->gradient, rows, cols, CF_REAL);
  cf_operand *v = d->velocity ? cf_output(s, "velocity", LAYEROPS_F32, rows, cols, CF_REAL) : NULL;
  CF_SIDES(s, side) {
    layerops_sgd_args args = {.w = cf_on(w, side),
                              .g = cf_on(g, side),
                              .velocity = cf_on(v, side),
                              .lr = layerops_value(d->lr),
                              .nesterov = d->nesterov};
    if (d->momentum) args.momentum = layerops_value(d->momentum);
    if (d->decay) args.weight_decay = layerops_value(d->decay);
    CF_CALL(s, side, sgd, &args);
  }
  double *bound = cf_bound(s, w);
  for (int64_t n = 0; n < w->count; n++) {
    double step = fabs(g->values[n]) + fabs(d->decay * w->values[n]);
    if (v) step = step * (d->nesterov ? 1 + d->momentum : 1) + d->momentum * fabs(v->values[n]);
    if (v) cf_bound(s, v)[n] = 6 * CF_U * step;
    bound[n] = CF_U * (fabs(w->values[n]) + 9 * fabs(d->lr) * step);
  }
  cf_add_store(s, w);
  if (v) cf_add_store(s, v);
  cf_end(s);
}

static const descent descents[] = {
    {.lr = 0.1},
    {.lr = 0.1, .decay = 0.01},
    {.lr = 0.5, .momentum = 0.9, .velocity = true},
    {.lr = 0.01, .momentum = 0.9, .decay = 1e-4, .velocity = true},
    {.lr = 0.1, .momentum = 0.9, .decay = 0.1, .velocity = true, .nesterov = true},
    {.lr = 1, .velocity = true},
    {.lr = 0, .momentum = 0.5, .velocity = true},
};

static void sgd_shapes(cf_session *s, layerops_type type) {
  for (int64_t i = 0; i < CF_COUNT(sizes); i++)
    for (int64_t j = 0; j < CF_COUNT(descents); j++) {
      descent d = descents[j];
      d.type = d.gradient = type;
      s->layout = layouts[(i + j) % CF_COUNT(layouts)];
      sgd(s, &d, sizes[i][0], sizes[i][1]);
    }
}

static void sgd_types(cf_session *s, layerops_type type) {
  for (int64_t t = 0; t < CF_COUNT(floats); t++) {
    descent d = descents[4];
    d.type = type;
    d.gradient = floats[t];
    sgd(s, &d, 9, 37);
  }
}

/* ---- adam ---- */

typedef struct moments {
  layerops_type type, gradient;
  double lr, beta1, beta2, epsilon, decay, step;
  bool decoupled, fresh; /* fresh: m and v are zeros */
  bool defaults;         /* everything but step is left unset */
  bool elements;         /* scalars are elements of buffers */
} moments;

static void adam_bound(cf_session *s, const moments *a, cf_operand *w, const cf_operand *g,
                       cf_operand *m, cf_operand *v) {
  double *bound = cf_bound(s, w), *bound_m = cf_bound(s, m), *bound_v = cf_bound(s, v);
  double c1 = 1 - pow(a->beta1, a->step), c2 = 1 - pow(a->beta2, a->step);
  for (int64_t n = 0; n < w->count; n++) {
    double coupled = a->decoupled ? 0 : a->decay * w->values[n];
    double grad = g->values[n] + coupled, size = fabs(g->values[n]) + fabs(coupled);
    double mean = a->beta1 * m->values[n] + (1 - a->beta1) * grad;
    double square = a->beta2 * v->values[n] + (1 - a->beta2) * grad * grad;
    /* beta is rounded to f32 before 1 - beta is: the error of that is u, whatever is left of it */
    bound_m[n] = 4 * CF_U * (fabs(m->values[n]) + size);
    bound_v[n] = 4 * CF_U * (fabs(v->values[n]) + size * size);
    /* beta^t within a few u of it, seen from 1 - beta^t */
    double corrections = 4 * CF_U / c1 + 4 * CF_U / c2;
    double root = sqrt(square / c2) + a->epsilon, move = fabs(a->lr * mean / c1 / root);
    double root_error = square > 0 ? bound_v[n] / (2 * square) : 0;
    bound[n] = move * (root_error + corrections + 16 * CF_U) +
               fabs(a->lr) / c1 / root * bound_m[n] +
               3 * CF_U * fabs(w->values[n]) * (1 + fabs(a->lr * a->decay));
  }
  cf_add_store(s, w);
  cf_add_store(s, m);
  cf_add_store(s, v);
}

static layerops_scalar scalar(cf_session *s, const moments *a, const char *name, double value,
                              cf_operand **o, int side) {
  if (!a->elements) return layerops_value(value);
  if (!*o) {
    *o = cf_matrix(s, name, LAYEROPS_F32, 1, 1, CF_ZERO);
    (*o)->values[0] = value;
  }
  return cf_element(*o, side);
}

static void adam(cf_session *s, const moments *a, int64_t rows, int64_t cols) {
  cf_case(s, "%" PRId64 " x %" PRId64 " g=%s step=%g lr=%g decay=%g decoupled=%d fresh=%d", rows,
          cols, layerops_type_name(a->gradient), a->step, a->lr, a->decay, a->decoupled, a->fresh);
  cf_operand *w = cf_output(s, "w", a->type, rows, cols, CF_REAL);
  cf_operand *g = cf_matrix(s, "g", a->gradient, rows, cols, CF_REAL);
  cf_operand *m = cf_output(s, "m", LAYEROPS_F32, rows, cols, a->fresh ? CF_ZERO : CF_REAL);
  cf_operand *v = cf_output(s, "v", LAYEROPS_F32, rows, cols, a->fresh ? CF_ZERO : CF_UNIT);
  cf_operand *in[6] = {NULL};
  CF_SIDES(s, side) {
    layerops_adam_args args = {.w = cf_on(w, side),
                               .g = cf_on(g, side),
                               .m = cf_on(m, side),
                               .v = cf_on(v, side),
                               .decoupled = a->decoupled,
                               .step = scalar(s, a, "step", a->step, &in[0], side)};
    if (!a->defaults) {
      args.lr = scalar(s, a, "lr", a->lr, &in[1], side);
      args.beta1 = scalar(s, a, "beta1", a->beta1, &in[2], side);
      args.beta2 = scalar(s, a, "beta2", a->beta2, &in[3], side);
      args.epsilon = scalar(s, a, "epsilon", a->epsilon, &in[4], side);
      args.weight_decay = scalar(s, a, "weight_decay", a->decay, &in[5], side);
    }
    CF_CALL(s, side, adam, &args);
  }
  adam_bound(s, a, w, g, m, v);
  cf_end(s);
}

static moments plain(layerops_type type) {
  return (moments){.type = type,
                   .gradient = type,
                   .lr = 1e-3,
                   .beta1 = 0.9,
                   .beta2 = 0.999,
                   .epsilon = 1e-8,
                   .step = 1,
                   .fresh = true};
}

static void adam_shapes(cf_session *s, layerops_type type) {
  for (int64_t i = 0; i < CF_COUNT(sizes); i++)
    for (int j = 0; j < 4; j++) {
      moments a = plain(type);
      s->layout = layouts[(i + j) % CF_COUNT(layouts)];
      a.decoupled = j & 1;
      a.decay = j & 2 ? 0.01 : 0;
      a.defaults = j == 0;
      adam(s, &a, sizes[i][0], sizes[i][1]);
      a.step = 7;
      a.fresh = false;
      adam(s, &a, sizes[i][0], sizes[i][1]);
    }
}

static void adam_steps(cf_session *s, layerops_type type) {
  static const double steps[] = {1, 2, 3, 10, 100, 1000, 1e5, 1e7};
  for (int64_t i = 0; i < CF_COUNT(steps); i++)
    for (int elements = 0; elements < 2; elements++) {
      moments a = plain(type);
      a.step = steps[i];
      a.lr = 0.25;
      a.decay = 0.125;
      a.elements = elements;
      a.decoupled = i % 2;
      a.fresh = false;
      adam(s, &a, 3, 37);
    }
}

static void adam_types(cf_session *s, layerops_type type) {
  for (int64_t t = 0; t < CF_COUNT(floats); t++) {
    moments a = plain(type);
    a.gradient = floats[t];
    a.lr = 0.1;
    adam(s, &a, 9, 37);
  }
}

/* Where epsilon counts, and where the gradient does nothing: epsilon stands outside the corrected
 * root, and the first update is lr whatever the gradient's size. */
static void adam_small_gradients(cf_session *s, layerops_type type) {
  static const double gradients[] = {1, 1e-3, 1e-8, 1e-12, 0, 100};
  for (int64_t i = 0; i < CF_COUNT(gradients); i++) {
    moments a = plain(type);
    a.lr = 0.5;
    cf_case(s, "first step, g=%g", gradients[i]);
    cf_operand *w = cf_output(s, "w", LAYEROPS_F32, 1, 35, CF_ZERO);
    cf_operand *g = cf_matrix(s, "g", type, 1, 35, CF_ONE);
    cf_operand *m = cf_output(s, "m", LAYEROPS_F32, 1, 35, CF_ZERO);
    cf_operand *v = cf_output(s, "v", LAYEROPS_F32, 1, 35, CF_ZERO);
    for (int64_t n = 0; n < 35; n++) g->values[n] = gradients[i];
    CF_SIDES(s, side) {
      layerops_adam_args args = {.w = cf_on(w, side),
                                 .g = cf_on(g, side),
                                 .m = cf_on(m, side),
                                 .v = cf_on(v, side),
                                 .lr = layerops_value(a.lr),
                                 .step = layerops_value(1)};
      CF_CALL(s, side, adam, &args);
    }
    adam_bound(s, &a, w, g, m, v);
    if (gradients[i] == 1 && !s->failed) {
      double moved = -cf_read(s, w, CF_DEVICE)[0];
      cf_expect(s, fabs(moved - a.lr) < 1e-4, "the first update is %g, not lr = %g", moved, a.lr);
    }
    cf_end(s);
  }
}

const cf_check cf_optimizer_checks[] = {
    {LAYEROPS_OP_sgd, "shapes and variants", CF_FLOATS, CF_EVERY, sgd_shapes},
    {LAYEROPS_OP_sgd, "types of the gradient", CF_FLOATS, 0, sgd_types},
    {LAYEROPS_OP_adam, "shapes and variants", CF_FLOATS, CF_EVERY, adam_shapes},
    {LAYEROPS_OP_adam, "steps", CF_FLOATS, 0, adam_steps},
    {LAYEROPS_OP_adam, "types of the gradient", CF_FLOATS, 0, adam_types},
    {LAYEROPS_OP_adam, "small gradients", CF_FLOATS, 0, adam_small_gradients},
    {0},
};

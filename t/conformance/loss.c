/* cross_entropy and mse. */
#include <config.h>

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "t/conformance/rows.h"
#include "t/conformance/session.h"

static const layerops_type floats[] = {LAYEROPS_F32, LAYEROPS_F16, LAYEROPS_BF16};
static const cf_layout layouts[] = {{0, 0, 0}, {1, 3, 0}, {3, 0, 0}};

enum { LOSS = 1, LOSSES = 2, GRADIENT = 4, CORRECT = 8, ALL_OUTPUTS = 15 };

typedef struct entropy {
  layerops_type type, truth, out; /* of logits, of probabilities, of dlogits */
  int64_t rows, cols;
  int outputs; /* which ones */
  int reduction;
  double scale; /* grad_scale; 1: left unset */
  bool ignores; /* some labels are ignored */
  int ignore_label;
  cf_fill fill;
  /* made by make() */
  cf_operand *logits, *labels, *probabilities, *loss, *losses, *gradient, *correct;
} entropy;

static entropy of(layerops_type type, int64_t rows, int64_t cols) {
  return (entropy){.type = type,
                   .out = type,
                   .rows = rows,
                   .cols = cols,
                   .outputs = ALL_OUTPUTS,
                   .scale = 1,
                   .fill = CF_WIDE,
                   .ignore_label = -100};
}

static cf_operand *wanted(cf_session *s, const entropy *e, int bit, const char *name,
                          layerops_type type, int64_t rows, int64_t cols) {
  return e->outputs & bit ? cf_output(s, name, type, rows, cols, CF_INTEGER) : NULL;
}

static void make_truth(cf_session *s, entropy *e) {
  if (e->truth) {
    e->probabilities = cf_matrix(s, "probabilities", e->truth, e->rows, e->cols, CF_UNIT);
    for (int64_t n = 0; n < e->probabilities->count; n++)
      if (n % 3 == 1) e->probabilities->values[n] = 0;
    return;
  }
  e->labels = cf_matrix(s, "labels", LAYEROPS_I32, 1, e->rows, CF_ZERO);
  for (int64_t i = 0; i < e->rows; i++) {
    double label = (double)cf_below(s, e->cols);
    cf_set(e->labels, 0, i, e->ignores && i % 3 == 0 ? e->ignore_label : label);
  }
}

static void make(cf_session *s, entropy *e) {
  cf_case(s, "%" PRId64 " x %" PRId64 " truth=%s dlogits=%s outputs=%d %s scale=%g ignores=%d",
          e->rows, e->cols, e->truth ? layerops_type_name(e->truth) : "labels",
          layerops_type_name(e->out), e->outputs, e->reduction ? "sum" : "mean", e->scale,
          e->ignores);
  e->labels = e->probabilities = NULL;
  e->logits = cf_matrix(s, "logits", e->type, e->rows, e->cols, e->fill);
  make_truth(s, e);
  e->loss = wanted(s, e, LOSS, "loss", LAYEROPS_F32, 1, 1);
  e->losses = wanted(s, e, LOSSES, "losses", LAYEROPS_F32, 1, e->rows);
  e->gradient = wanted(s, e, GRADIENT, "dlogits", e->out, e->rows, e->cols);
  e->correct = wanted(s, e, CORRECT, "correct", LAYEROPS_I32, 1, 1);
}

static layerops_cross_entropy_args arguments(entropy *e, int side) {
  layerops_cross_entropy_args args = {.logits = cf_on(e->logits, side),
                                      .labels = cf_on(e->labels, side),
                                      .probabilities = cf_on(e->probabilities, side),
                                      .loss = cf_on(e->loss, side),
                                      .losses = cf_on(e->losses, side),
                                      .dlogits = cf_on(e->gradient, side),
                                      .correct = cf_on(e->correct, side),
                                      .reduction = e->reduction};
  if (e->ignores) args.ignore_label = layerops_value(e->ignore_label);
  if (e->scale != 1) args.grad_scale = layerops_value(e->scale);
  return args;
}

static bool counts(const entropy *e, int64_t i) {
  return !e->labels || !e->ignores || e->labels->values[i] != e->ignore_label;
}

static double truth_at(const entropy *e, int64_t i, int64_t j) {
  return e->labels ? e->labels->values[i] == (double)j : e->probabilities->values[i * e->cols + j];
}

/* The error of one row's loss, its magnitude, and the sum of its probabilities. */
typedef struct row_bound {
  double error, magnitude, weight;
} row_bound;

static row_bound row_loss(const entropy *e, const double *x, const cf_row *r, int64_t i) {
  row_bound b = {0, 0, 0};
  for (int64_t j = 0; j < e->cols && counts(e, i); j++) {
    double p = truth_at(e, i, j), term = x[j] - r->shift - log(r->sum);
    b.weight += p;
    if (p == 0) continue;
    b.error += p * (cf_log_softmax_error(r, x[j]) + 2 * CF_U * fabs(term));
    b.magnitude += fabs(p * term);
  }
  if (e->probabilities) b.error += CF_U * cf_steps(LAYEROPS_F32, e->cols) * b.magnitude;
  return b;
}

static void bound_gradient(cf_session *s, entropy *e, const double *x, const cf_row *r, int64_t i,
                           double scale, double weight) {
  double *bounds = cf_bound(s, e->gradient) + i * e->cols;
  double steps = e->probabilities ? cf_steps(LAYEROPS_F32, e->cols) : 0;
  for (int64_t j = 0; j < e->cols && counts(e, i); j++) {
    double y = exp(x[j] - r->shift) / r->sum;
    double error = weight * (cf_softmax_error(r, x[j]) + CF_U * steps * y);
    bounds[j] = scale * (error + 5 * CF_U * (weight * y + truth_at(e, i, j)));
  }
}

static int64_t counted(const entropy *e) {
  int64_t count = 0;
  for (int64_t i = 0; i < e->rows; i++) count += counts(e, i);
  return count;
}

static void bound(cf_session *s, entropy *e) {
  double reduce = e->reduction == LAYEROPS_MEAN && counted(e) ? 1 / (double)counted(e) : 1;
  double error = 0, magnitude = 0, *losses = e->losses ? cf_bound(s, e->losses) : NULL;
  for (int64_t i = 0; i < e->rows; i++) {
    const double *x = e->logits->values + i * e->cols;
    cf_row r = cf_row_of(x, e->cols);
    row_bound b = row_loss(e, x, &r, i);
    error += b.error;
    magnitude += b.magnitude;
    if (losses) losses[i] = b.error;
    if (e->gradient) bound_gradient(s, e, x, &r, i, fabs(e->scale) * reduce, b.weight);
  }
  if (losses) cf_add_store(s, e->losses);
  if (e->gradient) cf_add_store(s, e->gradient);
  if (e->loss) {
    *cf_bound(s, e->loss) =
        reduce * (error + CF_U * (cf_steps(LAYEROPS_F32, e->rows) + 3) * magnitude);
    cf_add_store(s, e->loss);
  }
}

static void call(cf_session *s, entropy *e) {
  CF_SIDES(s, side) {
    layerops_cross_entropy_args args = arguments(e, side);
    CF_CALL(s, side, cross_entropy, &args);
  }
  bound(s, e);
  cf_end(s);
}

static void run(cf_session *s, entropy e) {
  make(s, &e);
  call(s, &e);
}

static void shapes(cf_session *s, layerops_type type) {
  static const int64_t sizes[][2] = {{1, 1},   {1, 2},    {3, 2},   {2, 7},    {5, 10},  {64, 10},
                                     {65, 10}, {33, 17},  {7, 31},  {7, 32},   {7, 33},  {3, 127},
                                     {3, 257}, {2, 1025}, {300, 5}, {1030, 3}, {1, 3001}};
  for (int64_t i = 0; i < CF_COUNT(sizes); i++)
    for (int truth = 0; truth < 2; truth++) {
      s->layout = layouts[i % CF_COUNT(layouts)];
      entropy e = of(type, sizes[i][0], sizes[i][1]);
      e.truth = truth ? type : 0;
      e.reduction = (int)(i % 2);
      run(s, e);
    }
}

static void outputs(cf_session *s, layerops_type type) {
  for (int which = 1; which < 16; which++)
    for (int truth = 0; truth < 2; truth++) {
      entropy e = of(type, 19, 13);
      e.outputs = which;
      e.truth = truth ? LAYEROPS_F32 : 0;
      e.scale = which % 2 ? 1 : 128;
      run(s, e);
    }
  for (int64_t t = 0; t < 9; t++) {
    entropy e = of(type, 11, 35);
    e.truth = floats[t / 3];
    e.out = floats[t % 3];
    run(s, e);
  }
}

static void ignored_labels(cf_session *s, layerops_type type) {
  static const int values[] = {-100, -1, 2, 255, INT32_MAX};
  for (int64_t i = 0; i < CF_COUNT(values); i++)
    for (int reduction = 0; reduction < 2; reduction++) {
      entropy e = of(type, 20, 7);
      e.ignores = true;
      e.ignore_label = values[i];
      e.reduction = reduction;
      run(s, e);
      e.rows =
          1; /* its only label is ignored: the mean over nothing is 0, and so is the gradient */
      run(s, e);
    }
}

/* An ignored row counts for nothing, even if its logits are no numbers. */
static void strange_logits(cf_session *s, layerops_type type) {
  static const double values[] = {NAN, INFINITY, -INFINITY};
  for (int ignores = 0; ignores < 2; ignores++)
    for (int i = 0; i < 3; i++) {
      entropy e = of(type, 4, 37);
      e.ignores = ignores;
      e.outputs = LOSSES | GRADIENT | CORRECT;
      make(s, &e);
      cf_set(e.labels, 0, 0, ignores ? e.ignore_label : 5);
      cf_set(e.logits, 0, 9, values[i]);
      cf_set(e.logits, 1, 0, values[i]);
      cf_set(e.logits, 3, 36, values[i]);
      call(s, &e);
    }
}

/* The loss is a small difference of large numbers. */
static void far_from_zero(cf_session *s, layerops_type type) {
  static const double far[] = {-60000, 60000};
  for (int i = 0; i < 2; i++)
    for (int probabilities = 0; probabilities < 2; probabilities++) {
      entropy e = of(type, 9, 37);
      e.fill = CF_ZERO;
      if (probabilities) e.truth = LAYEROPS_F32;
      make(s, &e);
      for (int64_t row = 0; row < e.rows; row++)
        for (int64_t j = 0; j < e.cols; j++)
          cf_set(e.logits, row, j, far[i] + 4 * (double)((row + j) % 3));
      call(s, &e);
    }
}

/* The first of several largest counts, wherever the others stand. */
static void ties(cf_session *s, layerops_type type) {
  for (int64_t cols = 2; cols < 80; cols += 7) {
    entropy e = of(type, cols, cols);
    e.fill = CF_ZERO;
    e.outputs = CORRECT;
    make(s, &e);
    for (int64_t i = 0; i < cols; i++) {
      cf_set(e.logits, i, i, 1);
      cf_set(e.logits, i, cols - 1, 1);
      cf_set(e.labels, 0, i, i % 2 ? (double)i : (double)cols - 1);
    }
    call(s, &e);
  }
}

static void gradient_in_place(cf_session *s, layerops_type type) {
  for (int truth = 0; truth < 2; truth++) {
    s->layout = layouts[truth];
    entropy e = of(type, 9, 41);
    e.outputs = LOSS | LOSSES | CORRECT;
    e.truth = truth ? type : 0;
    make(s, &e);
    e.logits->is_output = true;
    e.gradient = e.logits;
    call(s, &e);
  }
}

static void empty_losses(cf_session *s, layerops_type type) {
  for (int reduction = 0; reduction < 2; reduction++) {
    entropy e = of(type, 0, 7);
    e.reduction = reduction;
    run(s, e);
    e.truth = type;
    run(s, e);
    e = of(type, 5, 0);
    e.truth = type;
    run(s, e);
  }
}

static void scale_element(cf_session *s, layerops_type type) {
  entropy e = of(type, 6, 11);
  make(s, &e);
  cf_operand *scale = cf_matrix(s, "scale", LAYEROPS_F32, 1, 1, CF_ZERO);
  scale->values[0] = e.scale = 512;
  CF_SIDES(s, side) {
    layerops_cross_entropy_args args = arguments(&e, side);
    args.grad_scale = cf_element(scale, side);
    CF_CALL(s, side, cross_entropy, &args);
  }
  bound(s, &e);
  cf_end(s);
}

/* Found before anything is written where the labels are in host memory; else reported by the next
 * sync, and the row is treated as ignored. */
static void label_out_of_range(cf_session *s, layerops_type type) {
  static const int wrong[] = {-1, 3, 254, INT32_MAX, INT32_MIN};
  for (int64_t i = 0; i < CF_COUNT(wrong); i++) {
    entropy e = of(type, 4, 3);
    e.ignores = true;
    e.ignore_label = 255;
    make(s, &e);
    static const int labels[] = {0, 2, 255, 254};
    for (int64_t row = 0; row < 4; row++) cf_set(e.labels, 0, row, labels[row]);
    cf_set(e.labels, 0, 3, wrong[i]);
    layerops_cross_entropy_args args = arguments(&e, CF_DEVICE);
    layerops_status status = layerops_cross_entropy(s->ctx[CF_DEVICE], &args);
    bool at_once = s->on_host || s->variant == CF_HOST;
    if (!at_once) {
      cf_expect(s, status == LAYEROPS_OK, "the call returned %s", layerops_status_name(status));
      status = layerops_sync(s->ctx[CF_DEVICE]);
    }
    cf_expect(s, status == LAYEROPS_ERROR_LABEL, "label %d: status %s in place of ERROR_LABEL",
              wrong[i], layerops_status_name(status));
    cf_expect(s, strstr(layerops_last_error(), "label") != NULL, "message \"%s\"",
              layerops_last_error());
    cf_operand *outputs_of[] = {e.loss, e.losses, e.gradient, e.correct};
    for (int64_t o = 0; at_once && o < CF_COUNT(outputs_of); o++) outputs_of[o]->is_output = false;
    if (!at_once) {
      /* as if the label had been ignored, which the reference can be told */
      cf_operand *told = cf_matrix(s, "labels", LAYEROPS_I32, 1, 4, CF_ZERO);
      memcpy(told->values, e.labels->values, 4 * sizeof(double));
      cf_set(told, 0, 3, 255);
      args = arguments(&e, CF_REFERENCE);
      args.labels = cf_on(told, CF_REFERENCE);
      cf_after(s, CF_REFERENCE, layerops_cross_entropy(s->ctx[CF_REFERENCE], &args));
      cf_operand *labels_seen = e.labels;
      e.labels = told;
      bound(s, &e);
      e.labels = labels_seen;
    }
    cf_end(s);
    cf_expect(s, layerops_sync(s->ctx[CF_DEVICE]) == LAYEROPS_OK,
              "the error word was not cleared: %s", layerops_last_error());
  }
}

/* ---- mse ---- */

typedef struct square {
  layerops_type type, target, out;
  int64_t rows, cols;
  int reduction, outputs;
  double scale;
} square;

static void mse(cf_session *s, const square *q, cf_operand *y, cf_operand *target, cf_operand *loss,
                cf_operand *dy) {
  CF_SIDES(s, side) {
    layerops_mse_args args = {.y = cf_on(y, side),
                              .target = cf_on(target, side),
                              .loss = cf_on(loss, side),
                              .dy = cf_on(dy, side),
                              .reduction = q->reduction};
    if (q->scale != 1) args.grad_scale = layerops_value(q->scale);
    CF_CALL(s, side, mse, &args);
  }
  /* y - target is rounded once, its square and the product with r once more each, the sum c(n)
   * times */
  double n = (double)y->count, reduce = q->reduction == LAYEROPS_MEAN && n > 0 ? 1 / n : 1, sum = 0;
  for (int64_t i = 0; i < y->count; i++) {
    double error = y->values[i] - target->values[i];
    sum += error * error;
    if (dy) cf_bound(s, dy)[i] = 5 * CF_U * fabs(2 * reduce * q->scale * error);
  }
  if (dy) cf_add_store(s, dy);
  if (loss) {
    *cf_bound(s, loss) = CF_U * (cf_steps(LAYEROPS_F32, y->count) + 5) * reduce * sum;
    cf_add_store(s, loss);
  }
  cf_end(s);
}

static square square_of(layerops_type type, int64_t rows, int64_t cols) {
  return (square){.type = type,
                  .target = type,
                  .out = type,
                  .rows = rows,
                  .cols = cols,
                  .outputs = 3,
                  .scale = 1};
}

static void run_mse(cf_session *s, square q) {
  cf_case(s, "%" PRId64 " x %" PRId64 " target=%s dy=%s outputs=%d %s scale=%g", q.rows, q.cols,
          layerops_type_name(q.target), layerops_type_name(q.out), q.outputs,
          q.reduction ? "sum" : "mean", q.scale);
  cf_operand *y = cf_matrix(s, "y", q.type, q.rows, q.cols, CF_REAL);
  cf_operand *target = cf_matrix(s, "target", q.target, q.rows, q.cols, CF_REAL);
  cf_operand *loss = q.outputs & 1 ? cf_output(s, "loss", LAYEROPS_F32, 1, 1, CF_NAN) : NULL;
  cf_operand *dy = q.outputs & 2 ? cf_output(s, "dy", q.out, q.rows, q.cols, CF_NAN) : NULL;
  mse(s, &q, y, target, loss, dy);
}

static void mse_shapes(cf_session *s, layerops_type type) {
  static const int64_t sizes[][2] = {{1, 1},    {1, 2},   {3, 1},   {2, 7},   {5, 10},
                                     {64, 64},  {65, 63}, {33, 17}, {7, 257}, {1, 5000},
                                     {1025, 3}, {0, 3},   {3, 0}};
  for (int64_t i = 0; i < CF_COUNT(sizes); i++)
    for (int outputs_wanted = 1; outputs_wanted < 4; outputs_wanted++) {
      s->layout = layouts[i % CF_COUNT(layouts)];
      square q = square_of(type, sizes[i][0], sizes[i][1]);
      q.outputs = outputs_wanted;
      q.reduction = (int)(i % 2);
      q.scale = i % 3 ? 1 : 64;
      run_mse(s, q);
    }
}

static void mse_types(cf_session *s, layerops_type type) {
  for (int64_t t = 0; t < 9; t++) {
    square q = square_of(type, 9, 33);
    q.target = floats[t / 3];
    q.out = floats[t % 3];
    run_mse(s, q);
  }
}

static void mse_in_place(cf_session *s, layerops_type type) {
  square q = square_of(type, 5, 37);
  cf_case(s, "in place over y");
  cf_operand *target = cf_matrix(s, "target", type, 5, 37, CF_REAL);
  cf_operand *y = cf_output(s, "y", type, 5, 37, CF_REAL);
  mse(s, &q, y, target, cf_output(s, "loss", LAYEROPS_F32, 1, 1, CF_NAN), y);
  cf_case(s, "in place over target");
  y = cf_matrix(s, "y", type, 5, 37, CF_REAL);
  target = cf_output(s, "target", type, 5, 37, CF_REAL);
  mse(s, &q, y, target, cf_output(s, "loss", LAYEROPS_F32, 1, 1, CF_NAN), target);
}

static void mse_nan(cf_session *s, layerops_type type) {
  square q = square_of(type, 3, 37);
  cf_case(s, "NaN and infinity");
  cf_operand *y = cf_matrix(s, "y", type, 3, 37, CF_REAL);
  cf_operand *target = cf_matrix(s, "target", type, 3, 37, CF_REAL);
  cf_plant(s, y);
  mse(s, &q, y, target, cf_output(s, "loss", LAYEROPS_F32, 1, 1, CF_ZERO),
      cf_output(s, "dy", type, 3, 37, CF_ZERO));
}

const cf_check cf_loss_checks[] = {
    {LAYEROPS_OP_cross_entropy, "shapes", CF_FLOATS, CF_EVERY, shapes},
    {LAYEROPS_OP_cross_entropy, "outputs and types", CF_FLOATS, 0, outputs},
    {LAYEROPS_OP_cross_entropy, "ignored labels", CF_FLOATS, 0, ignored_labels},
    {LAYEROPS_OP_cross_entropy, "NaN and infinity", CF_FLOATS, 0, strange_logits},
    {LAYEROPS_OP_cross_entropy, "far from zero", CF_F32, 0, far_from_zero},
    {LAYEROPS_OP_cross_entropy, "ties", CF_FLOATS, 0, ties},
    {LAYEROPS_OP_cross_entropy, "in place", CF_FLOATS, CF_MEMORY, gradient_in_place},
    {LAYEROPS_OP_cross_entropy, "no rows, no columns", CF_FLOATS, 0, empty_losses},
    {LAYEROPS_OP_cross_entropy, "grad_scale as element", CF_FLOATS, 0, scale_element},
    {LAYEROPS_OP_cross_entropy, "label out of range", CF_FLOATS, CF_MEMORY, label_out_of_range},
    {LAYEROPS_OP_mse, "shapes", CF_FLOATS, CF_EVERY, mse_shapes},
    {LAYEROPS_OP_mse, "triples of types", CF_FLOATS, 0, mse_types},
    {LAYEROPS_OP_mse, "in place", CF_FLOATS, CF_MEMORY, mse_in_place},
    {LAYEROPS_OP_mse, "NaN and infinity", CF_FLOATS, 0, mse_nan},
    {0},
};

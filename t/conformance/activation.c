#include <config.h>

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "t/conformance/session.h"

static const cf_layout layouts[] = {{0, 0, 0}, {1, 0, 0}, {3, 5, 0}};
static const layerops_type floats[] = {LAYEROPS_F32, LAYEROPS_F16, LAYEROPS_BF16};

/* Where activations break: no numbers, zeros, the tails, exponentials that overflow. */
static const double points[] = {
    NAN,  INFINITY, -INFINITY, 0.0,      -0.0,    1,        -1,    0.5,   -0.5,   1e-5,  -1e-5,
    3,    -3,       -0.75,     -5,       5,       -8,       8,     11,    -11,    -12.5, 15,
    -15,  20,       -20,       40,       -40,     87,       -87,   88.7,  -88.7,  89,    -89,
    103,  -103,     110,       -110,     -111,    1e4,      -1e4,  65504, -65504, 1e18,  -1e18,
    1e30, -1e30,    FLT_MAX,   -FLT_MAX, FLT_MIN, -FLT_MIN, 1e-40,
};

typedef struct unary {
  layerops_activation kind;
  layerops_type type, saved_type, out;
  int64_t rows, cols;
  layerops_scalar slope;
  double slope_value;
  cf_fill fill;
} unary;

static unary of(layerops_activation kind, layerops_type type, int64_t rows, int64_t cols) {
  return (unary){.kind = kind,
                 .type = type,
                 .saved_type = type,
                 .out = type,
                 .rows = rows,
                 .cols = cols,
                 .slope_value = 0.01,
                 .fill = CF_WIDE};
}

static void describe(cf_session *s, const unary *u, const char *more) {
  cf_case(s,
          "%s %" PRId64 " x %" PRId64 " saved=%s out=%s slope=%g offset=%" PRId64 " pad=%" PRId64
          "%s",
          layerops_activation_name(u->kind), u->rows, u->cols, layerops_type_name(u->saved_type),
          layerops_type_name(u->out), u->slope_value, s->layout.offset, s->layout.pad, more);
}

/* ---- forward ---- */

static void forward(cf_session *s, const unary *u, cf_operand *x, cf_operand *y) {
  CF_SIDES(s, side) {
    layerops_activation_forward_args args = {
        .x = cf_on(x, side), .y = cf_on(y, side), .activation = u->kind, .slope = u->slope};
    CF_CALL(s, side, activation_forward, &args);
  }
  double *expected = cf_read(s, y, CF_REFERENCE), *bound = cf_bound(s, y);
  for (int64_t n = 0; n < y->count; n++)
    bound[n] = cf_activation_error(u->kind, x->values[n], expected[n]);
  if (u->kind == LAYEROPS_IDENTITY || u->kind == LAYEROPS_RELU)
    y->bound = NULL; /* no arithmetic: exact */
  else
    cf_add_store(s, y);
  cf_end(s);
}

static void run_forward(cf_session *s, const unary *u) {
  describe(s, u, "");
  cf_operand *x = cf_matrix(s, "x", u->type, u->rows, u->cols, u->fill);
  forward(s, u, x, cf_output(s, "y", u->out, u->rows, u->cols, CF_NAN));
}

static void forward_lengths(cf_session *s, layerops_type type) {
  for (layerops_activation kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++) {
    for (int64_t n = 1; n <= 67; n += s->options->full || n < 18 ? 1 : 5) {
      unary u = of(kind, type, n % 3 ? 1 : 3, n);
      s->layout = layouts[n % CF_COUNT(layouts)];
      run_forward(s, &u);
    }
    unary u = of(kind, type, 33, 129);
    run_forward(s, &u);
    u = of(kind, type, 0, 7);
    run_forward(s, &u);
    u = of(kind, type, 7, 0);
    run_forward(s, &u);
  }
}

static void forward_types(cf_session *s, layerops_type type) {
  for (layerops_activation kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++)
    for (int64_t t = 0; t < CF_COUNT(floats); t++) {
      unary u = of(kind, type, 5, 61);
      u.out = floats[t];
      s->layout = layouts[t];
      run_forward(s, &u);
    }
}

static void forward_points(cf_session *s, layerops_type type) {
  for (layerops_activation kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++)
    for (int64_t rows = 1; rows <= 3; rows += 2) {
      unary u = of(kind, type, rows, CF_COUNT(points));
      describe(s, &u, " special points");
      cf_operand *x = cf_matrix(s, "x", type, rows, u.cols, CF_ZERO);
      for (int64_t n = 0; n < x->count; n++)
        x->values[n] = points[(n + n / u.cols) % u.cols]; /* each row begins with another one */
      forward(s, &u, x, cf_output(s, "y", type, rows, u.cols, CF_ZERO));
    }
}

/* A fine grid shows where the accuracy of an approximation gives way. */
static void forward_grid(cf_session *s, layerops_type type) {
  for (layerops_activation kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++) {
    unary u = of(kind, type, 8, 1001);
    describe(s, &u, " grid");
    cf_operand *x = cf_matrix(s, "x", type, u.rows, u.cols, CF_ZERO);
    static const double width[] = {1e-3, 0.1, 1, 3, 6, 14, 30, 100};
    for (int64_t i = 0; i < u.rows; i++)
      for (int64_t j = 0; j < u.cols; j++) cf_set(x, i, j, width[i] * (double)(j - 500) / 500);
    forward(s, &u, x, cf_output(s, "y", type, u.rows, u.cols, CF_ZERO));
  }
}

static void forward_in_place(cf_session *s, layerops_type type) {
  for (layerops_activation kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++) {
    unary u = of(kind, type, 7, 37);
    s->layout = layouts[kind % CF_COUNT(layouts)];
    describe(s, &u, " in place");
    cf_operand *y = cf_output(s, "y", type, u.rows, u.cols, CF_WIDE);
    cf_set(y, 0, 0, NAN);
    cf_set(y, 1, 7, NAN);
    cf_set(y, 6, 36, NAN);
    forward(s, &u, y, y);
  }
}

static void slopes(cf_session *s, layerops_type type) {
  static const double values[] = {0, 0.25, -0.5, 1, 2};
  for (int64_t i = 0; i < CF_COUNT(values); i++) {
    unary u = of(LAYEROPS_LEAKY_RELU, type, 3, 33);
    u.slope = layerops_value(values[i]);
    u.slope_value = values[i];
    run_forward(s, &u);
  }
}

/* ---- backward ---- */

/* saved is the pre-activation or the output, within the range that such a value has. */
static void saved_range(cf_session *s, layerops_activation kind, cf_operand *saved) {
  for (int64_t n = 0; n < saved->count; n++) {
    double *x = &saved->values[n];
    *x = kind == LAYEROPS_SIGMOID ? cf_uniform(s, 0, 1)
         : kind == LAYEROPS_TANH  ? cf_uniform(s, -1, 1)
                                  : cf_uniform(s, -12, 12);
    if (n % 5 == 3) *x = 0;
  }
}

static void backward(cf_session *s, const unary *u, cf_operand *dy, cf_operand *saved,
                     cf_operand *dx) {
  CF_SIDES(s, side) {
    layerops_activation_backward_args args = {.dy = cf_on(dy, side),
                                              .saved = cf_on(saved, side),
                                              .dx = cf_on(dx, side),
                                              .activation = u->kind,
                                              .slope = u->slope};
    CF_CALL(s, side, activation_backward, &args);
  }
  double *bound = cf_bound(s, dx), *expected = cf_read(s, dx, CF_REFERENCE);
  for (int64_t n = 0; n < dx->count; n++)
    bound[n] =
        fabs(dy->values[n]) * cf_derivative_error(u->kind, saved->values[n], u->slope_value) +
        CF_U * fabs(expected[n]);
  if (u->kind == LAYEROPS_IDENTITY || u->kind == LAYEROPS_RELU)
    dx->bound = NULL;
  else
    cf_add_store(s, dx);
  cf_end(s);
}

static void run_backward(cf_session *s, const unary *u) {
  describe(s, u, "");
  cf_operand *dy = cf_matrix(s, "dy", u->type, u->rows, u->cols, CF_REAL);
  cf_operand *saved = cf_matrix(s, "saved", u->saved_type, u->rows, u->cols, CF_ZERO);
  saved_range(s, u->kind, saved);
  backward(s, u, dy, saved, cf_output(s, "dx", u->out, u->rows, u->cols, CF_NAN));
}

static void backward_lengths(cf_session *s, layerops_type type) {
  for (layerops_activation kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++) {
    for (int64_t n = 1; n <= 67; n += s->options->full || n < 18 ? 1 : 5) {
      unary u = of(kind, type, n % 3 ? 1 : 3, n);
      s->layout = layouts[n % CF_COUNT(layouts)];
      run_backward(s, &u);
    }
    unary u = of(kind, type, 0, 7);
    run_backward(s, &u);
    u = of(kind, type, 33, 129);
    run_backward(s, &u);
  }
}

static void backward_types(cf_session *s, layerops_type type) {
  for (layerops_activation kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++)
    for (int64_t t = 0; t < 9; t++) {
      unary u = of(kind, type, 5, 61);
      u.saved_type = floats[t / 3];
      u.out = floats[t % 3];
      run_backward(s, &u);
    }
}

/* relu'(0) = 0 and relu'(NaN) = NaN; the derivatives that are computed from z have their limits at
 * infinity. */
static void backward_points(cf_session *s, layerops_type type) {
  for (layerops_activation kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++) {
    bool from_output = kind == LAYEROPS_SIGMOID || kind == LAYEROPS_TANH;
    static const double outputs[] = {NAN, 0.0, -0.0, 1, 0.5, 0.25, 1e-20, 0x1.fffffep-1};
    int64_t count = from_output ? CF_COUNT(outputs) : CF_COUNT(points);
    unary u = of(kind, type, 1, count);
    describe(s, &u, " special points");
    cf_operand *dy = cf_matrix(s, "dy", type, 1, count, CF_ONE);
    cf_operand *saved = cf_matrix(s, "saved", type, 1, count, CF_ZERO);
    memcpy(saved->values, from_output ? outputs : points, (size_t)count * sizeof(double));
    backward(s, &u, dy, saved, cf_output(s, "dx", type, 1, count, CF_ZERO));
  }
}

static void backward_in_place(cf_session *s, layerops_type type) {
  for (layerops_activation kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++) {
    unary u = of(kind, type, 5, 37);
    s->layout = layouts[kind % CF_COUNT(layouts)];
    describe(s, &u, " in place over dy");
    cf_operand *saved = cf_matrix(s, "saved", type, 5, 37, CF_ZERO);
    saved_range(s, kind, saved);
    cf_operand *dx = cf_output(s, "dx", type, 5, 37, CF_REAL);
    backward(s, &u, dx, saved, dx);
    describe(s, &u, " in place over saved");
    cf_operand *dy = cf_matrix(s, "dy", type, 5, 37, CF_REAL);
    dx = cf_output(s, "dx", type, 5, 37, CF_ZERO);
    saved_range(s, kind, dx);
    backward(s, &u, dy, dx, dx);
  }
}

const cf_check cf_activation_checks[] = {
    {LAYEROPS_OP_activation_forward, "every length", CF_FLOATS, CF_EVERY, forward_lengths},
    {LAYEROPS_OP_activation_forward, "pairs of types", CF_FLOATS, 0, forward_types},
    {LAYEROPS_OP_activation_forward, "special points", CF_FLOATS, 0, forward_points},
    {LAYEROPS_OP_activation_forward, "grid", CF_FLOATS, 0, forward_grid},
    {LAYEROPS_OP_activation_forward, "in place", CF_FLOATS, CF_MEMORY, forward_in_place},
    {LAYEROPS_OP_activation_forward, "slopes", CF_FLOATS, 0, slopes},
    {LAYEROPS_OP_activation_backward, "every length", CF_FLOATS, CF_EVERY, backward_lengths},
    {LAYEROPS_OP_activation_backward, "triples of types", CF_FLOATS, 0, backward_types},
    {LAYEROPS_OP_activation_backward, "special points", CF_FLOATS, 0, backward_points},
    {LAYEROPS_OP_activation_backward, "in place", CF_FLOATS, CF_MEMORY, backward_in_place},
    {0},
};

#include <config.h>

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "t/conformance/session.h"
#include "t/conformance/rows.h"

static const layerops_type floats[] = {LAYEROPS_F32, LAYEROPS_F16, LAYEROPS_BF16};
static const cf_layout layouts[] = {{0, 0, 0}, {1, 3, 0}, {3, 0, 0}};

static void soft(cf_session *s, cf_operand *x, cf_operand *y, int log) {
  CF_SIDES(s, side) {
    layerops_softmax_args args = {.x = cf_on(x, side), .y = cf_on(y, side), .log = log};
    CF_CALL(s, side, softmax, &args);
  }
  double *bound = cf_bound(s, y);
  int64_t cols = x->shape.cols;
  for (int64_t i = 0; i < x->shape.rows; i++) {
    cf_row r = cf_row_of(x->values + i * cols, cols);
    for (int64_t j = 0; j < cols; j++)
      bound[i * cols + j] = log ? cf_log_softmax_error(&r, x->values[i * cols + j])
                                : cf_softmax_error(&r, x->values[i * cols + j]);
  }
  cf_add_store(s, y);
  cf_end(s);
}

static void run(cf_session *s, layerops_type type, layerops_type out, int64_t rows, int64_t cols,
                cf_fill fill) {
  for (int log = 0; log < 2; log++) {
    cf_case(s, "%" PRId64 " x %" PRId64 " out=%s log=%d", rows, cols, layerops_type_name(out), log);
    cf_operand *x = cf_matrix(s, "x", type, rows, cols, fill);
    soft(s, x, cf_output(s, "y", out, rows, cols, CF_NAN), log);
  }
}

static void lengths(cf_session *s, layerops_type type) {
  static const int64_t cols[] = {1,  2,  3,  5,   7,   8,   10,  15,  16,  17,  31,   32,   33,
                                 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 1023, 1025, 4099};
  for (int64_t i = 0; i < CF_COUNT(cols); i++) {
    s->layout = layouts[i % CF_COUNT(layouts)];
    run(s, type, type, i % 2 ? 3 : 1, cols[i], CF_WIDE);
  }
  run(s, type, type, 70, 10, CF_REAL);
  run(s, type, type, 0, 5, CF_REAL);
  run(s, type, type, 5, 0, CF_REAL);
}

static void types(cf_session *s, layerops_type type) {
  for (int64_t t = 0; t < CF_COUNT(floats); t++) run(s, type, floats[t], 9, 67, CF_WIDE);
}

/* A NaN, an infinity or nothing but -infinity makes the row NaN; other -infinities give 0. The
 * place of the strange element moves over lengths at which reductions change shape. */
static void strange(cf_session *s, layerops_type type) {
  static const int64_t cols[] = {1, 2, 31, 32, 33, 255, 257, 1025};
  static const double values[] = {NAN, INFINITY, -INFINITY};
  for (int64_t c = 0; c < CF_COUNT(cols); c++)
    for (int log = 0; log < 2; log++) {
      int64_t n = cols[c];
      cf_case(s, "11 x %" PRId64 " with NaN and infinity, log=%d", n, log);
      cf_operand *x = cf_matrix(s, "x", type, 11, n, CF_REAL);
      for (int64_t i = 0; i < 9; i++) {
        int64_t places[] = {0, n - 1, n / 2};
        cf_set(x, i, places[i / 3], values[i % 3]);
      }
      for (int64_t j = 0; j < n; j++) cf_set(x, 9, j, -INFINITY);
      soft(s, x, cf_output(s, "y", type, 11, n, CF_ZERO), log);
    }
}

/* Without the shift by the maximum these overflow, or lose everything. */
static void extremes(cf_session *s, layerops_type type) {
  static const double rows[][5] = {{-249.87, -424.13, -460.29, 378.10, -292.61},
                                   {65504, -65504, 0, 65503, 100},
                                   {-60000, -60000, -60000, -60000, -60000},
                                   {0, 0, 0, 0, 0},
                                   {88, 89, 90, -88, -104},
                                   {1e-30, -1e-30, 1e-38, 0, -0.0}};
  for (int log = 0; log < 2; log++) {
    cf_case(s, "extreme rows, log=%d", log);
    cf_operand *x = cf_matrix(s, "x", type, CF_COUNT(rows), 5, CF_ZERO);
    memcpy(x->values, rows, sizeof rows);
    soft(s, x, cf_output(s, "y", type, CF_COUNT(rows), 5, CF_ZERO), log);
  }
  if (type == LAYEROPS_F16) return;
  cf_case(s, "the largest numbers");
  cf_operand *x = cf_matrix(s, "x", type, 2, 3, CF_ZERO);
  const double large[] = {FLT_MAX, -FLT_MAX, FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX};
  for (int64_t n = 0; n < 6; n++) x->values[n] = large[n] / 2; /* bf16 rounds FLT_MAX to infinity */
  soft(s, x, cf_output(s, "y", type, 2, 3, CF_ZERO), 0);
}

static void in_place(cf_session *s, layerops_type type) {
  for (int i = 0; i < 6; i++) {
    s->layout = layouts[i % CF_COUNT(layouts)];
    cf_case(s, "in place, log=%d", i % 2);
    cf_operand *y = cf_output(s, "y", type, 4, i < 3 ? 37 : 300, CF_WIDE);
    soft(s, y, y, i % 2);
  }
}

const cf_check cf_softmax_checks[] = {
    {LAYEROPS_OP_softmax, "every length", CF_FLOATS, CF_EVERY, lengths},
    {LAYEROPS_OP_softmax, "pairs of types", CF_FLOATS, 0, types},
    {LAYEROPS_OP_softmax, "NaN and infinity", CF_FLOATS, 0, strange},
    {LAYEROPS_OP_softmax, "extreme rows", CF_FLOATS, 0, extremes},
    {LAYEROPS_OP_softmax, "in place", CF_FLOATS, CF_MEMORY, in_place},
    {0},
};

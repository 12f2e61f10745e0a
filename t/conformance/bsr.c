/* bsr_linear_forward. */
#include <config.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "t/conformance/session.h"

static const cf_layout layouts[] = {{0, 0, 0}, {1, 3, 0}, {3, 0, 0}, {4, 4, 0}};

typedef struct sparse {
  int64_t m, rows, cols, block; /* rows and cols of W in blocks */
  unsigned char *kept;          /* rows x cols: which blocks */
  layerops_activation activation;
  double alpha;
  bool bias, residual, in_place, preact;
  cf_fill fill;
} sparse;

static sparse of(cf_session *s, int64_t m, int64_t rows, int64_t cols, int64_t block) {
  return (sparse){.m = m,
                  .rows = rows,
                  .cols = cols,
                  .block = block,
                  .alpha = 1,
                  .bias = true,
                  .kept = cf_memory(s, (size_t)(rows * cols)),
                  .fill = CF_INTEGER};
}

static void keep(cf_session *s, sparse *p, int percent) {
  for (int64_t i = 0; i < p->rows * p->cols; i++) p->kept[i] = cf_below(s, 100) < percent;
}

/* W as a dense operand, zero where no block is kept: the oracle of the values, and of the bound. */
static cf_operand *dense_weights(cf_session *s, const sparse *p) {
  int64_t n = p->rows * p->block, k = p->cols * p->block;
  cf_operand *w = cf_matrix(s, "dense w", LAYEROPS_F32, n, k, p->fill);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < k; j++)
      if (!p->kept[i / p->block * p->cols + j / p->block]) cf_set(w, i, j, 0);
  cf_on(w, CF_REFERENCE); /* rounds the values */
  return w;
}

static int64_t fill_pattern(const sparse *p, int32_t *row_start, int32_t *column) {
  int32_t count = 0;
  row_start[0] = 0;
  for (int64_t r = 0; r < p->rows; r++) {
    for (int64_t c = 0; c < p->cols; c++)
      if (p->kept[r * p->cols + c]) column[count++] = (int32_t)c;
    row_start[r + 1] = count;
  }
  return count;
}

static void fill_values(const sparse *p, const cf_operand *dense, const int32_t *row_start,
                        const int32_t *column, float *values) {
  for (int64_t r = 0; r < p->rows; r++)
    for (int64_t b = row_start[r]; b < row_start[r + 1]; b++)
      for (int64_t i = 0; i < p->block; i++)
        for (int64_t j = 0; j < p->block; j++)
          *values++ =
              (float)
                  dense->values[(r * p->block + i) * dense->shape.cols + column[b] * p->block + j];
}

static layerops_bsr *create(cf_session *s, const sparse *p, const cf_operand *dense, int side) {
  size_t blocks = (size_t)(p->rows * p->cols);
  int32_t *row_start = cf_memory(s, (size_t)(p->rows + 1) * sizeof *row_start);
  int32_t *column = cf_memory(s, blocks * sizeof *column);
  float *values = cf_memory(s, blocks * (size_t)(p->block * p->block) * sizeof *values);
  layerops_bsr_args args = {.rows = p->rows * p->block,
                            .cols = p->cols * p->block,
                            .block = p->block,
                            .row_start = row_start,
                            .column = column,
                            .values = values,
                            .type = LAYEROPS_F32};
  args.count = fill_pattern(p, row_start, column);
  fill_values(p, dense, row_start, column, values);
  layerops_bsr *w = NULL;
  layerops_status status = layerops_bsr_create(s->ctx[side], &args, &w);
  cf_expect(s, status == LAYEROPS_OK, "bsr_create returned %s: %s", layerops_status_name(status),
            layerops_last_error());
  return w;
}

static void bound(cf_session *s, const sparse *p, const cf_operand *x, const cf_operand *dense,
                  const cf_operand *bias, const cf_operand *residual, cf_operand *y,
                  cf_operand *preact) {
  double *sums = cf_magnitudes(s, x, 0, dense, 1), *bounds = cf_bound(s, y);
  double steps = cf_steps(LAYEROPS_F32, p->cols * p->block) + 4;
  double steepest = cf_lipschitz(p->activation, 0.01);
  double constant = p->activation == LAYEROPS_SIGMOID ? 16 : 0;
  for (int64_t i = 0; i < y->count; i++) {
    double z = fabs(p->alpha) * sums[i] + (bias ? fabs(bias->values[i % y->shape.cols]) : 0);
    bounds[i] = CF_U * ((steepest * (steps + 16) + 2) * z + constant +
                        (residual ? 2 * fabs(residual->values[i]) : 0));
    if (preact) cf_bound(s, preact)[i] = CF_U * steps * z;
  }
  cf_add_store(s, y);
  if (preact) cf_add_store(s, preact);
}

/* The sparse product on the device against the sparse one on the reference; and against the dense
 * layer on the reference, so that a fault which both sparse ones share shows. */
static void run(cf_session *s, const sparse *p, const char *pattern) {
  int64_t n = p->rows * p->block, k = p->cols * p->block;
  cf_operand *x = cf_matrix(s, "x", LAYEROPS_F32, p->m, k, p->fill), *dense = dense_weights(s, p);
  cf_operand *bias = p->bias ? cf_matrix(s, "bias", LAYEROPS_F32, 1, n, p->fill) : NULL;
  cf_operand *y = cf_output(s, "y", LAYEROPS_F32, p->m, n, p->in_place ? p->fill : CF_NAN);
  cf_operand *preact = p->preact ? cf_output(s, "preact", LAYEROPS_F32, p->m, n, CF_NAN) : NULL;
  cf_operand *residual = p->in_place   ? y
                         : p->residual ? cf_matrix(s, "residual", LAYEROPS_F32, p->m, n, p->fill)
                                       : NULL;
  layerops_bsr *w[CF_SIDE_COUNT] = {NULL};
  s->cases++;
  snprintf(s->label, sizeof s->label,
           "m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " block=%" PRId64 " %s %s%s%s%s%s", p->m, n, k,
           p->block, pattern, layerops_activation_name(p->activation), p->bias ? " bias" : "",
           residual ? " residual" : "", p->in_place ? " in place" : "", p->preact ? " preact" : "");
  CF_SIDES(s, side) {
    w[side] = create(s, p, dense, side);
    layerops_bsr_linear_forward_args args = {.x = cf_on(x, side),
                                             .w = w[side],
                                             .bias = cf_on(bias, side),
                                             .residual = cf_on(residual, side),
                                             .preact = cf_on(preact, side),
                                             .y = cf_on(y, side),
                                             .activation = p->activation};
    if (p->alpha != 1) args.alpha = layerops_value(p->alpha);
    CF_CALL(s, side, bsr_linear_forward, &args);
  }
  if (p->fill != CF_INTEGER || p->activation > LAYEROPS_RELU)
    bound(s, p, x, dense, bias, residual, y, preact);
  if (!p->residual && !p->in_place && !p->preact) {
    cf_operand *check = cf_output(s, "y of the dense layer", LAYEROPS_F32, p->m, n, CF_ZERO);
    layerops_linear_args args = {.x = cf_on(x, CF_REFERENCE),
                                 .w = cf_on(dense, CF_REFERENCE),
                                 .bias = cf_on(bias, CF_REFERENCE),
                                 .y = cf_on(check, CF_REFERENCE),
                                 .activation = p->activation};
    if (p->alpha != 1) args.alpha = layerops_value(p->alpha);
    cf_after(s, CF_REFERENCE, layerops_linear_forward(s->ctx[CF_REFERENCE], &args));
    double *sparse_y = cf_read(s, y, CF_REFERENCE), *dense_y = cf_read(s, check, CF_REFERENCE);
    for (int64_t i = 0; i < y->count; i++)
      cf_expect(s, fabs(sparse_y[i] - dense_y[i]) <= 1e-6 * fabs(dense_y[i]) + 1e-7,
                "the reference: y[%" PRId64 "] is %g, the dense layer has %g", i, sparse_y[i],
                dense_y[i]);
    check->made = false; /* nothing on the device's side to compare */
  }
  cf_end(s);
  for (int side = 0; side < CF_SIDE_COUNT; side++) layerops_bsr_destroy(w[side]);
}

static const int64_t blocks[] = {16, 32};
enum {
  NONE,
  ALL,
  EMPTY_FIRST,
  EMPTY_MIDDLE,
  EMPTY_LAST,
  DIAGONAL,
  LAST_COLUMN,
  ONE_FULL_ROW,
  PATTERNS
};
static const char *const pattern_names[] = {"no blocks",        "all blocks",     "first row empty",
                                            "middle row empty", "last row empty", "diagonal",
                                            "last column",      "one full row"};

static bool in_pattern(int pattern, const sparse *p, int64_t r, int64_t c) {
  switch (pattern) {
  case ALL:
    return true;
  case EMPTY_FIRST:
    return r != 0;
  case EMPTY_MIDDLE:
    return r != p->rows / 2;
  case EMPTY_LAST:
    return r != p->rows - 1;
  case DIAGONAL:
    return r == c;
  case LAST_COLUMN:
    return c == p->cols - 1;
  case ONE_FULL_ROW:
    return r == p->rows / 2;
  default:
    return false;
  }
}

static void patterns(cf_session *s, layerops_type type) {
  (void)type;
  static const int64_t shapes[][3] = {{1, 1, 1}, {7, 3, 5}, {33, 5, 3}, {65, 4, 4}, {130, 3, 7}};
  for (int64_t b = 0; b < CF_COUNT(blocks); b++)
    for (int64_t i = 0; i < CF_COUNT(shapes); i++)
      for (int pattern = 0; pattern < PATTERNS; pattern++) {
        s->layout = layouts[(i + pattern) % CF_COUNT(layouts)];
        sparse p = of(s, shapes[i][0], shapes[i][1], shapes[i][2], blocks[b]);
        for (int64_t n = 0; n < p.rows * p.cols; n++)
          p.kept[n] = in_pattern(pattern, &p, n / p.cols, n % p.cols);
        p.activation = pattern % 2 ? LAYEROPS_RELU : LAYEROPS_IDENTITY;
        p.bias = pattern % 3 != 2;
        run(s, &p, pattern_names[pattern]);
      }
}

/* Every number of rows around the tiles of a product. */
static void batch_sizes(cf_session *s, layerops_type type) {
  (void)type;
  static const int64_t rows[] = {1,  2,  3,  5,  7,  8,  9,   15,  16, 17,
                                 31, 32, 33, 63, 64, 65, 127, 128, 129};
  for (int64_t b = 0; b < CF_COUNT(blocks); b++)
    for (int64_t i = 0; i < CF_COUNT(rows); i++) {
      sparse p = of(s, rows[i], 3, 3, blocks[b]);
      keep(s, &p, 60);
      run(s, &p, "60% kept");
    }
}

static void activations(cf_session *s, layerops_type type) {
  (void)type;
  for (layerops_activation a = 0; a < LAYEROPS_ACTIVATION_COUNT; a++)
    for (int set = 0; set < 8; set++) {
      sparse p = of(s, 21, 4, 5, blocks[set % 2]);
      s->layout = layouts[set % CF_COUNT(layouts)];
      keep(s, &p, 40);
      p.activation = a;
      p.fill = CF_REAL;
      p.bias = set & 1;
      p.preact = set & 2;
      p.residual = set & 4;
      p.alpha = set == 3 ? -0.5 : 1;
      run(s, &p, "40% kept");
      p.residual = false;
      p.in_place = true;
      p.kept = cf_memory(s, (size_t)(p.rows * p.cols));
      keep(s, &p, 40);
      run(s, &p, "40% kept");
    }
}

/* Random masks of any density: the pattern in the object is the mask, and the product the dense
 * one. */
static void random_masks(cf_session *s, layerops_type type) {
  (void)type;
  for (int i = 0; i < (s->options->full ? 300 : 40); i++) {
    int64_t rows = 1 + cf_below(s, 8), cols = 1 + cf_below(s, 8), m = 1 + cf_below(s, 70);
    sparse p = of(s, m, rows, cols, blocks[i % 2]);
    s->layout = (cf_layout){cf_below(s, 5), cf_below(s, 5), 0};
    keep(s, &p, (int)cf_below(s, 101));
    run(s, &p, "random");
  }
}

static void empty_sizes(cf_session *s, layerops_type type) {
  (void)type;
  static const int64_t shapes[][3] = {{0, 3, 3}, {5, 0, 3}, {5, 3, 0}, {0, 0, 0}};
  for (int64_t i = 0; i < CF_COUNT(shapes); i++) {
    sparse p = of(s, shapes[i][0], shapes[i][1], shapes[i][2], 16);
    run(s, &p, "empty");
  }
}

const cf_check cf_bsr_checks[] = {
    {LAYEROPS_OP_bsr_linear_forward, "patterns", CF_F32, CF_EVERY, patterns},
    {LAYEROPS_OP_bsr_linear_forward, "sizes of the batch", CF_F32, CF_MEMORY, batch_sizes},
    {LAYEROPS_OP_bsr_linear_forward, "activations and options", CF_F32, 0, activations},
    {LAYEROPS_OP_bsr_linear_forward, "random masks", CF_F32, 0, random_masks},
    {LAYEROPS_OP_bsr_linear_forward, "empty sizes", CF_F32, 0, empty_sizes},
    {0},
};

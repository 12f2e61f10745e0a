/* bsr_linear_forward. */
#include <config.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "t/conformance/sparse.h"

static const cf_layout layouts[] = {{0, 0, 0}, {1, 3, 0}, {3, 0, 0}, {4, 4, 0}, {8, -8, 0}};

typedef struct layer {
  cf_sparse w;
  int64_t m;
  layerops_type out, beside; /* of y; of bias, residual and preact */
  layerops_activation activation;
  double alpha;
  bool bias, residual, in_place, preact, gated, planted;
} layer;

static layer of(cf_session *s, layerops_type type, int64_t m, int64_t n, int64_t k, int64_t height,
                int64_t width) {
  return (layer){.w = cf_sparse_of(s, type, n, k, height, width),
                 .m = m,
                 .out = type,
                 .beside = type,
                 .alpha = 1,
                 .bias = true};
}

/* Square blocks that divide n and k. */
static layer of_blocks(cf_session *s, layerops_type type, int64_t m, int64_t rows, int64_t cols,
                       int64_t block) {
  return of(s, type, m, rows * block, cols * block, block, block);
}

typedef struct operands {
  cf_operand *x, *bias, *residual, *preact, *y;
} operands;

static void make(cf_session *s, layer *l, operands *o) {
  const cf_sparse *w = &l->w;
  cf_sparse_fill(s, &l->w, l->gated);
  *o = (operands){.x = cf_samples(s, w, "x", w->type, l->m, w->k, w->fill)};
  o->y = cf_samples(s, w, "y", l->out, l->m, w->n, l->in_place ? w->fill : CF_NAN);
  o->y->is_output = true;
  if (l->bias) o->bias = cf_matrix(s, "bias", l->beside, 1, w->n, w->fill);
  if (l->residual) o->residual = cf_samples(s, w, "residual", l->beside, l->m, w->n, w->fill);
  if (l->in_place) o->residual = o->y;
  if (l->preact) {
    o->preact = cf_samples(s, w, "preact", l->beside, l->m, w->n, CF_NAN);
    o->preact->is_output = true;
  }
  if (l->planted) cf_plant(s, o->x);
}

static layerops_bsr_linear_forward_args args_of(const layer *l, const operands *o, int side) {
  layerops_bsr_linear_forward_args args = {.x = cf_on(o->x, side),
                                           .w = l->w.w[side],
                                           .bias = cf_on(o->bias, side),
                                           .residual = cf_on(o->residual, side),
                                           .preact = cf_on(o->preact, side),
                                           .y = cf_on(o->y, side),
                                           .activation = l->activation,
                                           .gate = cf_on(l->w.gate, side),
                                           .layout = cf_sparse_layout(&l->w)};
  if (l->alpha != 1) args.alpha = layerops_value(l->alpha);
  return args;
}

/* As in the dense layer; the scale and the gate of a block may be rounded into its values, twice.
 */
static void bound(cf_session *s, const layer *l, const operands *o) {
  const cf_sparse *w = &l->w;
  double *sums = cf_sparse_magnitudes(s, w, o->x, l->m, false);
  double *bounds = cf_bound(s, o->y), *bounds_z = o->preact ? cf_bound(s, o->preact) : NULL;
  double steps = cf_steps(w->type, w->k) + 6, steepest = cf_lipschitz(l->activation, 0.01);
  double constant = l->activation == LAYEROPS_SIGMOID ? 16 : 0;
  for (int64_t i = 0; i < l->m; i++)
    for (int64_t j = 0; j < w->n; j++) {
      const int64_t at = cf_sample_at(w, o->y, i, j);
      double z = fabs(l->alpha) * sums[i * w->n + j] + (o->bias ? fabs(o->bias->values[j]) : 0);
      double residual = o->residual ? fabs(o->residual->values[at]) : 0;
      bounds[at] = CF_U * ((steepest * (steps + 16) + 2) * z + constant + 2 * residual);
      if (!isfinite(z)) bounds[at] = CF_U * (16 + 2 * residual);
      if (bounds_z) bounds_z[at] = CF_U * steps * z;
    }
  if (!o->residual) cf_add_short(s, o->y, l->activation);
  cf_add_store(s, o->y);
  if (o->preact) cf_add_store(s, o->preact);
}

/* The bias in f32, and X as rows of samples in f32, for the dense layer. */
static cf_operand *dense_bias(cf_session *s, const layer *l, const operands *o) {
  cf_operand *bias = cf_matrix(s, "bias of the dense layer", LAYEROPS_F32, 1, l->w.n, CF_ZERO);
  for (int64_t j = 0; o->bias && j < l->w.n; j++) cf_set(bias, 0, j, o->bias->values[j]);
  return bias;
}

static cf_operand *dense_x(cf_session *s, const layer *l, const operands *o) {
  cf_operand *x = cf_matrix(s, "x of the dense layer", LAYEROPS_F32, l->m, l->w.k, CF_ZERO);
  for (int64_t i = 0; i < l->m; i++)
    for (int64_t j = 0; j < l->w.k; j++)
      cf_set(x, i, j, o->x->values[cf_sample_at(&l->w, o->x, i, j)]);
  return x;
}

/* The reference against the dense layer on the expanded matrix: both sum in double, in the same
 * order but for zeros, and round once to f32, so that they are neighbours at most. */
static void check_reference(cf_session *s, const layer *l, const operands *o) {
  cf_operand *x = dense_x(s, l, o), *bias = dense_bias(s, l, o);
  cf_operand *y = cf_output(s, "y of the dense layer", LAYEROPS_F32, l->m, l->w.n, CF_ZERO);
  layerops_linear_args args = {.x = cf_on(x, CF_REFERENCE),
                               .w = cf_on(l->w.effective, CF_REFERENCE),
                               .bias = cf_on(bias, CF_REFERENCE),
                               .y = cf_on(y, CF_REFERENCE),
                               .activation = l->activation};
  if (l->alpha != 1) args.alpha = layerops_value(l->alpha);
  cf_after(s, CF_REFERENCE, layerops_linear_forward(s->ctx[CF_REFERENCE], &args));
  double *sparse = cf_read(s, o->y, CF_REFERENCE), *dense = cf_read(s, y, CF_REFERENCE);
  for (int64_t i = 0; i < l->m; i++)
    for (int64_t j = 0; j < l->w.n; j++) {
      const double got = sparse[cf_sample_at(&l->w, o->y, i, j)], wanted = dense[i * l->w.n + j];
      cf_expect(s, fabs(got - wanted) <= 0x1p-22 * fabs(wanted) + 0x1p-40,
                "the reference: y[%" PRId64 ",%" PRId64 "] is %g, the dense layer has %g", i, j,
                got, wanted);
    }
  x->made = bias->made = y->made = l->w.effective->made =
      false; /* nothing on the device's side to compare */
}

static void run(cf_session *s, layer *l, const char *pattern) {
  operands o;
  const cf_sparse *w = &l->w;
  s->cases++;
  make(s, l, &o);
  snprintf(s->label, sizeof s->label,
           "m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " block=%" PRId64 "x%" PRId64
           " %s %s%s%s%s%s%s%s types=%s,%s alpha=%g offset=%" PRId64 " pad=%" PRId64,
           l->m, w->n, w->k, w->height, w->width, pattern, layerops_activation_name(l->activation),
           l->bias ? " bias" : "", o.residual ? " residual" : "", l->in_place ? " in place" : "",
           l->preact ? " preact" : "", l->gated ? " gated" : "",
           w->by_features ? " features by row" : "", layerops_type_name(l->out),
           layerops_type_name(l->beside), l->alpha, s->layout.offset, s->layout.pad);
  CF_SIDES(s, side) {
    cf_sparse_on(s, &l->w, side);
    layerops_bsr_linear_forward_args args = args_of(l, &o, side);
    CF_CALL(s, side, bsr_linear_forward, &args);
  }
  if (w->fill != CF_INTEGER || l->activation > LAYEROPS_RELU || l->planted) bound(s, l, &o);
  if (!o.residual && !l->planted) check_reference(s, l, &o);
  cf_end(s);
  cf_sparse_free(&l->w);
}

/* ---- Square blocks of 16 and 32, whole ---- */

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

static bool in_pattern(int pattern, const cf_sparse *w, int64_t r, int64_t c) {
  switch (pattern) {
  case ALL:
    return true;
  case EMPTY_FIRST:
    return r != 0;
  case EMPTY_MIDDLE:
    return r != w->block_rows / 2;
  case EMPTY_LAST:
    return r != w->block_rows - 1;
  case DIAGONAL:
    return r == c;
  case LAST_COLUMN:
    return c == w->block_cols - 1;
  case ONE_FULL_ROW:
    return r == w->block_rows / 2;
  default:
    return false;
  }
}

static void patterns(cf_session *s, layerops_type type) {
  static const int64_t shapes[][3] = {{1, 1, 1}, {7, 3, 5}, {33, 5, 3}, {65, 4, 4}, {130, 3, 7}};
  for (int64_t b = 0; b < CF_COUNT(blocks); b++)
    for (int64_t i = 0; i < CF_COUNT(shapes); i++)
      for (int pattern = 0; pattern < PATTERNS; pattern++) {
        s->layout = layouts[(i + pattern) % CF_COUNT(layouts)];
        layer l = of_blocks(s, type, shapes[i][0], shapes[i][1], shapes[i][2], blocks[b]);
        for (int64_t n = 0; n < l.w.block_rows * l.w.block_cols; n++)
          l.w.kept[n] = in_pattern(pattern, &l.w, n / l.w.block_cols, n % l.w.block_cols);
        l.activation = pattern % 2 ? LAYEROPS_RELU : LAYEROPS_IDENTITY;
        l.bias = pattern % 3 != 2;
        run(s, &l, pattern_names[pattern]);
      }
}

/* Every number of rows around the tiles of a product. */
static const int64_t batches[] = {1,  2,  3,  5,  7,  8,  9,   15,  16, 17,
                                  31, 32, 33, 63, 64, 65, 127, 128, 129};

static void batch_sizes(cf_session *s, layerops_type type) {
  for (int64_t b = 0; b < CF_COUNT(blocks); b++)
    for (int64_t i = 0; i < CF_COUNT(batches); i++) {
      layer l = of_blocks(s, type, batches[i], 3, 3, blocks[b]);
      cf_keep(s, &l.w, 60);
      run(s, &l, "60% kept");
    }
}

static void activations(cf_session *s, layerops_type type) {
  for (layerops_activation a = 0; a < LAYEROPS_ACTIVATION_COUNT; a++)
    for (int set = 0; set < 16; set++) {
      layer l = of_blocks(s, type, 21, 4, 5, blocks[set % 2]);
      s->layout = layouts[set % CF_COUNT(layouts)];
      cf_keep(s, &l.w, 40);
      l.activation = a;
      l.w.fill = CF_REAL;
      l.bias = set & 1;
      l.preact = set & 2;
      l.residual = set & 4 && !(set & 8);
      l.in_place = set & 8;
      l.alpha = set == 3 ? -0.5 : 1;
      run(s, &l, "40% kept");
    }
}

/* Random masks of any density: the pattern in the object is the mask, and the product the dense
 * one. */
static void random_masks(cf_session *s, layerops_type type) {
  for (int i = 0; i < (s->options->full ? 300 : 40); i++) {
    int64_t rows = 1 + cf_below(s, 8), cols = 1 + cf_below(s, 8), m = 1 + cf_below(s, 70);
    layer l = of_blocks(s, type, m, rows, cols, blocks[i % 2]);
    s->layout = (cf_layout){cf_below(s, 5), cf_below(s, 5), 0};
    cf_keep(s, &l.w, (int)cf_below(s, 101));
    run(s, &l, "random");
  }
}

static void empty_sizes(cf_session *s, layerops_type type) {
  static const int64_t shapes[][3] = {{0, 3, 3}, {5, 0, 3}, {5, 3, 0}, {0, 0, 0}};
  for (int64_t i = 0; i < CF_COUNT(shapes); i++) {
    layer l = of_blocks(s, type, shapes[i][0], shapes[i][1], shapes[i][2], 16);
    run(s, &l, "empty");
  }
}

/* ---- What a device has ---- */

/* A small call of the kind: where it is UNSUPPORTED a check is skipped. */
static layerops_status try_layer(cf_session *s, layer *l) {
  operands o;
  cf_keep(s, &l->w, 100);
  make(s, l, &o);
  layerops_status status = cf_sparse_make(s, &l->w, CF_DEVICE);
  if (status) return status;
  layerops_bsr_linear_forward_args args = args_of(l, &o, CF_DEVICE);
  status = layerops_bsr_linear_forward(s->ctx[CF_DEVICE], &args);
  cf_sparse_free(&l->w);
  return status;
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
  layer l = of(s, type, 1, 32, 32, 32, 32);
  l.w.by_features = true;
  return try_layer(s, &l);
}
static layerops_status has_gates(cf_session *s, layerops_type type) {
  layer l = of(s, type, 1, 32, 32, 32, 32);
  l.gated = true;
  return try_layer(s, &l);
}
static layerops_status has_all(cf_session *s, layerops_type type) {
  layer l = of(s, type, 1, 9, 7, 8, 16);
  l.gated = l.w.by_features = true;
  l.out = LAYEROPS_F32;
  return try_layer(s, &l);
}

/* ---- Any blocks ---- */

static const int64_t sizes[] = {8, 16, 32, 64, 128};
static const int64_t fours[][2] = {{4, 4}, {4, 8}, {8, 4}, {4, 32}, {32, 4}, {128, 4}};

static void block_sizes(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_blocks(s, type))) return;
  for (int64_t h = 0; h < CF_COUNT(sizes); h++)
    for (int64_t w = 0; w < CF_COUNT(sizes); w++)
      for (int64_t i = 0; i < 3; i++) {
        static const int64_t rows[] = {1, 11, 70};
        layer l = of(s, type, rows[i], 3 * sizes[h], 2 * sizes[w], sizes[h], sizes[w]);
        s->layout = layouts[(h + w + i) % CF_COUNT(layouts)];
        cf_keep(s, &l.w, 60);
        run(s, &l, "60% kept");
      }
}

static void blocks_of_4(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_blocks_of_4(s, type))) return;
  for (int64_t b = 0; b < CF_COUNT(fours); b++)
    for (int64_t i = 0; i < CF_COUNT(batches); i += 2) {
      const int64_t h = fours[b][0], w = fours[b][1];
      layer l = of(s, type, batches[i], 5 * h - 1, 4 * w - 3, h, w);
      l.w.by_features = i % 4;
      cf_keep(s, &l.w, 60);
      run(s, &l, "60% kept");
    }
}

/* n and k of 1, of one more and less than whole blocks, by both layouts. */
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
      l.preact = e % 2;
      cf_keep(s, &l.w, 70);
      run(s, &l, "ragged");
    }
}

static void ragged_edges(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_ragged(s, type))) return;
  ragged(s, type, false);
}

static void features_by_row(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_features_by_row(s, type))) return;
  ragged(s, type, true);
  for (int64_t i = 0; i < CF_COUNT(batches); i++) {
    layer l = of_blocks(s, type, batches[i], 3, 3, 32);
    s->layout = layouts[i % CF_COUNT(layouts)];
    l.w.by_features = true;
    l.bias = i % 2;
    cf_keep(s, &l.w, 60);
    run(s, &l, "60% kept");
  }
}

static void gates(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_gates(s, type))) return;
  for (int64_t b = 0; b < CF_COUNT(sizes); b++)
    for (int64_t i = 0; i < CF_COUNT(batches); i += 3) {
      layer l = of_blocks(s, type, batches[i], b < 3 ? 4 : 2, b < 3 ? 3 : 2, sizes[b]);
      l.gated = true;
      cf_keep(s, &l.w, 80);
      run(s, &l, "80% kept");
    }
}

/* All at once: any blocks, sizes, types and options. */
static void random_layers(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_all(s, type))) return;
  for (int i = 0; i < (s->options->full ? 400 : 60); i++) {
    const int64_t h = sizes[cf_below(s, 4)], w = sizes[cf_below(s, 4)];
    layer l = of(s, type, 1 + cf_below(s, 100), 1 + cf_below(s, 300), 1 + cf_below(s, 300), h, w);
    s->layout = (cf_layout){cf_below(s, 9), cf_below(s, 9), 0};
    l.w.fill = CF_REAL;
    l.w.by_features = cf_below(s, 2);
    l.gated = cf_below(s, 2);
    l.bias = cf_below(s, 2);
    l.preact = cf_below(s, 2);
    l.residual = cf_below(s, 2);
    l.in_place = !l.residual && cf_below(s, 2);
    l.activation = (layerops_activation)cf_below(s, LAYEROPS_ACTIVATION_COUNT);
    l.alpha = cf_below(s, 3) ? 1 : -0.5;
    l.out = cf_below(s, 2) ? type : LAYEROPS_F32;
    l.beside = cf_below(s, 2) ? type : LAYEROPS_F32;
    cf_keep(s, &l.w, (int)cf_below(s, 101));
    run(s, &l, "random");
  }
}

/* What no block meets, or only one whose gate is 0, does not show. */
static void nan_and_infinity(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_all(s, type))) return;
  for (int i = 0; i < 24; i++) {
    layer l = of(s, type, batches[i % CF_COUNT(batches)], 67, 90, sizes[i % 4], sizes[i / 4 % 4]);
    l.w.by_features = i % 2;
    l.gated = i % 3;
    l.planted = true;
    l.activation = (layerops_activation)(i % LAYEROPS_ACTIVATION_COUNT);
    cf_keep(s, &l.w, 50);
    run(s, &l, "50% kept");
  }
}

/* One row holds most blocks, most rows none: threads must find their parts. */
static void hub_rows(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_blocks(s, type))) return;
  for (int64_t b = 0; b < 3; b++)
    for (int64_t i = 0; i < 3; i++) {
      static const int64_t rows[] = {1, 20, 130};
      layer l = of_blocks(s, type, rows[i], 40, 60, sizes[b]);
      for (int64_t n = 0; n < 40 * 60; n++) l.w.kept[n] = n / 60 == 17 || n == 2399;
      run(s, &l, "a hub");
    }
}

/* More than 65536 blocks on either axis. */
static void long_axes(cf_session *s, layerops_type type) {
  if (!cf_has(s, has_blocks(s, type))) return;
  for (int turn = 0; turn < 2; turn++) {
    const int64_t many = 65600 * 8;
    layer l = of(s, type, 2, turn ? many : 8, turn ? 8 : many, 8, 8);
    for (int64_t n = 0; n < 65600; n++) l.w.kept[n] = n % 129 == 0 || n > 65590;
    run(s, &l, "long");
  }
}

#define CHECK(name, types, variants, run)                                                          \
  { LAYEROPS_OP_bsr_linear_forward, name, types, variants, run }
#define I8 CF_WITH(CF_BIT(LAYEROPS_I8)) /* of W */

const cf_check cf_bsr_checks[] = {
    CHECK("patterns", CF_F32, CF_EVERY, patterns),
    CHECK("patterns", CF_HALVES, 0, patterns),
    CHECK("sizes of the batch", CF_FLOATS, CF_MEMORY, batch_sizes),
    CHECK("activations and options", CF_FLOATS, 0, activations),
    CHECK("random masks", CF_F32, 0, random_masks),
    CHECK("empty sizes", CF_FLOATS, 0, empty_sizes),
    CHECK("sizes of blocks", CF_F32, CF_EVERY, block_sizes),
    CHECK("sizes of blocks", CF_HALVES, CF_BIT(CF_HOST), block_sizes),
    CHECK("sizes of blocks", CF_FLOATS | I8, 0, block_sizes),
    CHECK("blocks of 4", CF_FLOATS, CF_MEMORY, blocks_of_4),
    CHECK("ragged edges", CF_FLOATS, CF_MEMORY, ragged_edges),
    CHECK("ragged edges", CF_FLOATS | I8, CF_BIT(CF_REPLAY), ragged_edges),
    CHECK("features by row", CF_FLOATS, CF_MEMORY, features_by_row),
    CHECK("gates", CF_FLOATS, CF_BIT(CF_REPLAY), gates),
    CHECK("random layers", CF_FLOATS, CF_BIT(CF_TWICE), random_layers),
    CHECK("random layers", CF_FLOATS | I8, 0, random_layers),
    CHECK("NaN and infinity", CF_FLOATS, 0, nan_and_infinity),
    CHECK("hub rows", CF_FLOATS, CF_BIT(CF_TWICE), hub_rows),
    CHECK("long axes", CF_F32, 0, long_axes),
    {0},
};

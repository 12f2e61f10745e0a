#include <config.h>

#include <inttypes.h>
#include <math.h>

#include "t/conformance/session.h"

static const layerops_type floats[] = {LAYEROPS_F32, LAYEROPS_F16, LAYEROPS_BF16};
static const cf_layout layouts[] = {{0, 0, 0}, {1, 3, 0}, {3, 0, 0}, {4, 4, 0}, {8, -8, 0}};

typedef struct layer {
  layerops_type type, bias_type, residual_type, preact_type, out;
  int64_t m, n, k;
  layerops_activation activation;
  double slope, alpha;
  bool bias, residual, preact, in_place, planted, values_set;
  cf_fill fill;
} layer;

static layer of(layerops_type type, int64_t m, int64_t n, int64_t k) {
  const layerops_type wide = cf_wide(type);
  return (layer){.type = type,
                 .bias_type = wide,
                 .residual_type = wide,
                 .preact_type = wide,
                 .out = wide,
                 .m = m,
                 .n = n,
                 .k = k,
                 .slope = 0.01,
                 .alpha = 1,
                 .fill = CF_REAL};
}

typedef struct operands {
  cf_operand *x, *w, *bias, *residual, *preact, *y;
} operands;

static cf_operand *weights(cf_session *s, layerops_type type, int64_t n, int64_t k, cf_fill fill) {
  if (s->second == LAYEROPS_I8 && fill == CF_REAL) fill = CF_RANGE;
  return cf_matrix(s, "w", s->second ? s->second : type, n, k, fill);
}

static void make(cf_session *s, const layer *l, operands *o) {
  cf_fill small = l->fill == CF_INTEGER ? CF_INTEGER : CF_REAL;
  o->x = cf_matrix(s, "x", l->type, l->m, l->k, l->fill);
  o->w = weights(s, l->type, l->n, l->k, l->fill);
  o->bias = l->bias ? cf_matrix(s, "bias", l->bias_type, 1, l->n, small) : NULL;
  o->preact = l->preact ? cf_output(s, "preact", l->preact_type, l->m, l->n, CF_NAN) : NULL;
  o->y = cf_output(s, "y", l->out, l->m, l->n, l->in_place ? small : CF_NAN);
  o->residual = l->in_place   ? o->y
                : l->residual ? cf_matrix(s, "residual", l->residual_type, l->m, l->n, small)
                              : NULL;
  if (l->planted) {
    cf_plant(s, o->x);
    cf_plant(s, o->w);
  }
}

/* z = alpha acc + bias: c(k), and one rounding each for alpha, its product and the sum. Through act
 * these grow by at most its steepest slope; act itself is off by 16 u of |z| (or of 1, where it is
 * bounded), and the residual is added with one more rounding. */
static void bound(cf_session *s, const layer *l, operands *o) {
  double *sums = cf_magnitudes(s, o->x, 0, o->w, 1), *bounds = cf_bound(s, o->y);
  double *kept = cf_kept(s, o->x, 0, o->w, 1, false);
  double steepest = cf_lipschitz(l->activation, l->slope), steps = cf_steps(l->type, l->k) + 4;
  double constant = l->activation == LAYEROPS_SIGMOID ? 16 : 0;
  for (int64_t i = 0; i < o->y->count; i++) {
    double z =
        (l->alpha ? fabs(l->alpha) * sums[i] : 0) + (o->bias ? fabs(o->bias->values[i % l->n]) : 0);
    double residual = o->residual ? fabs(o->residual->values[i]) : 0;
    bounds[i] = CF_U * ((steepest * (steps + 16) + 2) * z + constant + 2 * residual);
    const double lost = kept && l->alpha ? fabs(l->alpha) * kept[i] : 0;
    bounds[i] += steepest * lost;
    if (!isfinite(z)) bounds[i] = CF_U * (16 + 2 * residual); /* what is finite then is within 1 */
    if (o->preact) cf_bound(s, o->preact)[i] = CF_U * steps * z + lost;
  }
  if (!o->residual) cf_add_short(s, o->y, l->activation);
  cf_add_store(s, o->y);
  if (o->preact) cf_add_store(s, o->preact);
}

static bool exact(const layer *l) {
  return l->fill == CF_INTEGER && l->activation <= LAYEROPS_LEAKY_RELU && !l->planted;
}

static void run(cf_session *s, const layer *l) {
  operands o;
  cf_case(s,
          "m=%" PRId64 " n=%" PRId64 " k=%" PRId64
          " %s%s%s%s%s types=%s,%s,%s,%s alpha=%g offset=%" PRId64 " pad=%" PRId64,
          l->m, l->n, l->k, layerops_activation_name(l->activation), l->bias ? " bias" : "",
          l->preact ? " preact" : "", l->residual ? " residual" : "",
          l->in_place ? " residual in place" : "", layerops_type_name(l->bias_type),
          layerops_type_name(l->residual_type), layerops_type_name(l->preact_type),
          layerops_type_name(l->out), l->alpha, s->layout.offset, s->layout.pad);
  make(s, l, &o);
  CF_SIDES(s, side) {
    layerops_linear_forward_args args = {.x = cf_on(o.x, side),
                                         .w = cf_on(o.w, side),
                                         .bias = cf_on(o.bias, side),
                                         .residual = cf_on(o.residual, side),
                                         .preact = cf_on(o.preact, side),
                                         .y = cf_on(o.y, side),
                                         .activation = l->activation};
    if (l->values_set) {
      args.slope = layerops_value(l->slope);
      args.alpha = layerops_value(l->alpha);
    }
    CF_CALL(s, side, linear_forward, &args);
  }
  if (!exact(l)) bound(s, l, &o);
  cf_end(s);
}

/* Integers and powers of two: exact, through bias, leaky relu and residual. */
static void tile_edges(cf_session *s, layerops_type type) {
  static const int64_t tiles[] = {2, 8, 16, 32, 64, 128};
  int turn = 0;
  int64_t count = cf_in_full(s) ? CF_COUNT(tiles) : CF_COUNT(tiles) - 1;
  for (int64_t t = 0; t < count; t++)
    for (int64_t m = -1; m <= 1; m++)
      for (int64_t n = -1; n <= 1; n++)
        for (int64_t k = -1; k <= 1; k++) {
          if (!s->options->full && tiles[t] > 64 && turn % 3) continue;
          layer l = of(type, tiles[t] + m, tiles[t] + n, tiles[t] + k);
          l.fill = CF_INTEGER;
          l.bias = l.preact = true;
          l.residual = turn % 2;
          l.activation = turn % 3 ? turn % 3 : LAYEROPS_LEAKY_RELU;
          l.values_set = true;
          l.slope = 0.5;
          if (turn++ % 2) l.out = l.preact_type = LAYEROPS_F32;
          run(s, &l);
        }
}

static void activations(cf_session *s, layerops_type type) {
  static const int64_t shapes[][3] = {
      {1, 1, 1}, {5, 7, 11}, {33, 65, 31}, {64, 10, 128}, {2, 130, 40}};
  for (layerops_activation a = 0; a < LAYEROPS_ACTIVATION_COUNT; a++)
    for (int64_t i = 0; i < CF_COUNT(shapes); i++) {
      layer l = of(type, shapes[i][0], shapes[i][1], shapes[i][2]);
      s->layout = layouts[(a + i) % CF_COUNT(layouts)];
      l.activation = a;
      l.bias = l.preact = true;
      run(s, &l);
      l.residual = true;
      l.out = LAYEROPS_F32;
      run(s, &l);
    }
}

/* Every set of optional operands. */
static void options(cf_session *s, layerops_type type) {
  for (int set = 0; set < 16; set++)
    for (int activation = 0; activation < 2; activation++) {
      layer l = of(type, 19, 37, 23);
      l.bias = set & 1;
      l.preact = set & 2;
      l.residual = set & 4;
      l.in_place = set & 8;
      l.activation = activation ? LAYEROPS_GELU : LAYEROPS_RELU;
      if (l.residual && l.in_place) continue;
      s->layout = layouts[set % CF_COUNT(layouts)];
      run(s, &l);
    }
}

static void types(cf_session *s, layerops_type type) {
  for (int set = 0; set < 16; set++) {
    layer l = of(type, 9, 35, 21);
    l.bias = l.preact = l.residual = true;
    l.activation = LAYEROPS_SILU;
    if (set & 1) l.bias_type = LAYEROPS_F32;
    if (set & 2) l.residual_type = LAYEROPS_F32;
    if (set & 4) l.preact_type = LAYEROPS_F32;
    if (set & 8) l.out = LAYEROPS_F32;
    run(s, &l);
  }
}

static void slopes_and_alpha(cf_session *s, layerops_type type) {
  static const double values[][2] = {{0, 1}, {-0.5, 1}, {2, 1}, {0.25, 0.5}, {0.25, -3}, {0.01, 0}};
  for (int64_t i = 0; i < CF_COUNT(values); i++) {
    layer l = of(type, 21, 33, 17);
    l.activation = LAYEROPS_LEAKY_RELU;
    l.bias = l.preact = l.values_set = true;
    l.slope = values[i][0];
    l.alpha = values[i][1];
    if (l.alpha == 0) l.fill = CF_NAN; /* X and W are not read */
    run(s, &l);
  }
}

static void empty_sizes(cf_session *s, layerops_type type) {
  static const int64_t shapes[][3] = {{0, 5, 5}, {5, 0, 5}, {5, 5, 0}, {16, 16, 0}, {0, 0, 0}};
  for (layerops_activation a = 0; a < LAYEROPS_ACTIVATION_COUNT; a++)
    for (int64_t i = 0; i < CF_COUNT(shapes); i++) {
      layer l = of(type, shapes[i][0], shapes[i][1], shapes[i][2]);
      l.activation = a;
      l.bias = l.preact = i % 2 == 0;
      l.residual = i % 3 == 0;
      run(s, &l);
    }
}

static void nan_and_infinity(cf_session *s, layerops_type type) {
  for (layerops_activation a = 0; a < LAYEROPS_ACTIVATION_COUNT; a++) {
    layer l = of(type, 31, 37, 41);
    l.activation = a;
    l.bias = l.preact = l.planted = true;
    run(s, &l);
    l.residual = true;
    l.out = LAYEROPS_F32;
    run(s, &l);
  }
}

/* Elements around the smallest normal number, half of them subnormal. */
static void subnormals(cf_session *s, layerops_type type) {
  for (int64_t k = 1; k < 200; k += 33) {
    operands o;
    layer l = of(type, 15, 34, k);
    l.out = LAYEROPS_F32;
    cf_case(s, "elements about 2^-126, k=%" PRId64, k);
    make(s, &l, &o);
    for (int64_t i = 0; i < o.x->count; i++) o.x->values[i] *= 0x1p-125;
    CF_SIDES(s, side) {
      layerops_linear_forward_args args = {
          .x = cf_on(o.x, side), .w = cf_on(o.w, side), .y = cf_on(o.y, side)};
      CF_CALL(s, side, linear_forward, &args);
    }
    double *sums = cf_magnitudes(s, o.x, 0, o.w, 1), *bounds = cf_bound(s, o.y);
    for (int64_t i = 0; i < o.y->count; i++)
      bounds[i] = CF_U * cf_steps(type, k) * sums[i] + cf_flushed(type, k, 0x1p-125, 1);
    cf_add_store(s, o.y);
    cf_end(s);
  }
}

/* relu(NaN) is NaN in the epilogue too, at the first, a middle and the last column. */
static void relu_of_nan(cf_session *s, layerops_type type) {
  for (layerops_activation a = LAYEROPS_RELU; a < LAYEROPS_ACTIVATION_COUNT; a++)
    for (int64_t n = 1; n < 70; n += 17) {
      operands o;
      layer l = of(type, 3, n, 8);
      l.bias = true;
      l.activation = a;
      cf_case(s, "NaN in the bias, %s, n=%" PRId64, layerops_activation_name(a), n);
      make(s, &l, &o);
      cf_set(o.bias, 0, 0, NAN);
      cf_set(o.bias, 0, n / 2, NAN);
      cf_set(o.bias, 0, n - 1, NAN);
      CF_SIDES(s, side) {
        layerops_linear_forward_args args = {.x = cf_on(o.x, side),
                                             .w = cf_on(o.w, side),
                                             .bias = cf_on(o.bias, side),
                                             .y = cf_on(o.y, side),
                                             .activation = a};
        CF_CALL(s, side, linear_forward, &args);
      }
      bound(s, &l, &o);
      cf_end(s);
    }
}

static void random_shapes(cf_session *s, layerops_type type) {
  for (int i = 0; i < (s->options->full ? 150 : 25); i++) {
    layer l = of(type, 1 + cf_below(s, 150), 1 + cf_below(s, 150), 1 + cf_below(s, 150));
    s->layout = (cf_layout){cf_below(s, 9), cf_below(s, 9), 0};
    l.activation = (layerops_activation)cf_below(s, LAYEROPS_ACTIVATION_COUNT);
    l.bias = cf_below(s, 2);
    l.preact = cf_below(s, 2);
    l.residual = cf_below(s, 2);
    l.bias_type = cf_below(s, 2) ? cf_wide(type) : LAYEROPS_F32;
    l.out = cf_below(s, 2) ? cf_wide(type) : LAYEROPS_F32;
    run(s, &l);
  }
}

/* The sizes of the network: a skinny and a wide layer. */
static void network_shapes(cf_session *s, layerops_type type) {
  static const int64_t shapes[][3] = {{64, 128, 784}, {64, 10, 128}, {96, 10, 784}, {1, 128, 784}};
  for (int64_t i = 0; i < CF_COUNT(shapes); i++) {
    layer l = of(type, shapes[i][0], shapes[i][1], shapes[i][2]);
    l.bias = true;
    l.activation = i % 2 ? LAYEROPS_IDENTITY : LAYEROPS_RELU;
    l.bias_type = l.out = floats[0];
    run(s, &l);
  }
}

/* With the flag, rows have the bits that they have in the whole batch, wherever they stand in
 * theirs. */
static void parts_of_batch(cf_session *s, layerops_type type, int64_t m, int64_t width, int64_t k,
                           uint32_t flags) {
  const int64_t parts[][2] = {{0, m},  {0, 1},     {0, 7},      {3, 1},         {m - 1, 1}, {16, 2},
                              {5, 64}, {0, m / 4}, {m / 2, 30}, {m / 5, m / 2}, {1, m - 1}};
  bool whole = type == LAYEROPS_I8 || type == LAYEROPS_U8;
  cf_case(s, "parts of a batch of %" PRId64 ", n=%" PRId64 " k=%" PRId64 " flags=%u", m, width, k,
          (unsigned)flags);
  cf_operand *x = cf_matrix(s, "x", type, m, k, whole ? CF_RANGE : CF_REAL);
  cf_operand *w = whole ? cf_matrix(s, "w", LAYEROPS_I8, width, k, CF_RANGE)
                        : weights(s, type, width, k, CF_REAL);
  cf_operand *bias = cf_matrix(s, "bias", whole ? LAYEROPS_F32 : cf_wide(type), 1, width, CF_REAL);
  double *all = NULL;
  for (int i = 0; i < CF_COUNT(parts); i++) {
    int64_t row = parts[i][0], rows = parts[i][1];
    cf_operand *y = cf_output(s, "y", LAYEROPS_F32, rows, width, CF_NAN);
    layerops_linear_args args = {.x = layerops_slice(cf_on(x, CF_DEVICE), row, rows, 0, k),
                                 .w = cf_on(w, CF_DEVICE),
                                 .bias = cf_on(bias, CF_DEVICE),
                                 .y = cf_on(y, CF_DEVICE),
                                 .activation = LAYEROPS_GELU,
                                 .flags = LAYEROPS_BATCH_INVARIANT | flags};
    cf_after(s, CF_DEVICE, layerops_linear_forward(s->ctx[CF_DEVICE], &args));
    double *part = cf_read(s, y, CF_DEVICE);
    if (!all) all = part;
    for (int64_t n = 0; n < y->count; n++)
      cf_expect(s, part[n] == all[row * width + n],
                "rows %" PRId64 " to %" PRId64 ": element %" PRId64
                " is %.9g, in the whole batch %.9g",
                row, row + rows - 1, n, part[n], all[row * width + n]);
    y->made = false; /* the reference was not called */
  }
  cf_end(s);
}

static void batch_invariance(cf_session *s, layerops_type type) {
  bool f8 = type == LAYEROPS_F8E4M3 || type == LAYEROPS_F8E5M2;
  uint32_t faster = f8 ? LAYEROPS_FAST_ACCUM : type == LAYEROPS_F32 ? LAYEROPS_ALLOW_TF32 : 0;
  for (uint32_t flags = 0;; flags = faster) {
    parts_of_batch(s, type, 70, 65, 444, flags);
    parts_of_batch(s, type, 520, 392, 448, flags); /* large tiles too, and aligned rows */
    if (flags == faster) return;
  }
}

const cf_check cf_linear_checks[] = {
    {LAYEROPS_OP_linear_forward, "edges of tiles", CF_FLOATS, CF_MEMORY, tile_edges},
    {LAYEROPS_OP_linear_forward, "activations", CF_FLOATS, CF_EVERY, activations},
    {LAYEROPS_OP_linear_forward, "optional operands", CF_FLOATS, CF_MEMORY, options},
    {LAYEROPS_OP_linear_forward, "types", CF_FLOATS, CF_MEMORY, types},
    {LAYEROPS_OP_linear_forward, "slope and alpha", CF_FLOATS, 0, slopes_and_alpha},
    {LAYEROPS_OP_linear_forward, "empty sizes", CF_FLOATS, CF_EVERY, empty_sizes},
    {LAYEROPS_OP_linear_forward, "NaN and infinity", CF_FLOATS, 0, nan_and_infinity},
    {LAYEROPS_OP_linear_forward, "subnormals", CF_BIT(LAYEROPS_BF16), 0, subnormals},
    {LAYEROPS_OP_linear_forward, "NaN in the bias", CF_FLOATS, 0, relu_of_nan},
    {LAYEROPS_OP_linear_forward, "random shapes", CF_FLOATS, 0, random_shapes},
    {LAYEROPS_OP_linear_forward, "batch invariance", CF_FLOATS | CF_BYTES, 0, batch_invariance},
    {LAYEROPS_OP_linear_forward, "shapes of a network", CF_FLOATS, CF_BIT(CF_TWICE),
     network_shapes},
    CF_PAIRS(LAYEROPS_OP_linear_forward, "edges of tiles", 0, tile_edges),
    CF_PAIRS(LAYEROPS_OP_linear_forward, "activations", CF_BIT(CF_HOST), activations),
    CF_PAIRS(LAYEROPS_OP_linear_forward, "optional operands", CF_MEMORY, options),
    CF_PAIRS(LAYEROPS_OP_linear_forward, "types", 0, types),
    CF_PAIRS(LAYEROPS_OP_linear_forward, "slope and alpha", 0, slopes_and_alpha),
    CF_PAIRS(LAYEROPS_OP_linear_forward, "empty sizes", CF_BIT(CF_REPLAY), empty_sizes),
    CF_PAIRS(LAYEROPS_OP_linear_forward, "NaN and infinity", 0, nan_and_infinity),
    CF_PAIRS(LAYEROPS_OP_linear_forward, "NaN in the bias", 0, relu_of_nan),
    CF_PAIRS(LAYEROPS_OP_linear_forward, "random shapes", 0, random_shapes),
    CF_PAIRS(LAYEROPS_OP_linear_forward, "batch invariance", 0, batch_invariance),
    CF_PAIRS(LAYEROPS_OP_linear_forward, "shapes of a network", CF_BIT(CF_TWICE), network_shapes),
    {0},
};

/* Products of operands of 8 bits, with scales. Sums of integers are exact, so only scales, bias and
 * activation may round there. */
#include <config.h>

#include <inttypes.h>
#include <math.h>

#include "t/conformance/session.h"

enum { NONE, ONE, EACH }; /* how many values a scale or zero point has */

typedef struct layer {
  layerops_type type, out;
  int64_t m, n, k;
  int scale_x, scale_w, zero_x;
  bool odd_scales; /* else powers of two, which do not round */
  bool infinite;   /* scales, of sums that do not count */
  bool scale_y, bias, residual, preact, fast;
  layerops_activation activation;
  double alpha;
  cf_fill fill;
} layer;

typedef struct operands {
  cf_operand *x, *w, *scale_x, *scale_w, *zero_x, *scale_y, *bias, *residual, *preact, *y;
} operands;

/* ---- What the types let in ---- */

static bool is_byte(layerops_type type) {
  return layerops_type_size(type) == 1;
}

static bool is_integer(layerops_type type) {
  return CF_BYTES & CF_BIT(type);
}

static layerops_type type_of_w(const cf_session *s) {
  return s->second ? s->second : LAYEROPS_I8;
}

/* The n-th type that Y may have, in turn; the first two narrow ones are of 8 bits where any is. */
static layerops_type out_of(layerops_type type, int64_t n) {
  static const layerops_type integers[] = {LAYEROPS_F32, LAYEROPS_I8, LAYEROPS_U8, LAYEROPS_F16,
                                           LAYEROPS_BF16};
  static const layerops_type floats[] = {LAYEROPS_F32, LAYEROPS_F8E4M3, LAYEROPS_F8E5M2,
                                         LAYEROPS_F16, LAYEROPS_BF16};
  if (!is_byte(type)) return n % 2 ? type : LAYEROPS_F32;
  return (is_integer(type) ? integers : floats)[n % CF_COUNT(integers)];
}

static layer of(layerops_type type, int64_t m, int64_t n, int64_t k) {
  return (layer){.type = type,
                 .out = LAYEROPS_F32,
                 .m = m,
                 .n = n,
                 .k = k,
                 .alpha = 1,
                 .fill = is_integer(type) ? CF_RANGE : CF_REAL};
}

/* Without the scales and zero points that these types do not have. */
static void settle(layer *l) {
  if (!is_byte(l->type)) l->scale_x = NONE;
  if (!is_integer(l->type)) l->zero_x = NONE;
  if (!is_byte(l->out)) l->scale_y = false;
}

/* ---- Layers ---- */

static cf_operand *scales(cf_session *s, const char *name, int kind, int64_t count, bool odd) {
  if (kind == NONE) return NULL;
  cf_operand *o = cf_matrix(s, name, LAYEROPS_F32, 1, kind == ONE ? 1 : count, CF_ZERO);
  for (int64_t i = 0; i < o->count; i++)
    o->values[i] = odd ? cf_uniform(s, 0.001, 0.1) : ldexp(1, (int)cf_below(s, 5) - 6);
  return o;
}

/* Zero points of all kinds: those of X's type, and those that only the other type has. */
static cf_operand *zeros(cf_session *s, int kind, int64_t count) {
  if (kind == NONE) return NULL;
  cf_operand *o = cf_matrix(s, "zero_x", LAYEROPS_I32, 1, kind == ONE ? 1 : count, CF_ZERO);
  for (int64_t i = 0; i < o->count; i++) o->values[i] = (double)cf_below(s, 384) - 128;
  if (o->count > 1) o->values[0] = -128, o->values[1] = 255;
  return o;
}

static void make(cf_session *s, const layer *l, operands *o) {
  const layerops_type w = type_of_w(s);
  const cf_fill w_fill = w == LAYEROPS_I8 && l->fill == CF_REAL ? CF_RANGE : l->fill;
  o->x = cf_matrix(s, "x", l->type, l->m, l->k, l->fill);
  o->w = cf_matrix(s, "w", w, l->n, l->k, w_fill);
  o->scale_x = scales(s, "scale_x", l->scale_x, l->m, l->odd_scales);
  o->scale_w = scales(s, "scale_w", l->scale_w, l->n, l->odd_scales);
  o->zero_x = zeros(s, l->zero_x, l->m);
  o->scale_y = l->scale_y ? scales(s, "scale_y", ONE, 1, l->odd_scales) : NULL;
  if (o->scale_y && is_integer(l->out)) o->scale_y->values[0] *= 64; /* else most saturate */
  o->bias = l->bias ? cf_matrix(s, "bias", LAYEROPS_F32, 1, l->n, CF_INTEGER) : NULL;
  o->residual = l->residual ? cf_matrix(s, "residual", LAYEROPS_F32, l->m, l->n, CF_REAL) : NULL;
  o->preact = l->preact ? cf_output(s, "preact", LAYEROPS_F32, l->m, l->n, CF_NAN) : NULL;
  o->y = cf_output(s, "y", l->out, l->m, l->n, CF_NAN);
}

static void make_infinite(cf_operand *o) {
  for (int64_t i = 0; o && i < o->count; i++) o->values[i] = INFINITY;
}

static double each(const cf_operand *o, int64_t i, double absent) {
  return o ? o->values[o->count == 1 ? 0 : i] : absent;
}

/* |sum|, of integers. */
static double sum_of(const layer *l, const operands *o, int64_t i, int64_t j) {
  double sum = 0, zero = each(o->zero_x, i, 0);
  for (int64_t p = 0; p < l->k; p++)
    sum += (o->x->values[i * l->k + p] - zero) * o->w->values[j * l->k + p];
  return fabs(sum);
}

/* One rounding each of the sum to f32, the three factors, the two products among them, the product
 * with the sum, and the bias: 8 u |z|; those of the sum, unless it is of integers. The rest as in
 * linear.c, and the division by scale_y. */
static void bound(cf_session *s, const layer *l, operands *o) {
  double *bounds = cf_bound(s, o->y), steepest = cf_lipschitz(l->activation, 0.01);
  double constant = l->activation == LAYEROPS_SIGMOID ? 16 : 0;
  double *sums = is_integer(l->type) ? NULL : cf_magnitudes(s, o->x, 0, o->w, 1);
  double *kept = cf_kept(s, o->x, 0, o->w, 1, l->fast);
  const double steps = 8 + (sums ? cf_steps(l->type, l->k) : 0);
  for (int64_t n = 0; n < o->y->count; n++) {
    const int64_t i = n / l->n, j = n % l->n;
    double scales = each(o->scale_x, i, 1) * each(o->scale_w, j, 1);
    double scale = l->infinite ? 0 : fabs(l->alpha * scales);
    double z = scale * (sums ? sums[n] : sum_of(l, o, i, j)) + fabs(each(o->bias, j, 0));
    double residual = o->residual ? fabs(o->residual->values[n]) : 0;
    double lost = kept ? scale * kept[n] : 0;
    double error =
        CF_U * ((steepest * (steps + 16) + 2) * z + constant + 2 * residual) + steepest * lost;
    bounds[n] = (error + 2 * CF_U * (z + residual)) / each(o->scale_y, 0, 1);
    if (o->preact) cf_bound(s, o->preact)[n] = CF_U * steps * z + lost;
  }
  if (!o->residual) cf_add_short(s, o->y, l->activation);
  cf_add_store(s, o->y);
  if (o->preact) cf_add_store(s, o->preact);
}

/* Sums below 2^24, powers of two, and nothing added: no rounding before the store. */
static bool exact(const layer *l) {
  return l->k <= 256 && !l->odd_scales && !l->bias && !l->residual &&
         l->activation <= LAYEROPS_RELU && (is_integer(l->type) || l->fill == CF_INTEGER);
}

static void run(cf_session *s, layer *l) {
  operands o;
  settle(l);
  cf_case(s,
          "m=%" PRId64 " n=%" PRId64 " k=%" PRId64
          " out=%s scale_x=%d scale_w=%d zero_x=%d %s%s%s%s%s%s alpha=%g offset=%" PRId64
          " pad=%" PRId64,
          l->m, l->n, l->k, layerops_type_name(l->out), l->scale_x, l->scale_w, l->zero_x,
          layerops_activation_name(l->activation), l->odd_scales ? " odd scales" : "",
          l->scale_y ? " scale_y" : "", l->bias ? " bias" : "", l->residual ? " residual" : "",
          l->fast ? " fast" : "", l->alpha, s->layout.offset, s->layout.pad);
  make(s, l, &o);
  if (l->infinite) make_infinite(o.scale_x), make_infinite(o.scale_w);
  CF_SIDES(s, side) {
    layerops_linear_forward_args args = {.x = cf_on(o.x, side),
                                         .w = cf_on(o.w, side),
                                         .scale_x = cf_on(o.scale_x, side),
                                         .scale_w = cf_on(o.scale_w, side),
                                         .zero_x = cf_on(o.zero_x, side),
                                         .scale_y = cf_on(o.scale_y, side),
                                         .bias = cf_on(o.bias, side),
                                         .residual = cf_on(o.residual, side),
                                         .preact = cf_on(o.preact, side),
                                         .y = cf_on(o.y, side),
                                         .activation = l->activation,
                                         .flags = l->fast ? LAYEROPS_FAST_ACCUM : 0,
                                         .alpha = layerops_value(l->alpha)};
    CF_CALL(s, side, linear_forward, &args);
  }
  if (!exact(l)) bound(s, l, &o);
  cf_end(s);
}

static const cf_layout layouts[] = {{0, 0, 0}, {1, 3, 0}, {3, 0, 0}, {5, 1, 0}};

/* Every rest of k by the groups and tiles of all kernels, over sizes around those of tiles. */
static void tails(cf_session *s, layerops_type type) {
  static const int64_t rows[] = {1, 13, 14, 15, 16, 17, 32, 33},
                       cols[] = {1, 15, 16, 17, 32, 33, 70};
  for (int64_t k = 1; k <= 130; k++) {
    layer l = of(type, rows[k % CF_COUNT(rows)], cols[k % CF_COUNT(cols)], k);
    s->layout = layouts[k % CF_COUNT(layouts)];
    l.zero_x = (int)(k % 3);
    l.scale_x = (int)(k / 3 % 3);
    l.scale_w = (int)(k / 9 % 3);
    l.out = out_of(type, k % 3);
    l.scale_y = k % 3 && k % 2;
    l.fast = k % 5 == 0;
    if (!is_integer(type)) l.fill = CF_INTEGER; /* which FAST_ACCUM holds too */
    run(s, &l);
  }
}

static void options(cf_session *s, layerops_type type) {
  for (int set = 0; set < 64; set++) {
    layer l = of(type, 19, 37, 75);
    s->layout = layouts[set % CF_COUNT(layouts)];
    l.bias = set & 1;
    l.preact = set & 2;
    l.residual = set & 4;
    l.odd_scales = true;
    l.scale_x = l.scale_w = set & 8 ? EACH : ONE;
    l.zero_x = set % 3;
    l.out = out_of(type, set);
    l.scale_y = set & 16;
    l.activation = set & 32 ? LAYEROPS_GELU : LAYEROPS_RELU;
    l.alpha = set % 5 ? 1 : -0.75;
    run(s, &l);
  }
}

static void random_shapes(cf_session *s, layerops_type type) {
  for (int i = 0; i < (s->options->full ? 120 : 30); i++) {
    layer l = of(type, 1 + cf_below(s, 150), 1 + cf_below(s, 150), 1 + cf_below(s, 300));
    s->layout = (cf_layout){cf_below(s, 9), cf_below(s, 9), 0};
    l.scale_x = (int)cf_below(s, 3);
    l.scale_w = (int)cf_below(s, 3);
    l.zero_x = (int)cf_below(s, 3);
    l.odd_scales = cf_below(s, 2);
    l.out = out_of(type, cf_below(s, 5));
    l.scale_y = cf_below(s, 2);
    l.fast = cf_below(s, 2);
    l.activation = (layerops_activation)cf_below(s, LAYEROPS_ACTIVATION_COUNT);
    l.bias = cf_below(s, 2);
    run(s, &l);
  }
}

static void empty_sizes(cf_session *s, layerops_type type) {
  static const int64_t shapes[][3] = {{0, 5, 5}, {5, 0, 5}, {5, 5, 0}, {16, 40, 0}, {0, 0, 0}};
  for (int64_t i = 0; i < CF_COUNT(shapes); i++) {
    layer l = of(type, shapes[i][0], shapes[i][1], shapes[i][2]);
    l.scale_x = l.scale_w = l.zero_x = EACH;
    l.bias = i % 2 == 0;
    run(s, &l);
  }
}

/* alpha or k 0: neither the sums nor their scales count. */
static void nothing_counts(cf_session *s, layerops_type type) {
  static const int64_t rows[] = {1, 7, 40, 150};
  for (int64_t i = 0; i < 4 * CF_COUNT(rows); i++) {
    layer l = of(type, rows[i / 4], 40 + i, i % 2 ? 0 : 48);
    l.alpha = i % 2;
    l.scale_x = i / 2 % 2 ? ONE : EACH;
    l.scale_w = i / 4 % 2 ? EACH : ONE;
    l.out = out_of(type, i / 3);
    l.zero_x = l.scale_x;
    l.bias = i % 3 != 0;
    l.infinite = true;
    run(s, &l);
  }
}

/* Any numbers that there are, of X and W. */
static void all_numbers(cf_session *s, layerops_type type) {
  for (int64_t k = 1; k < 300; k += 37) {
    layer l = of(type, 40, 70 - k / 5, k);
    s->layout = layouts[k % CF_COUNT(layouts)];
    l.fill = CF_RANGE;
    l.scale_w = EACH;
    run(s, &l);
  }
}

/* Both ends of the range of Y, halves to even, NaN and infinity: z is the bias, X being 0. */
static void saturation(cf_session *s, layerops_type type) {
  static const double values[] = {
      -1e30,    -129,      -128.5,   -127.5,   -1.5,    -0.5,     0.5,    1.5,       2.5,
      126.5,    127.5,     254.5,    255.5,    3e9,     INFINITY, NAN,    -INFINITY, 447,
      -463.9,   464,       464.1,    -480,     57343,   61439,    -61440, 61441,     65536,
      0x1p-9,   0x1p-10,   0x1.8p-9, 0x1.1p-9, 0x1p-16, 0x1p-17,  17,     0x1.8p-16, -0x1.7p-16,
      0x1.9p-7, 0x1.cp-15, 1.0625,   1.1875,   -1.125,  1.375};
  enum { N = CF_COUNT(values) };
  for (int o = 1; o <= 2; o++)
    for (int scaled = 0; scaled < 2; scaled++) {
      const layerops_type out = out_of(type, o);
      cf_case(s, "values that saturate, out=%s scale_y=%d", layerops_type_name(out), scaled);
      cf_operand *x = cf_matrix(s, "x", type, 3, 8, CF_ZERO);
      cf_operand *w = cf_matrix(s, "w", type_of_w(s), N, 8, CF_RANGE);
      cf_operand *bias = cf_matrix(s, "bias", LAYEROPS_F32, 1, N, CF_ZERO);
      cf_operand *scale = cf_matrix(s, "scale_y", LAYEROPS_F32, 1, 1, CF_ZERO);
      cf_operand *y = cf_output(s, "y", out, 3, N, CF_NAN);
      for (int64_t j = 0; j < N; j++) bias->values[j] = values[j] * (scaled ? 0.25 : 1);
      scale->values[0] = 0.25;
      CF_SIDES(s, side) {
        layerops_linear_forward_args args = {.x = cf_on(x, side),
                                             .w = cf_on(w, side),
                                             .bias = cf_on(bias, side),
                                             .y = cf_on(y, side)};
        if (scaled) args.scale_y = cf_on(scale, side);
        CF_CALL(s, side, linear_forward, &args);
      }
      cf_end(s);
    }
}

/* ---- gemm ---- */

typedef struct product {
  layerops_type type, out;
  int64_t m, n, k, batch_a, batch_b, batch;
  int trans_a, trans_b, scale_a, scale_b, zero_a;
  double beta;
  bool fast;
  bool ends; /* A and B hold the ends of their ranges only, of one sign: the largest sums */
} product;

static cf_operand *factor(cf_session *s, const char *name, const product *p, layerops_type type,
                          int trans, int64_t batch, int64_t rows, int64_t cols) {
  const cf_fill fill = is_byte(type) && is_integer(type) ? CF_RANGE : CF_REAL;
  cf_operand *o = cf_batched(s, name, type, batch, trans ? cols : rows, trans ? rows : cols, fill);
  for (int64_t i = 0; p->ends && i < o->count; i++) o->values[i] = type == LAYEROPS_U8 ? 255 : -128;
  return o;
}

/* Powers of two times a sum of integers below 2^24, and beta C with few digits. */
static bool product_is_exact(const product *p) {
  if (!is_integer(p->type)) return false;
  return p->out == LAYEROPS_I32 || (p->k <= 256 && p->beta == 0 && p->out == LAYEROPS_F32);
}

/* 8 roundings of the scaled sum, and those of the sum itself, as above; 3 of beta C; the magnitudes
 * are those of the sum without the zero point, which the zero point's own add to: 255 a product at
 * most. */
static void product_bound(cf_session *s, const product *p, cf_operand *a, cf_operand *b,
                          const cf_operand *scale_a, const cf_operand *scale_b, cf_operand *c) {
  double *sums = cf_magnitudes(s, a, p->trans_a, b, p->trans_b), *bounds = cf_bound(s, c);
  double *kept = cf_kept(s, a, p->trans_a, b, p->trans_b, p->fast);
  const double steps = 8 + (is_integer(p->type) ? 0 : cf_steps(p->type, p->k));
  int64_t one = p->m * p->n, batch = p->batch_a > p->batch_b ? p->batch_a : p->batch_b;
  for (int64_t i = 0; i < c->count; i++) {
    const int64_t at = batch == 1 ? i % one : i;
    const double scale = each(scale_a, i / p->n % p->m, 1) * each(scale_b, i % p->n, 1);
    double sum = sums[at];
    double old = p->beta ? fabs(p->beta * c->values[i]) : 0;
    if (p->zero_a) sum += 255.0 * 128 * (double)p->k;
    bounds[i] = CF_U * (steps * scale * sum + 4 * old) + (kept ? scale * kept[at] : 0);
  }
  cf_add_store(s, c);
}

static void run_product(cf_session *s, const product *p) {
  cf_case(s,
          "m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " trans=%c%c out=%s scale_a=%d scale_b=%d "
          "zero_a=%d beta=%g batch=%" PRId64 ",%" PRId64 ",%" PRId64 "%s%s",
          p->m, p->n, p->k, p->trans_a ? 't' : 'n', p->trans_b ? 't' : 'n',
          layerops_type_name(p->out), p->scale_a, p->scale_b, p->zero_a, p->beta, p->batch_a,
          p->batch_b, p->batch, p->ends ? " largest sums" : "", p->fast ? " fast" : "");
  cf_operand *a = factor(s, "a", p, p->type, p->trans_a, p->batch_a, p->m, p->k);
  cf_operand *b = factor(s, "b", p, type_of_w(s), p->trans_b, p->batch_b, p->k, p->n);
  cf_operand *scale_a = scales(s, "scale_a", p->scale_a, p->m, false);
  cf_operand *scale_b = scales(s, "scale_b", p->scale_b, p->n, false);
  cf_operand *zero_a = zeros(s, p->zero_a, p->m);
  cf_operand *c = cf_batched(s, "c", p->out, p->batch, p->m, p->n, p->beta ? CF_REAL : CF_NAN);
  c->is_output = true;
  CF_SIDES(s, side) {
    layerops_gemm_args args = {.a = cf_on(a, side),
                               .b = cf_on(b, side),
                               .c = cf_on(c, side),
                               .trans_a = p->trans_a,
                               .trans_b = p->trans_b,
                               .scale_a = cf_on(scale_a, side),
                               .scale_b = cf_on(scale_b, side),
                               .zero_a = cf_on(zero_a, side),
                               .flags = p->fast ? LAYEROPS_FAST_ACCUM : 0,
                               .beta = layerops_value(p->beta)};
    CF_CALL(s, side, gemm, &args);
  }
  if (!product_is_exact(p)) product_bound(s, p, a, b, scale_a, scale_b, c);
  cf_end(s);
}

static product random_product(cf_session *s, layerops_type type, int64_t m, int64_t n, int64_t k) {
  product p = {.type = type, .m = m, .n = n, .k = k, .batch_a = 1, .batch_b = 1, .batch = 1};
  const layerops_type outs[] = {is_integer(type) ? LAYEROPS_I32 : cf_wide(type), LAYEROPS_F32,
                                is_byte(type) ? LAYEROPS_BF16 : type};
  p.out = outs[cf_below(s, 3)];
  p.trans_a = (int)cf_below(s, 2);
  p.trans_b = (int)cf_below(s, 2);
  p.zero_a = is_integer(type) ? (int)cf_below(s, 3) : NONE;
  if (p.out == LAYEROPS_I32) return p;
  p.fast = cf_below(s, 2);
  p.scale_a = is_byte(type) ? (int)cf_below(s, 3) : NONE;
  p.scale_b = (int)cf_below(s, 3);
  p.beta = cf_below(s, 2) ? 0.5 : 0;
  return p;
}

static void random_products(cf_session *s, layerops_type type) {
  for (int i = 0; i < (s->options->full ? 200 : 60); i++) {
    s->layout = (cf_layout){cf_below(s, 9), cf_below(s, 9), cf_below(s, 9)};
    product p = random_product(s, type, 1 + cf_below(s, 120), 1 + cf_below(s, 120),
                               cf_below(s, 4) ? 1 + cf_below(s, 256) : 1 + cf_below(s, 1200));
    if (cf_below(s, 4) == 0) {
      p.batch = 1 + cf_below(s, 4);
      p.batch_a = cf_below(s, 2) ? p.batch : 1;
      p.batch_b = cf_below(s, 2) ? p.batch : 1;
    }
    run_product(s, &p);
  }
}

/* The longest k that the door lets in, with the largest sum that there is. */
static void longest_sums(cf_session *s, layerops_type type) {
  for (int trans = 0; trans < 4; trans++) {
    product p = {.type = type,
                 .out = LAYEROPS_I32,
                 .m = 3,
                 .n = 35,
                 .k = 65793,
                 .batch_a = 1,
                 .batch_b = 1,
                 .batch = 1,
                 .trans_a = trans & 1,
                 .trans_b = trans >> 1,
                 .ends = true};
    run_product(s, &p);
  }
}

const cf_check cf_scale_checks[] = {
    {LAYEROPS_OP_linear_forward, "integers, tails of k", CF_BYTES, CF_MEMORY, tails},
    {LAYEROPS_OP_linear_forward, "integers, optional operands", CF_BYTES, CF_MEMORY, options},
    {LAYEROPS_OP_linear_forward, "integers, random shapes", CF_BYTES,
     CF_BIT(CF_REPLAY) | CF_BIT(CF_TWICE), random_shapes},
    {LAYEROPS_OP_linear_forward, "integers, empty sizes", CF_BYTES, CF_EVERY, empty_sizes},
    {LAYEROPS_OP_linear_forward, "integers, infinite scales of nothing", CF_BYTES, CF_EVERY,
     nothing_counts},
    {LAYEROPS_OP_linear_forward, "integers, saturation", CF_BYTES, 0, saturation},
    {LAYEROPS_OP_gemm, "integers, random shapes", CF_BYTES, CF_EVERY, random_products},
    {LAYEROPS_OP_gemm, "integers, the longest sums", CF_BYTES, 0, longest_sums},
    CF_PAIRS(LAYEROPS_OP_linear_forward, "scales, tails of k", CF_MEMORY, tails),
    CF_PAIRS(LAYEROPS_OP_linear_forward, "scales, optional operands", CF_MEMORY, options),
    CF_PAIRS(LAYEROPS_OP_linear_forward, "scales, random shapes",
             CF_BIT(CF_REPLAY) | CF_BIT(CF_TWICE), random_shapes),
    CF_PAIRS(LAYEROPS_OP_linear_forward, "scales, empty sizes", CF_EVERY, empty_sizes),
    CF_PAIRS(LAYEROPS_OP_linear_forward, "scales, infinite ones of nothing", CF_EVERY,
             nothing_counts),
    {LAYEROPS_OP_linear_forward, "all numbers", CF_F8 | CF_WITH(CF_F8), 0, all_numbers},
    {LAYEROPS_OP_linear_forward, "saturation", CF_F8 | CF_WITH(CF_F8), 0, saturation},
    CF_PAIRS(LAYEROPS_OP_gemm, "scales, random shapes", CF_BIT(CF_HOST), random_products),
    {0},
};

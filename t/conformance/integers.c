/* Products of 8-bit integers: sums are exact, so only scales, bias and activation may round. */
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
  bool scale_y, bias, residual, preact;
  layerops_activation activation;
  double alpha;
  cf_fill fill;
} layer;

typedef struct operands {
  cf_operand *x, *w, *scale_x, *scale_w, *zero_x, *scale_y, *bias, *residual, *preact, *y;
} operands;

static layer of(layerops_type type, int64_t m, int64_t n, int64_t k) {
  return (layer){
      .type = type, .out = LAYEROPS_F32, .m = m, .n = n, .k = k, .alpha = 1, .fill = CF_RANGE};
}

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
  o->x = cf_matrix(s, "x", l->type, l->m, l->k, l->fill);
  o->w = cf_matrix(s, "w", LAYEROPS_I8, l->n, l->k, l->fill);
  o->scale_x = scales(s, "scale_x", l->scale_x, l->m, l->odd_scales);
  o->scale_w = scales(s, "scale_w", l->scale_w, l->n, l->odd_scales);
  o->zero_x = zeros(s, l->zero_x, l->m);
  o->scale_y = l->scale_y ? scales(s, "scale_y", ONE, 1, l->odd_scales) : NULL;
  if (o->scale_y) o->scale_y->values[0] *= 64; /* else most outputs saturate */
  o->bias = l->bias ? cf_matrix(s, "bias", LAYEROPS_F32, 1, l->n, CF_INTEGER) : NULL;
  o->residual = l->residual ? cf_matrix(s, "residual", LAYEROPS_F32, l->m, l->n, CF_REAL) : NULL;
  o->preact = l->preact ? cf_output(s, "preact", LAYEROPS_F32, l->m, l->n, CF_NAN) : NULL;
  o->y = cf_output(s, "y", l->out, l->m, l->n, CF_NAN);
}

static double each(const cf_operand *o, int64_t i, double absent) {
  return o ? o->values[o->count == 1 ? 0 : i] : absent;
}

/* |z|: the scaled sum and the bias, each by its size. */
static double size_of(const layer *l, const operands *o, int64_t i, int64_t j) {
  double sum = 0, zero = each(o->zero_x, i, 0);
  for (int64_t p = 0; p < l->k; p++)
    sum += (o->x->values[i * l->k + p] - zero) * o->w->values[j * l->k + p];
  return fabs(l->alpha * sum * each(o->scale_x, i, 1) * each(o->scale_w, j, 1)) +
         fabs(each(o->bias, j, 0));
}

/* One rounding each of the sum to f32, the three factors, the two products among them, the product
 * with the sum, and the bias: 8 u |z|. The rest as in linear.c, and the division by scale_y. */
static void bound(cf_session *s, const layer *l, operands *o) {
  double *bounds = cf_bound(s, o->y), steepest = cf_lipschitz(l->activation, 0.01);
  double constant = l->activation == LAYEROPS_SIGMOID ? 16 : 0;
  for (int64_t i = 0; i < o->y->count; i++) {
    double z = size_of(l, o, i / l->n, i % l->n);
    double residual = o->residual ? fabs(o->residual->values[i]) : 0;
    double error = CF_U * ((steepest * (8 + 16) + 2) * z + constant + 2 * residual);
    bounds[i] = (error + 2 * CF_U * (z + residual)) / each(o->scale_y, 0, 1);
    if (o->preact) cf_bound(s, o->preact)[i] = CF_U * 8 * z;
  }
  cf_add_store(s, o->y);
  if (o->preact) cf_add_store(s, o->preact);
}

/* Sums below 2^24, powers of two, and nothing added: no rounding before the store. */
static bool exact(const layer *l) {
  return l->k <= 256 && !l->odd_scales && !l->bias && !l->residual &&
         l->activation <= LAYEROPS_RELU && l->out != LAYEROPS_F16 && l->out != LAYEROPS_BF16;
}

static void run(cf_session *s, const layer *l) {
  operands o;
  cf_case(s,
          "m=%" PRId64 " n=%" PRId64 " k=%" PRId64
          " out=%s scale_x=%d scale_w=%d zero_x=%d %s%s%s%s%s alpha=%g offset=%" PRId64
          " pad=%" PRId64,
          l->m, l->n, l->k, layerops_type_name(l->out), l->scale_x, l->scale_w, l->zero_x,
          layerops_activation_name(l->activation), l->odd_scales ? " odd scales" : "",
          l->scale_y ? " scale_y" : "", l->bias ? " bias" : "", l->residual ? " residual" : "",
          l->alpha, s->layout.offset, s->layout.pad);
  make(s, l, &o);
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
                                         .alpha = layerops_value(l->alpha)};
    CF_CALL(s, side, linear_forward, &args);
  }
  if (!exact(l)) bound(s, l, &o);
  cf_end(s);
}

static const layerops_type outs[] = {LAYEROPS_F32, LAYEROPS_I8, LAYEROPS_U8, LAYEROPS_F16,
                                     LAYEROPS_BF16};
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
    l.out = outs[k % 3];
    l.scale_y = k % 3 && k % 2;
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
    l.out = outs[set % CF_COUNT(outs)];
    l.scale_y = set & 16 && (l.out == LAYEROPS_I8 || l.out == LAYEROPS_U8);
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
    l.out = outs[cf_below(s, CF_COUNT(outs))];
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

/* Both ends of the range of Y, halves to even, NaN and infinity: z is the bias, X being 0. */
static void saturation(cf_session *s, layerops_type type) {
  static const double values[] = {-1e30, -129,  -128.5, -127.5, -1.5, -0.5,     0.5,       1.5, 2.5,
                                  126.5, 127.5, 254.5,  255.5,  3e9,  INFINITY, -INFINITY, NAN};
  enum { N = CF_COUNT(values) };
  for (int o = 1; o <= 2; o++)
    for (int scaled = 0; scaled < 2; scaled++) {
      cf_case(s, "values that saturate, out=%s scale_y=%d", layerops_type_name(outs[o]), scaled);
      cf_operand *x = cf_matrix(s, "x", type, 3, 8, CF_ZERO);
      cf_operand *w = cf_matrix(s, "w", LAYEROPS_I8, N, 8, CF_RANGE);
      cf_operand *bias = cf_matrix(s, "bias", LAYEROPS_F32, 1, N, CF_ZERO);
      cf_operand *scale = cf_matrix(s, "scale_y", LAYEROPS_F32, 1, 1, CF_ZERO);
      cf_operand *y = cf_output(s, "y", outs[o], 3, N, CF_NAN);
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
  bool ends; /* A and B hold the ends of their ranges only, of one sign: the largest sums */
} product;

static cf_operand *factor(cf_session *s, const char *name, const product *p, layerops_type type,
                          int trans, int64_t batch, int64_t rows, int64_t cols) {
  cf_operand *o =
      cf_batched(s, name, type, batch, trans ? cols : rows, trans ? rows : cols, CF_RANGE);
  for (int64_t i = 0; p->ends && i < o->count; i++) o->values[i] = type == LAYEROPS_U8 ? 255 : -128;
  return o;
}

/* Powers of two times a sum below 2^24, and beta C with few digits. */
static bool product_is_exact(const product *p) {
  return p->out == LAYEROPS_I32 || (p->k <= 256 && p->beta == 0 && p->out == LAYEROPS_F32);
}

/* 8 roundings of the scaled sum, as above; 3 of beta C; the magnitudes are those of the sum without
 * the zero point, which the zero point's own add to: 255 a product at most. */
static void product_bound(cf_session *s, const product *p, cf_operand *a, cf_operand *b,
                          cf_operand *c) {
  double *sums = cf_magnitudes(s, a, p->trans_a, b, p->trans_b), *bounds = cf_bound(s, c);
  int64_t one = p->m * p->n, batch = p->batch_a > p->batch_b ? p->batch_a : p->batch_b;
  for (int64_t i = 0; i < c->count; i++) {
    double sum = sums[batch == 1 ? i % one : i];
    double old = p->beta ? fabs(p->beta * c->values[i]) : 0;
    if (p->zero_a) sum += 255.0 * 128 * (double)p->k;
    bounds[i] = CF_U * (8 * sum + 4 * old);
  }
  cf_add_store(s, c);
}

static void run_product(cf_session *s, const product *p) {
  cf_case(s,
          "m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " trans=%c%c out=%s scale_a=%d scale_b=%d "
          "zero_a=%d beta=%g batch=%" PRId64 ",%" PRId64 ",%" PRId64 "%s",
          p->m, p->n, p->k, p->trans_a ? 't' : 'n', p->trans_b ? 't' : 'n',
          layerops_type_name(p->out), p->scale_a, p->scale_b, p->zero_a, p->beta, p->batch_a,
          p->batch_b, p->batch, p->ends ? " largest sums" : "");
  cf_operand *a = factor(s, "a", p, p->type, p->trans_a, p->batch_a, p->m, p->k);
  cf_operand *b = factor(s, "b", p, LAYEROPS_I8, p->trans_b, p->batch_b, p->k, p->n);
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
                               .beta = layerops_value(p->beta)};
    CF_CALL(s, side, gemm, &args);
  }
  if (!product_is_exact(p)) product_bound(s, p, a, b, c);
  cf_end(s);
}

static product random_product(cf_session *s, layerops_type type, int64_t m, int64_t n, int64_t k) {
  static const layerops_type types[] = {LAYEROPS_I32, LAYEROPS_F32, LAYEROPS_BF16};
  product p = {.type = type, .m = m, .n = n, .k = k, .batch_a = 1, .batch_b = 1, .batch = 1};
  p.out = types[cf_below(s, 3)];
  p.trans_a = (int)cf_below(s, 2);
  p.trans_b = (int)cf_below(s, 2);
  p.zero_a = (int)cf_below(s, 3);
  if (p.out == LAYEROPS_I32) return p;
  p.scale_a = (int)cf_below(s, 3);
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

const cf_check cf_integer_checks[] = {
    {LAYEROPS_OP_linear_forward, "integers, tails of k", CF_BYTES, CF_MEMORY, tails},
    {LAYEROPS_OP_linear_forward, "integers, optional operands", CF_BYTES, CF_MEMORY, options},
    {LAYEROPS_OP_linear_forward, "integers, random shapes", CF_BYTES,
     CF_BIT(CF_REPLAY) | CF_BIT(CF_TWICE), random_shapes},
    {LAYEROPS_OP_linear_forward, "integers, empty sizes", CF_BYTES, CF_EVERY, empty_sizes},
    {LAYEROPS_OP_linear_forward, "integers, saturation", CF_BYTES, 0, saturation},
    {LAYEROPS_OP_gemm, "integers, random shapes", CF_BYTES, CF_EVERY, random_products},
    {LAYEROPS_OP_gemm, "integers, the longest sums", CF_BYTES, 0, longest_sums},
    {0},
};

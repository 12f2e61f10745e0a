/* The one table of tolerances. An element may differ from the reference, which sums in double and
 * rounds once, by
 *
 *   c(k) u sum|x||w|  +  what the epilogue adds  +  the rounding to the stored type
 *
 * with u = 2^-24, the most that one rounding to f32 adds relatively. */
#include <config.h>

#include <float.h>
#include <math.h>

#include "common/tolerance.h"
#include "t/conformance/session.h"

/* c(k) of a sum of k products in f32, which tuning holds kernels to as well. */
double cf_steps(layerops_type type, int64_t k) {
  return lo_sum_steps(type, k);
}

/* Digits behind the leading one, and the smallest normal number's exponent. */
static const struct {
  int digits, least;
} formats[LAYEROPS_TYPE_COUNT] = {
    [LAYEROPS_F32] = {23, -126}, [LAYEROPS_F16] = {10, -14},   [LAYEROPS_BF16] = {7, -126},
    [LAYEROPS_F8E4M3] = {3, -6}, [LAYEROPS_F8E5M2] = {2, -14},
};

/* What instructions for bf16 may lose that take subnormals as 0 (vdpbf16ps, AMX's tdpbf16ps), over
 * k products of elements up to x and w: each product and each sum so far less than 2^-126, an input
 * that times the other factor. Small beside any other error unless all is near 2^-126. */
double cf_flushed(layerops_type type, int64_t k, double x, double w) {
  return type == LAYEROPS_BF16 ? 0x1p-126 * (double)k * (2 + x + w) : 0;
}

/* Half a unit in the last place, relatively. */
double cf_rounding(layerops_type type) {
  return ldexp(1, -formats[type].digits - 1);
}

layerops_type cf_wide(layerops_type type) {
  return CF_F8 & CF_BIT(type) ? LAYEROPS_F16 : type;
}

/* What storing may add to an error so far. Where the reference has the true value (in f32), half a
 * unit in the last place. Where it has rounded too, two numbers a hair apart may have become
 * neighbours: a whole one (of an integer: 1). Below the normal numbers that is a fixed amount;
 * devices may flush f32's and bf16's subnormals (not those of others, which are normal in f32). */
static double stored(const cf_operand *o, double y, double error) {
  layerops_type type = o->shape.type;
  if (type == LAYEROPS_I8 || type == LAYEROPS_U8) return 1;
  const bool flushed = type == LAYEROPS_F32 || type == LAYEROPS_BF16;
  double units = o->seen == type ? 2 : 1;
  double least = ldexp(flushed ? 1 : units * cf_rounding(type), formats[type].least);
  return fmax(units * cf_rounding(type) * (fabs(y) + error), least) + CF_U * fabs(y);
}

/* The largest |act'|. gelu: at sqrt(2), Phi + phi sqrt(2) = 1.129; gelu_tanh the same within 0.001;
 * silu 1.0998. sigmoid' and tanh' are taken of outputs within [0, 1] and [-1, 1]. */
double cf_lipschitz(layerops_activation kind, double slope) {
  switch (kind) {
  case LAYEROPS_LEAKY_RELU:
    return fmax(1, fabs(slope));
  case LAYEROPS_GELU:
  case LAYEROPS_GELU_TANH:
    return 1.14;
  case LAYEROPS_SILU:
    return 1.1;
  case LAYEROPS_SIGMOID:
    return 0.25;
  default:
    return 1;
  }
}

static double inner(double z) {
  return 0.7978845608 * (fabs(z) + 0.044715 * fabs(z * z * z));
}

/* How the relative error of an exponential in the tail grows with its argument's: exp(-2u) has |2u|
 * times that of u, which takes 4 roundings; erfc(z / sqrt(2)) about z^2 times that of its argument,
 * one. */
static double condition(layerops_activation kind, double z) {
  return kind == LAYEROPS_GELU        ? 4 * fmin(z * z, 250)
         : kind == LAYEROPS_GELU_TANH ? 8 * fmin(inner(z), 100)
                                      : 0;
}

/* Of act(z) = y computed in f32 by functions of up to 4 ulp (8 u) each, two of them in a row. */
double cf_activation_error(layerops_activation kind, double z, double y) {
  double underflow = FLT_MIN * (1 + fabs(z));
  if (kind == LAYEROPS_IDENTITY || kind == LAYEROPS_RELU || !isfinite(z)) return 0;
  if (kind == LAYEROPS_LEAKY_RELU) return 2 * CF_U * fabs(y);
  return CF_U * (16 + condition(kind, z)) * fabs(y) + underflow;
}

/* The sum of the magnitudes of the terms of act'(s): what an error of f32 is relative to. */
static double derivative_terms(layerops_activation kind, double s, double slope) {
  double u = s < 0 ? -inner(s) : inner(s);
  double g = 1 / (1 + exp(-s)), t = 1 / (1 + exp(-2 * u)), rest = 1 / (1 + exp(2 * u));
  switch (kind) {
  case LAYEROPS_LEAKY_RELU:
    return fabs(slope);
  case LAYEROPS_GELU:
    return 0.5 * erfc(-s * M_SQRT1_2) + fabs(s) * exp(-0.5 * s * s);
  case LAYEROPS_GELU_TANH:
    return t + 2 * fabs(s) * t * rest * (1 + 0.14 * s * s);
  case LAYEROPS_SILU:
    return g + fabs(s) * g * (1 - g);
  case LAYEROPS_SIGMOID:
    return fabs(s) * fabs(1 - s);
  case LAYEROPS_TANH:
    return fabs(1 - s) * fabs(1 + s);
  default:
    return 0;
  }
}

double cf_derivative_error(layerops_activation kind, double saved, double slope) {
  if (kind == LAYEROPS_IDENTITY || kind == LAYEROPS_RELU || !isfinite(saved)) return 0;
  return CF_U * (16 + condition(kind, saved)) * derivative_terms(kind, saved, slope) +
         FLT_MIN * (1 + fabs(saved * saved * saved)); /* an underflow, times z z^2 in gelu_tanh' */
}

static double value_at(const cf_operand *x, int trans, int64_t l, int64_t i, int64_t j) {
  int64_t rows = x->shape.rows, cols = x->shape.cols;
  if (x->shape.batch == 1) l = 0;
  return x->values[l * rows * cols + (trans ? j * cols + i : i * cols + j)];
}

double *cf_magnitudes(cf_session *s, const cf_operand *a, int trans_a, const cf_operand *b,
                      int trans_b) {
  int64_t m = trans_a ? a->shape.cols : a->shape.rows, k = trans_a ? a->shape.rows : a->shape.cols;
  int64_t n = trans_b ? b->shape.rows : b->shape.cols;
  int64_t batch = a->shape.batch > b->shape.batch ? a->shape.batch : b->shape.batch;
  double *sums = cf_memory(s, (size_t)(batch * m * n) * sizeof *sums);
  for (int64_t l = 0; l < batch; l++)
    for (int64_t i = 0; i < m; i++)
      for (int64_t p = 0; p < k; p++) {
        double x = fabs(value_at(a, trans_a, l, i, p)), *row = sums + (l * m + i) * n;
        for (int64_t j = 0; j < n; j++) row[j] += x * fabs(value_at(b, trans_b, l, p, j));
      }
  return sums;
}

/* One element over k: products p[0], p[1], ... Which part of k a group adds to, and from which sum
 * on, is the kernel's: no part of a sum is larger than the range of the sums up to a group's end.
 */
static double kept(const double *products, int64_t k) {
  double low = 0, high = 0, sum = 0, lost = 0;
  for (int64_t p = 0; p < k; p++) {
    sum += products[p];
    low = fmin(low, sum);
    high = fmax(high, sum);
  }
  for (int64_t p = 0; p < k; p += LO_F8_GROUP) {
    double largest = high - low;
    for (int64_t i = p; i < k && i < p + LO_F8_GROUP; i++)
      largest = fmax(largest, fabs(products[i]));
    lost += lo_f8_lost(largest);
  }
  return lost;
}

/* The host's sums of 8-bit floats are f32's. */
double *cf_kept(cf_session *s, const cf_operand *a, int trans_a, const cf_operand *b, int trans_b,
                bool fast) {
  if (s->on_host || !(CF_F8 & CF_BIT(a->shape.type))) return NULL;
  int64_t m = trans_a ? a->shape.cols : a->shape.rows, k = trans_a ? a->shape.rows : a->shape.cols;
  int64_t n = trans_b ? b->shape.rows : b->shape.cols, part = fast ? k : LO_F8_PROMOTED;
  int64_t batch = a->shape.batch > b->shape.batch ? a->shape.batch : b->shape.batch;
  double *lost = cf_memory(s, (size_t)(batch * m * n) * sizeof *lost);
  double *products = cf_memory(s, (size_t)k * sizeof *products);
  for (int64_t e = 0; e < batch * m * n; e++) {
    const int64_t l = e / n / m, i = e / n % m, j = e % n;
    for (int64_t p = 0; p < k; p++)
      products[p] = value_at(a, trans_a, l, i, p) * value_at(b, trans_b, l, p, j);
    for (int64_t p = 0; p < k; p += part)
      lost[e] += kept(products + p, k - p < part ? k - p : part);
  }
  return lost;
}

double *cf_bound(cf_session *s, cf_operand *o) {
  if (!o->bound) o->bound = cf_memory(s, (size_t)o->count * sizeof *o->bound);
  return o->bound;
}

/* What is stored with 16 bits or less may have a shorter GELU or SiLU: within 2^-17 of the result in
 * f16, 2^-12 else (backends/cuda/prelude.cuh), an eighth of bf16's rounding. */
void cf_add_short(cf_session *s, cf_operand *o, layerops_activation kind) {
  double *expected = cf_read(s, o, CF_REFERENCE), *bound = cf_bound(s, o);
  double error = o->shape.type == LAYEROPS_F16 ? 0x1p-17 : 0x1p-12;
  bool shorter = kind == LAYEROPS_GELU || kind == LAYEROPS_SILU;
  if (s->on_host || o->shape.type == LAYEROPS_F32 || !shorter) return;
  for (int64_t n = 0; n < o->count; n++)
    if (isfinite(expected[n])) bound[n] += error * fabs(expected[n]);
}

void cf_add_store(cf_session *s, cf_operand *o) {
  double *expected = cf_read(s, o, CF_REFERENCE), *bound = cf_bound(s, o);
  for (int64_t n = 0; n < o->count; n++)
    if (isfinite(expected[n])) bound[n] += stored(o, expected[n], bound[n]);
}

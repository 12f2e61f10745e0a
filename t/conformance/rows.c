#include <config.h>

#include <float.h>
#include <math.h>

#include "t/conformance/rows.h"
#include "t/conformance/session.h"

/* exp(t) of t = x - shift, which is rounded, times log2(e) where exp2 is the base: three roundings
 * of the argument, each |t| u, then 4 ulp (8 u) of the function. */
static double exp_error(double t) {
  return CF_U * (3 * fabs(t) + 8);
}

/* Each term's error counts by its share of the sum; then c(n) u of the summation itself. */
cf_row cf_row_of(const double *x, int64_t n) {
  cf_row r = {.shift = -INFINITY};
  double errors = 0;
  for (int64_t j = 0; j < n; j++) r.shift = fmax(r.shift, x[j]);
  for (int64_t j = 0; j < n; j++) {
    double t = x[j] - r.shift, e = exp(t);
    r.sum += e;
    if (e > 0) errors += e * exp_error(t);
  }
  r.error = errors / r.sum + CF_U * cf_steps(LAYEROPS_F32, n);
  return r;
}

/* The quotient: the errors of both, and 4 u for the division or the reciprocal and the product. A
 * term that underflows may be flushed. */
double cf_softmax_error(const cf_row *r, double x) {
  double t = x - r->shift, y = exp(t) / r->sum;
  if (isinf(x)) return 0;
  return y * (exp_error(t) + r->error + 4 * CF_U) + FLT_MIN;
}

/* x - shift - log(sum): two roundings, log's 4 ulp, and the relative error of sum becomes an
 * absolute one. */
double cf_log_softmax_error(const cf_row *r, double x) {
  if (isinf(x)) return 0;
  double t = x - r->shift, logarithm = log(r->sum);
  return CF_U * (2 * fabs(t) + fabs(t - logarithm) + 8 * fabs(logarithm)) + r->error + FLT_MIN;
}

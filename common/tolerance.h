/* How far a sum may be from the true one: for the tests, and for tuning, which takes no kernel
 * unseen. */
#ifndef LO_TOLERANCE_H
#define LO_TOLERANCE_H

#include <math.h>

#include <layerops/base.h>

/* c(k) of a sum of k products in f32: its error is at most c(k) u sum|x||w| with u = 2^-24, the
 * most that one rounding to f32 adds relatively.
 *
 * Whatever the order, k u is the worst. Roundings behave as independent, zero-mean errors: then the
 * sum stays within l sqrt(k) u but for a probability of 2 exp(-l^2 / 2) (Higham and Mary, "A new
 * approach to probabilistic rounding error analysis", 2019, theorem 2.4). l = 8 makes that 2.5e-14
 * an element.
 *
 * Tensor cores of 16-bit inputs add groups of at least 8 exact products, and truncate: at most 2 u
 * a group, all in one direction, k / 4 in all. Those of f32 as bf16 parts truncate sums of 32
 * products, twice 2 u at most (backends/cuda/triple.cuh): less than the roundings of as many. */
static inline double lo_sum_steps(layerops_type type, int64_t k) {
  double n = (double)k, likely = fmin(n, 8 * sqrt(n));
  return type == LAYEROPS_F32 ? likely : fmax(likely, n / 4);
}

#endif

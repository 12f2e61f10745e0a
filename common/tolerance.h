/* How far a sum may be from the true one: for the tests, and for tuning, which takes no kernel
 * unseen. */
#ifndef LO_TOLERANCE_H
#define LO_TOLERANCE_H

#include <math.h>
#include <stdbool.h>

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

/* Hopper's tensor cores multiply 8-bit floats in groups of 32 of k. The exact products of a group
 * and the sum so far are cut, towards 0, to multiples of 2^-13 of the power of two of the largest
 * of them, M, and then added: 33 numbers, each of which loses less than 2^-13 M. Kernels hand sums
 * over 128 of k to f32, unless FAST_ACCUM lets them go on. */
enum { LO_F8_GROUP = 32, LO_F8_PROMOTED = 128 };

/* What a group may lose whose largest number, of products and sum, is `largest`. */
static inline double lo_f8_lost(double largest) {
  return (LO_F8_GROUP + 1) * 0x1p-13 * largest;
}

/* The same over k, in units of u sum|x||w|, with the sum of all that was added so far in place of
 * M: beside lo_sum_steps of the sums in f32. */
static inline double lo_f8_steps(int64_t k, bool fast) {
  const int64_t at_once = fast || k < LO_F8_PROMOTED ? k : LO_F8_PROMOTED;
  return ceil((double)at_once / LO_F8_GROUP) * lo_f8_lost(1) * 0x1p24;
}

#endif

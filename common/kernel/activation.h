/* Activations and their derivatives, written once, in the subset that C, CUDA C and OpenCL C share.
 *
 * Whoever includes this file defines before:
 *   LO_FN                    what stands before a function: static inline, static __device__ ...
 *   lo_exp(x)                e^x, within a few ulp, 0 at -infinity, infinity at +infinity
 *   lo_tanh(x)               tanh(x), exact +-1 for large |x|, no overflow inside
 *   lo_normal(x, &density)   the normal distribution: Phi(x) with a small relative error in the tail
 *                            below, and its density phi(x)
 *   lo_rcp(x)                1 / x
 * all of which let NaN through. `float` may stand for a vector: its owner also defines
 *   lo_real(c)                      a constant
 *   lo_if_less(a, b, yes, no)       a < b ? yes : no
 *   lo_if_at_most(a, b, yes, no)    a <= b ? yes : no
 *
 * The reference does not use this file, so that a fault here shows. A new activation is one case in
 * each function, a number in codes.h and base.h, and a row in common/names.c.
 *
 * Comparisons are written so that NaN falls through to the value itself. */
#ifndef LO_KERNEL_ACTIVATION_H
#define LO_KERNEL_ACTIVATION_H

#ifndef lo_real
#define lo_real(c)                   ((float)(c))
#define lo_if_less(a, b, yes, no)    ((a) < (b) ? (yes) : (no))
#define lo_if_at_most(a, b, yes, no) ((a) <= (b) ? (yes) : (no))
#endif

/* |z| beyond this changes nothing any more: every tail has underflowed. Clamping keeps infinity
 * times zero out and NaN in. */
#define LO_TAIL 110.0f

LO_FN float lo_at_least(float z, float limit) {
  return lo_if_less(z, limit, limit, z);
}

LO_FN float lo_clamp(float z, float limit) {
  return lo_if_less(limit, z, limit, lo_at_least(z, -limit));
}

LO_FN float lo_sigmoid(float z) {
  return lo_rcp(1.0f + lo_exp(-z));
}

/* The argument of tanh in the tanh form of GELU: sqrt(2/pi) (z + 0.044715 z^3). */
LO_FN float lo_gelu_inner(float z) {
  return 0.7978845608028654f * z * (1.0f + 0.044715f * z * z);
}

/* act(z) */
LO_FN float lo_activation(int kind, float z, float slope) {
  const float zero = lo_real(0.0f);
  float c = lo_at_least(z, lo_real(-LO_TAIL)), density;
  switch (kind) {
  case LO_ACT_RELU:
    return lo_if_less(z, zero, zero, z);
  case LO_ACT_LEAKY_RELU:
    return lo_if_less(z, zero, slope * z, z);
  case LO_ACT_GELU:
    return c * lo_normal(z, &density);
  case LO_ACT_GELU_TANH:
    /* 1 + tanh(u) = 2 / (1 + exp(-2u)): no cancellation in the negative tail */
    return c * lo_rcp(1.0f + lo_exp(-2.0f * lo_gelu_inner(c)));
  case LO_ACT_SILU:
    return c * lo_rcp(1.0f + lo_exp(-z));
  case LO_ACT_SIGMOID:
    return lo_sigmoid(z);
  case LO_ACT_TANH:
    return lo_tanh(z);
  default:
    return z;
  }
}

/* act'(.) from the saved value s: the output for relu, leaky relu, sigmoid and tanh, else z. */
LO_FN float lo_activation_derivative(int kind, float s, float slope) {
  const float zero = lo_real(0.0f), one = lo_real(1.0f);
  float c, t, u, d;
  switch (kind) {
  case LO_ACT_RELU:
    return lo_if_less(zero, s, one, lo_if_at_most(s, zero, zero, s));
  case LO_ACT_LEAKY_RELU:
    return lo_if_less(zero, s, one, lo_if_at_most(s, zero, slope, s));
  case LO_ACT_GELU: /* Phi(z) + z phi(z) */
    c = lo_clamp(s, lo_real(LO_TAIL));
    t = lo_normal(c, &d);
    return t + c * d;
  case LO_ACT_GELU_TANH: /* with g = 1 / (1 + exp(-2 inner)): g + 2 z g (1 - g) inner' */
    c = lo_clamp(s, lo_real(30.0f));
    d = 0.7978845608028654f * (1.0f + 3.0f * 0.044715f * c * c);
    /* by exp(-2 |inner|), which underflows late where exp(2 |inner|) would overflow early */
    u = lo_exp(lo_if_less(c, zero, lo_real(2.0f), lo_real(-2.0f)) * lo_gelu_inner(c));
    t = lo_rcp(1.0f + u);
    return lo_if_less(c, zero, u * t, t) + 2.0f * c * d * (u * t * t);
  case LO_ACT_SILU: /* with g = 1 / (1 + exp(-z)): g (1 + z (1 - g)); by exp(-|z|) likewise */
    c = lo_clamp(s, lo_real(LO_TAIL));
    u = lo_exp(lo_if_less(c, zero, c, -c));
    t = lo_rcp(1.0f + u);
    d = u * t; /* of g and 1 - g the smaller */
    return lo_if_less(c, zero, d, t) * (1.0f + c * lo_if_less(c, zero, t, d));
  case LO_ACT_SIGMOID:
    return s * (1.0f - s);
  case LO_ACT_TANH:
    return (1.0f - s) * (1.0f + s);
  default:
    return one;
  }
}

#endif

/* Activations and their derivatives, written once, in the subset that C, CUDA C and OpenCL C share.
 *
 * Whoever includes this file defines before:
 *   LO_FN         what stands before a function: static inline, static __device__ __forceinline__,
 * ... lo_exp(x)     e^x          within a few ulp, 0 at -infinity, infinity at +infinity, NaN at
 * NaN lo_erfc(x)    1 - erf(x)   with a small relative error in the tail lo_tanh(x)    tanh(x)
 * exact +-1 for large |x|, no overflow inside lo_rcp(x)     1 / x The reference does not use this
 * file, so that a fault here shows. A new activation is one case in each function, a number in
 * codes.h and base.h, and a row in common/names.c.
 *
 * Comparisons are written so that NaN falls through to the value itself. */
#ifndef LO_KERNEL_ACTIVATION_H
#define LO_KERNEL_ACTIVATION_H

/* |z| beyond this changes nothing any more: every tail has underflowed. Clamping keeps infinity
 * times zero out and NaN in. */
#define LO_TAIL 110.0f

LO_FN float lo_clamp(float z, float limit) {
  return z < -limit ? -limit : z > limit ? limit : z;
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
  float c;
  switch (kind) {
  case LO_ACT_RELU:
    return z < 0.0f ? 0.0f : z;
  case LO_ACT_LEAKY_RELU:
    return z < 0.0f ? slope * z : z;
  case LO_ACT_GELU:
    return 0.5f * (z < -LO_TAIL ? -LO_TAIL : z) * lo_erfc(-0.7071067811865476f * z);
  case LO_ACT_GELU_TANH:
    /* 1 + tanh(u) = 2 / (1 + exp(-2u)): no cancellation in the negative tail */
    c = z < -LO_TAIL ? -LO_TAIL : z;
    return c * lo_rcp(1.0f + lo_exp(-2.0f * lo_gelu_inner(c)));
  case LO_ACT_SILU:
    return (z < -LO_TAIL ? -LO_TAIL : z) * lo_rcp(1.0f + lo_exp(-z));
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
  float c, t, u, d;
  switch (kind) {
  case LO_ACT_RELU:
    return s > 0.0f ? 1.0f : s <= 0.0f ? 0.0f : s;
  case LO_ACT_LEAKY_RELU:
    return s > 0.0f ? 1.0f : s <= 0.0f ? slope : s;
  case LO_ACT_GELU: /* Phi(z) + z phi(z) */
    c = lo_clamp(s, LO_TAIL);
    return 0.5f * lo_erfc(-0.7071067811865476f * c) +
           0.3989422804014327f * c * lo_exp(-0.5f * c * c);
  case LO_ACT_GELU_TANH: /* with g = 1 / (1 + exp(-2 inner)): g + 2 z g (1 - g) inner' */
    c = lo_clamp(s, 30.0f);
    d = 0.7978845608028654f * (1.0f + 3.0f * 0.044715f * c * c);
    /* by exp(-2 |inner|), which underflows late where exp(2 |inner|) would overflow early */
    u = lo_exp((c < 0.0f ? 2.0f : -2.0f) * lo_gelu_inner(c));
    t = lo_rcp(1.0f + u);
    return (c < 0.0f ? u * t : t) + 2.0f * c * d * (u * t * t);
  case LO_ACT_SILU: /* g + z g (1 - g) */
    c = lo_clamp(s, LO_TAIL);
    t = lo_sigmoid(c);
    return t * (1.0f + c * lo_sigmoid(-c));
  case LO_ACT_SIGMOID:
    return s * (1.0f - s);
  case LO_ACT_TANH:
    return (1.0f - s) * (1.0f + s);
  default:
    return 1.0f;
  }
}

#endif

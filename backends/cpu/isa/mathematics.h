/* exp, log, tanh and the normal distribution on vectors, without branches; and the activations on
 * them. Rounding to nearest is assumed. Errors in ulp of the result, as t/cpu_math.c measures them:
 * exp 1.01 down to the smallest subnormal, tanh 1.33 (over all floats); log 0.82, sigmoid 2.4,
 * silu 2.7, gelu 5.8 down to the subnormals, silu' 4.1, gelu' 3.8 (over one in 31). */
#ifndef LO_ISA_MATHEMATICS_H
#define LO_ISA_MATHEMATICS_H

#include "backends/cpu/isa/vector.h"
#include "common/kernel/codes.h"

/* x 2^count, subnormal results included. `shifted` is 1.5 2^23 + count: the whole number in its
 * last bits. Where no instruction does it, in halves: count may exceed what one exponent holds. */
LO_FN vf v_scale(vf x, vf count, vf shifted) {
#if defined __AVX512F__
  (void)shifted;
  return _mm512_scalef_ps(x, count);
#else
  (void)count;
  vi n = (vi)shifted - 0x4b400000, half = n >> 1;
  return x * (vf)((half + 127) << 23) * (vf)((n - half + 127) << 23);
#endif
}

/* exp(x + low) for a tiny low: Cephes' r + r^2 P(r) on |r| <= ln(2) / 2 after two-constant
 * reduction. The clamps let NaN through and leave infinity and 0 as results. */
LO_FN vf v_exp_of_sum(vf x, vf low) {
  const vf round = v_all(0x1.8p23f);
  x = v_max(v_all(-104.0f), v_min(v_all(89.0f), x));
  vf shifted = v_fma(x, v_all(1.44269504088896341f), round);
  vf count = shifted - round;
  vf r = v_fma(count, v_all(-0.693359375f), x);
  r = v_fma(count, v_all(2.12194440e-4f), r) + low;
  vf p = v_fma(v_all(1.9875691500e-4f), r, v_all(1.3981999507e-3f));
  p = v_fma(p, r, v_all(8.3334519073e-3f));
  p = v_fma(p, r, v_all(4.1665795894e-2f));
  p = v_fma(p, r, v_all(1.6666665459e-1f));
  p = v_fma(p, r, v_all(5.0000001201e-1f));
  p = v_fma(p, r * r, r) + 1.0f;
  return v_scale(p, count, shifted);
}

LO_FN vf v_exp(vf x) {
  return v_exp_of_sum(x, v_all(-0.0f)); /* x + -0 is x: the compiler drops it */
}

/* log(x) for 0 and for x from the smallest normal number on, infinity and NaN included; Cephes'
 * polynomial on [sqrt(1/2), sqrt 2]. */
LO_FN vf v_log(vf x) {
  vi exponent = ((vi)x - 0x3f3504f3) >> 23;
  vf e = __builtin_convertvector(exponent, vf), f = (vf)((vi)x - (exponent << 23)) - 1.0f;
  vf p = v_fma(v_all(7.0376836292e-2f), f, v_all(-1.1514610310e-1f));
  p = v_fma(p, f, v_all(1.1676998740e-1f));
  p = v_fma(p, f, v_all(-1.2420140846e-1f));
  p = v_fma(p, f, v_all(1.4249322787e-1f));
  p = v_fma(p, f, v_all(-1.6668057665e-1f));
  p = v_fma(p, f, v_all(2.0000714765e-1f));
  p = v_fma(p, f, v_all(-2.4999993993e-1f));
  p = v_fma(p, f, v_all(3.3333331174e-1f));
  vf square = f * f, y = v_fma(p * f, square, e * -2.12194440e-4f);
  y = v_fma(e, v_all(0.693359375f), v_fma(square, v_all(-0.5f), y) + f);
  y = v_if_at_most(x, v_all(0.0f), v_all(-__builtin_inff()), y);
  return v_if_less(x, v_all(__builtin_inff()), y, x);
}

/* Cephes: an odd polynomial near 0, where 1 - 2 / (exp(2|x|) + 1) cancels. */
LO_FN vf v_tanh(vf x) {
  vf a = v_abs(x), z = x * x;
  vf p = v_fma(v_all(-5.70498872745e-3f), z, v_all(2.06390887954e-2f));
  p = v_fma(p, z, v_all(-5.37397155531e-2f));
  p = v_fma(p, z, v_all(1.33314422036e-1f));
  p = v_fma(p, z, v_all(-3.33332819422e-1f));
  vf near = v_fma(p * z, x, x);
  vf far = v_copysign(1.0f - 2.0f / (v_exp(a + a) + 1.0f), x);
  return v_if_less(a, v_all(0.625f), near, far);
}

/* The rounding error of u * u. */
LO_FN vf v_square_error(vf u, vf square) {
#if LO_FUSED
  return v_fma(u, u, -square);
#else
  vf high = (vf)((vi)u & ~0xfff), low = u - high;
  return ((high * high - square) + 2.0f * high * low) + low * low;
#endif
}

/* The normal distribution: returns Phi(x) = erfc(-x / sqrt 2) / 2, density = phi(x).
 *
 * For u = |x|: exp(-u^2 / 2) (with the rounding error of u^2, or the tail loses 5 bits) times
 * P(s) / (1 + sqrt(2) u) = erfcx(u / sqrt 2), s = 2 u / (u + sqrt 8): small where u is, so that
 * errors are. P fits to 1.5e-9 on [0, 14.8], beyond which Phi is 0. */
LO_FN vf v_normal(vf x, vf *density) {
  vf u = v_min(v_all(14.8f), v_abs(x));
  vf s = 2.0f * u / (u + 2.8284271247f);
  vf p = v_fma(v_all(8.383818212e-5f), s, v_all(-7.444121264e-4f));
  p = v_fma(p, s, v_all(2.43118673e-3f));
  p = v_fma(p, s, v_all(-3.645584865e-3f));
  p = v_fma(p, s, v_all(4.555432721e-3f));
  p = v_fma(p, s, v_all(-7.725246108e-3f));
  p = v_fma(p, s, v_all(-1.066055464e-2f));
  p = v_fma(p, s, v_all(3.304424132e-2f));
  p = v_fma(p, s, v_all(2.089734599e-1f));
  p = v_fma(p, s, v_all(-8.20955062e-1f));
  p = v_fma(p, s, v_all(8.716210847e-1f));
  p = v_fma(p, s, v_all(1.0f));
  vf square = u * u;
  vf e = v_exp_of_sum(-0.5f * square, -0.5f * v_square_error(u, square));
  vf tail = p * 0.5f / v_fma(v_all(1.4142135624f), u, v_all(1.0f)) * e;
  *density = e * 0.3989422804014327f;
  return v_if_less(v_all(0.0f), x, 1.0f - tail, tail);
}

/* activation.h is written for `float`, which stands for a vector while it passes. */
#define lo_exp                       v_exp
#define lo_tanh                      v_tanh
#define lo_normal                    v_normal
#define lo_rcp(x)                    (1.0f / (x))
#define lo_real(c)                   v_all(c)
#define lo_if_less(a, b, yes, no)    v_if_less(a, b, yes, no)
#define lo_if_at_most(a, b, yes, no) v_if_at_most(a, b, yes, no)
#define float vf
#include "common/kernel/activation.h"
#undef float

#endif

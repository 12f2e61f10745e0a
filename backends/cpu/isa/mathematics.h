/* exp, erfc and tanh without branches, so that loops over them become vectors; and the activations
 * on them. Errors in ulp of the result, over all floats (t/cpu_math.c): exp 1.0 down to the
 * smallest subnormal, tanh 1.3, erfc 4. Rounding to nearest is assumed. */
#ifndef LO_ISA_MATHEMATICS_H
#define LO_ISA_MATHEMATICS_H

#include "backends/cpu/isa/part.h"
#include "common/kernel/codes.h"

#define LO_FN static inline __attribute__((always_inline))

/* exp(x + low) for a tiny low: Cephes' r + r^2 P(r) on |r| <= ln(2) / 2 after two-constant
 * reduction. The clamps let NaN through and leave infinity and 0 as results; 2^n is applied in
 * halves, since n may exceed what one exponent holds. */
LO_FN float lo_exp_of_sum(float x, float low) {
  const float round = 0x1.8p23f;
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  float shifted = x * 1.44269504088896341f + round;
  uint32_t n = bits_of(shifted) - 0x4b400000u;
  float count = shifted - round;
  float r = fma32(count, -0.693359375f, x);
  r = fma32(count, 2.12194440e-4f, r) + low;
  float p = fma32(1.9875691500e-4f, r, 1.3981999507e-3f);
  p = fma32(p, r, 8.3334519073e-3f);
  p = fma32(p, r, 4.1665795894e-2f);
  p = fma32(p, r, 1.6666665459e-1f);
  p = fma32(p, r, 5.0000001201e-1f);
  p = fma32(p, r * r, r) + 1.0f;
  uint32_t half = (uint32_t)((int32_t)n >> 1);
  return p * float_of((half + 127) << 23) * float_of((n - half + 127) << 23);
}

LO_FN float lo_exp(float x) {
  return lo_exp_of_sum(x, 0.0f);
}

LO_FN float lo_rcp(float x) {
  return 1.0f / x;
}

/* Cephes: an odd polynomial near 0, where 1 - 2 / (exp(2|x|) + 1) cancels. */
LO_FN float lo_tanh(float x) {
  float a = __builtin_fabsf(x), z = x * x;
  float p = fma32(-5.70498872745e-3f, z, 2.06390887954e-2f);
  p = fma32(p, z, -5.37397155531e-2f);
  p = fma32(p, z, 1.33314422036e-1f);
  p = fma32(p, z, -3.33332819422e-1f);
  float near = fma32(p * z, x, x);
  float far = __builtin_copysignf(1.0f - 2.0f / (lo_exp(a + a) + 1.0f), x);
  return a < 0.625f ? near : far;
}

/* The rounding error of u * u. */
LO_FN float lo_square_error(float u, float square) {
#if LO_FUSED
  return fma32(u, u, -square);
#else
  float high = float_of(bits_of(u) & 0xfffff000), low = u - high;
  return ((high * high - square) + 2.0f * high * low) + low * low;
#endif
}

/* For u = |x|: exp(-u^2) (with the rounding error of u^2, or the tail loses 5 bits) times erfcx(u),
 * which is P(s) / (1 + 2u), s = 2u / (u + 2): small where u is, so that errors are. P fits
 * to 1.5e-9 on [0, 10.5], beyond which erfc is 0. */
LO_FN float lo_erfc(float x) {
  float u = __builtin_fabsf(x);
  u = u > 10.5f ? 10.5f : u;
  float s = 2.0f * u / (u + 2.0f);
  float p = fma32(8.383818212e-5f, s, -7.444121264e-4f);
  p = fma32(p, s, 2.43118673e-3f);
  p = fma32(p, s, -3.645584865e-3f);
  p = fma32(p, s, 4.555432721e-3f);
  p = fma32(p, s, -7.725246108e-3f);
  p = fma32(p, s, -1.066055464e-2f);
  p = fma32(p, s, 3.304424132e-2f);
  p = fma32(p, s, 2.089734599e-1f);
  p = fma32(p, s, -8.20955062e-1f);
  p = fma32(p, s, 8.716210847e-1f);
  p = fma32(p, s, 1.0f);
  float square = u * u;
  float y = p / fma32(2.0f, u, 1.0f) * lo_exp_of_sum(-square, -lo_square_error(u, square));
  return x < 0.0f ? 2.0f - y : y;
}

#include "common/kernel/activation.h"

#endif

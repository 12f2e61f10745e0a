/* 8 x 8 by smlal on the halves of the words. */
#include <config.h>

#include <arm_neon.h>

typedef int32x4_t vec;
#define LANES           4
#define MAX_ROWS        8
#define vec_zero()      vdupq_n_s32(0)
#define vec_load(p)     vld1q_s32((const int32_t *)(p))
#define vec_store(p, v) vst1q_s32(p, v)
#define vec_word(x)     vdupq_n_s32((int32_t)(x))

/* Products of the lower and of the upper halves, which the pairs of a word are. */
static inline vec vec_dot(vec x, vec w, vec sums) {
  const int16x8_t a = vreinterpretq_s16_s32(x), b = vreinterpretq_s16_s32(w);
  sums = vmlal_s16(sums, vmovn_s32(x), vmovn_s32(w));
  return vmlal_s16(sums, vget_low_s16(vuzp2q_s16(a, a)), vget_low_s16(vuzp2q_s16(b, b)));
}
#define ROWS(X)      X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define FLOPS_PER_NS 15
#include "backends/cpu/isa/grouped_integers.h"

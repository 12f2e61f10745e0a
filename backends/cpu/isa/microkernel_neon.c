/* 12 x 8: 24 sums, 2 vectors of W, 1 broadcast: 27 of the 32 registers. */
#include <config.h>

#include <arm_neon.h>

typedef float32x4_t vec;
#define LANES            4
#define vec_zero()       vdupq_n_f32(0)
#define vec_load(p)      vld1q_f32(p)
#define vec_store(p, v)  vst1q_f32(p, v)
#define vec_broadcast(p) vld1q_dup_f32(p)
#define vec_fma(a, b, c) vfmaq_f32(c, a, b)
#define vec_add(a, b)    vaddq_f32(a, b)
#define vec_mul(a, b)    vmulq_f32(a, b)
#define vec_max(a, b)    vmaxq_f32(a, b)

static inline vec vec_load_part(const float *p, int n) {
  float part[4] = {0, 0, 0, 0};
  for (int i = 0; i < n; i++) part[i] = p[i];
  return vld1q_f32(part);
}
static inline void vec_store_part(float *p, vec v, int n) {
  float part[4];
  vst1q_f32(part, v);
  for (int i = 0; i < n; i++) p[i] = part[i];
}
static inline void vec_store_sums(float *p, vec a, vec b, vec c, vec d) {
  vst1q_f32(p, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)));
}

static inline vec vec_join(const float *const *x, int parts) {
  (void)parts; /* a slice is no narrower than a vector */
  return vec_load(x[0]);
}

#define RESIDENT  13
#define MOST_ROWS 12
#define VECTORS   2
#define TILES(X)  UPTO_12(X, 1) UPTO_12(X, 2)
#define TILE_ROWS                                                                                  \
  { 12, 12 }
#define DOT_COLUMNS 4
#define DOTS(X)     UPTO_8(X, 1) UPTO_8(X, 2) UPTO_8(X, 3) UPTO_6(X, 4)
#define DOT_ROWS                                                                                   \
  { 8, 8, 8, 6 }
#define SLICE_ROWS    4
#define SLICE_VECTORS 2
#define SLICES(X)     X(4, 1, 1) X(4, 2, 1)
#define SHAPE         "12x8"
#define FLOPS_PER_NS  30
#include "backends/cpu/isa/microkernel.h"

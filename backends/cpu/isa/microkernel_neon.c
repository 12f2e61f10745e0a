/* 12 x 8: 24 sums, 2 vectors of W, 1 broadcast: 27 of the 32 registers. */
#include <config.h>

#include <arm_neon.h>

typedef float32x4_t vec;
#define LANES            4
#define MAX_ROWS         12
#define vec_zero()       vdupq_n_f32(0)
#define vec_load(p)      vld1q_f32(p)
#define vec_store(p, v)  vst1q_f32(p, v)
#define vec_broadcast(p) vld1q_dup_f32(p)
#define vec_fma(a, b, c) vfmaq_f32(c, a, b)
#define ROWS(X)          X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define PANEL            "8"
#define FLOPS_PER_NS     30
#include "backends/cpu/isa/microkernel.h"

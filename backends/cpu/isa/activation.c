/* Activations and derivatives over arrays: one loop for each kind, so that the kind is a constant
 * in it. */
#include <config.h>

#include "backends/cpu/isa/mathematics.h"

#define KINDS(X)                                                                                   \
  X(LO_ACT_RELU)                                                                                   \
  X(LO_ACT_LEAKY_RELU)                                                                             \
  X(LO_ACT_GELU)                                                                                   \
  X(LO_ACT_GELU_TANH)                                                                              \
  X(LO_ACT_SILU)                                                                                   \
  X(LO_ACT_SIGMOID)                                                                                \
  X(LO_ACT_TANH)                                                                                   \
  X(LO_ACT_IDENTITY)

LO_FN void activate(int kind, vf slope, const float *x, float *y, int64_t n) {
  V_EACH(n, j, left, {
    vf v = v_load_upto(x + j, left, v_all(0));
    v_store_upto(y + j, lo_activation(kind, v, slope), left);
  });
}

void LO_ISA_NAME(lo_activate)(layerops_activation kind, float slope, const float *x, float *y,
                              int64_t n) {
  switch (kind) {
#define X(constant)                                                                                \
  case constant:                                                                                   \
    activate(constant, v_all(slope), x, y, n);                                                     \
    break;
    KINDS(X)
#undef X
  }
}

LO_FN void derive(int kind, vf slope, const float *dy, const float *saved, float *dx, int64_t n) {
  V_EACH(n, j, left, {
    vf d = lo_activation_derivative(kind, v_load_upto(saved + j, left, v_all(0)), slope);
    v_store_upto(dx + j, v_load_upto(dy + j, left, v_all(0)) * d, left);
  });
}

void LO_ISA_NAME(lo_derive)(layerops_activation kind, float slope, const float *dy,
                            const float *saved, float *dx, int64_t n) {
  switch (kind) {
#define X(constant)                                                                                \
  case constant:                                                                                   \
    derive(constant, v_all(slope), dy, saved, dx, n);                                              \
    break;
    KINDS(X)
#undef X
  }
}

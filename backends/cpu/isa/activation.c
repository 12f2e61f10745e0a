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

void LO_ISA_NAME(lo_activate)(layerops_activation kind, float slope, const float *x, float *y,
                              int64_t n) {
  switch (kind) {
#define X(constant)                                                                                \
  case constant:                                                                                   \
    LO_EACH                                                                                        \
    for (int64_t j = 0; j < n; j++) y[j] = lo_activation(constant, x[j], slope);                   \
    break;
    KINDS(X)
#undef X
  }
}

void LO_ISA_NAME(lo_derive)(layerops_activation kind, float slope, const float *dy,
                            const float *saved, float *dx, int64_t n) {
  switch (kind) {
#define X(constant)                                                                                \
  case constant:                                                                                   \
    LO_EACH                                                                                        \
    for (int64_t j = 0; j < n; j++)                                                                \
      dx[j] = dy[j] * lo_activation_derivative(constant, saved[j], slope);                         \
    break;
    KINDS(X)
#undef X
  }
}

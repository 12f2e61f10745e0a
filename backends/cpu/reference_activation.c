#include <config.h>

#include <math.h>

#include "backends/cpu/reference.h"

static double logistic(double z) {
  return 1 / (1 + exp(-z));
}

/* sqrt(2/pi) (z + 0.044715 z^3), and its derivative. */
static double inner(double z) {
  return sqrt(2 / M_PI) * (z + 0.044715 * z * z * z);
}
static double inner_slope(double z) {
  return sqrt(2 / M_PI) * (1 + 3 * 0.044715 * z * z);
}

/* 1 + tanh(u), without cancellation where u is negative. */
static double one_plus_tanh(double u) {
  return u > 0 ? 1 + tanh(u) : 2 * exp(2 * u) / (1 + exp(2 * u));
}

double lo_ref_activation(layerops_activation kind, double z, double slope) {
  switch (kind) {
  case LAYEROPS_RELU:
    return z < 0 ? 0 : z;
  case LAYEROPS_LEAKY_RELU:
    return z < 0 ? slope * z : z;
  case LAYEROPS_GELU:
    return isinf(z) && z < 0 ? -0.0 : 0.5 * z * erfc(-z * M_SQRT1_2);
  case LAYEROPS_GELU_TANH:
    return isinf(z) && z < 0 ? -0.0 : 0.5 * z * one_plus_tanh(inner(z));
  case LAYEROPS_SILU:
    return isinf(z) && z < 0 ? -0.0 : z * logistic(z);
  case LAYEROPS_SIGMOID:
    return logistic(z);
  case LAYEROPS_TANH:
    return tanh(z);
  default:
    return z;
  }
}

static double gelu_derivative(double z) {
  double density = exp(-0.5 * z * z) / sqrt(2 * M_PI);
  return 0.5 * erfc(-z * M_SQRT1_2) + z * density;
}

static double gelu_tanh_derivative(double z) {
  double cosine = cosh(inner(z));
  return 0.5 * one_plus_tanh(inner(z)) + 0.5 * z * (1 / cosine / cosine) * inner_slope(z);
}

double lo_ref_derivative(layerops_activation kind, double s, double slope) {
  if (layerops_activation_saves_input(kind) && isinf(s)) return s > 0; /* the limits of the three */
  switch (kind) {
  case LAYEROPS_RELU:
    return isnan(s) ? s : s > 0;
  case LAYEROPS_LEAKY_RELU:
    return isnan(s) ? s : s > 0 ? 1 : slope;
  case LAYEROPS_GELU:
    return gelu_derivative(s);
  case LAYEROPS_GELU_TANH:
    return gelu_tanh_derivative(s);
  case LAYEROPS_SILU:
    return logistic(s) + s * logistic(s) * logistic(-s);
  case LAYEROPS_SIGMOID:
    return s * (1 - s);
  case LAYEROPS_TANH:
    return 1 - s * s;
  default:
    return 1;
  }
}

layerops_status lo_ref_activation_forward(layerops_context *ctx,
                                          const layerops_activation_forward_args *a) {
  ctx->kernel = "plain";
  for (int64_t i = 0; i < a->y.rows; i++)
    for (int64_t j = 0; j < a->y.cols; j++)
      lo_ref_store(&a->y, i, j,
                   lo_ref_activation(a->activation, lo_ref_load(&a->x, i, j), a->slope.value));
  return LAYEROPS_OK;
}

layerops_status lo_ref_activation_backward(layerops_context *ctx,
                                           const layerops_activation_backward_args *a) {
  ctx->kernel = "plain";
  for (int64_t i = 0; i < a->dx.rows; i++)
    for (int64_t j = 0; j < a->dx.cols; j++)
      lo_ref_store(&a->dx, i, j,
                   lo_ref_load(&a->dy, i, j) * lo_ref_derivative(a->activation,
                                                                 lo_ref_load(&a->saved, i, j),
                                                                 a->slope.value));
  return LAYEROPS_OK;
}

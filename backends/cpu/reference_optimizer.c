#include <config.h>

#include <math.h>

#include "backends/cpu/reference.h"

layerops_status lo_ref_sgd(layerops_context *ctx, const layerops_sgd_args *a) {
  double lr = lo_scalar(&a->lr), momentum = lo_scalar(&a->momentum);
  double decay = lo_scalar(&a->weight_decay);
  ctx->kernel = "plain";
  for (int64_t i = 0; i < a->w.rows; i++)
    for (int64_t j = 0; j < a->w.cols; j++) {
      double w = lo_ref_load(&a->w, i, j), step = lo_ref_load(&a->g, i, j) + decay * w;
      if (lo_present(&a->velocity)) {
        double v = momentum * lo_ref_load(&a->velocity, i, j) + step;
        lo_ref_store(&a->velocity, i, j, v);
        step = a->nesterov ? step + momentum * v : v;
      }
      lo_ref_store(&a->w, i, j, w - lr * step);
    }
  return LAYEROPS_OK;
}

layerops_status lo_ref_adam(layerops_context *ctx, const layerops_adam_args *a) {
  double lr = lo_scalar(&a->lr), epsilon = lo_scalar(&a->epsilon);
  double beta1 = lo_scalar(&a->beta1), beta2 = lo_scalar(&a->beta2);
  double decay = lo_scalar(&a->weight_decay), t = lo_scalar(&a->step);
  ctx->kernel = "plain";
  for (int64_t i = 0; i < a->w.rows; i++)
    for (int64_t j = 0; j < a->w.cols; j++) {
      double w = lo_ref_load(&a->w, i, j), g = lo_ref_load(&a->g, i, j);
      if (a->decoupled)
        w -= lr * decay * w;
      else
        g += decay * w;
      double m = beta1 * lo_ref_load(&a->m, i, j) + (1 - beta1) * g;
      double v = beta2 * lo_ref_load(&a->v, i, j) + (1 - beta2) * g * g;
      lo_ref_store(&a->m, i, j, m);
      lo_ref_store(&a->v, i, j, v);
      double mean = m / (1 - pow(beta1, t)), square = v / (1 - pow(beta2, t));
      lo_ref_store(&a->w, i, j, w - lr * mean / (sqrt(square) + epsilon));
    }
  return LAYEROPS_OK;
}

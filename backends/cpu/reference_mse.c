#include <config.h>

#include "backends/cpu/reference.h"

layerops_status lo_ref_mse(layerops_context *ctx, const layerops_mse_args *a) {
  double elements = (double)a->y.rows * (double)a->y.cols, total = 0;
  double reduce = a->reduction == LAYEROPS_MEAN && elements > 0 ? 1 / elements : 1;
  double scale = lo_scalar(&a->grad_scale) * 2 * reduce;
  ctx->kernel = "plain";
  for (int64_t i = 0; i < a->y.rows; i++)
    for (int64_t j = 0; j < a->y.cols; j++) {
      double error = lo_ref_load(&a->y, i, j) - lo_ref_load(&a->target, i, j);
      total += error * error;
      if (lo_present(&a->dy)) lo_ref_store(&a->dy, i, j, scale * error);
    }
  if (lo_present(&a->loss)) lo_ref_store(&a->loss, 0, 0, total * reduce);
  return LAYEROPS_OK;
}

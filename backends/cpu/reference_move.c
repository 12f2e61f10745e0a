/* fill, copy (cast), transpose, gather. */
#include <config.h>

#include "backends/cpu/reference.h"
#include "common/door.h"

layerops_status lo_ref_fill(layerops_context *ctx, const layerops_fill_args *a) {
  double value = lo_scalar(&a->value);
  ctx->kernel = "plain";
  for (int64_t i = 0; i < a->y.rows; i++)
    for (int64_t j = 0; j < a->y.cols; j++) lo_ref_store(&a->y, i, j, value);
  return LAYEROPS_OK;
}

layerops_status lo_ref_copy(layerops_context *ctx, const layerops_copy_args *a) {
  ctx->kernel = "plain";
  for (int64_t i = 0; i < a->y.rows; i++)
    for (int64_t j = 0; j < a->y.cols; j++) lo_ref_store(&a->y, i, j, lo_ref_load(&a->x, i, j));
  return LAYEROPS_OK;
}

layerops_status lo_ref_transpose(layerops_context *ctx, const layerops_transpose_args *a) {
  ctx->kernel = "plain";
  for (int64_t i = 0; i < a->y.rows; i++)
    for (int64_t j = 0; j < a->y.cols; j++) lo_ref_store(&a->y, i, j, lo_ref_load(&a->x, j, i));
  return LAYEROPS_OK;
}

layerops_status lo_ref_gather(layerops_context *ctx, const layerops_gather_args *a) {
  ctx->kernel = "plain";
  LO_TRY(lo_check_labels("gather", "index", &a->index, a->x.rows, LO_NOTHING_IGNORED));
  for (int64_t i = 0; i < a->y.rows; i++)
    for (int64_t j = 0; j < a->y.cols; j++)
      lo_ref_store(&a->y, i, j, lo_ref_load(&a->x, (int64_t)lo_ref_load(&a->index, 0, i), j));
  return LAYEROPS_OK;
}

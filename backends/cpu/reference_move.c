/* fill, copy (cast), transpose, gather. */
#include <config.h>

#include "backends/cpu/reference.h"
#include "common/door.h"

/* y[i,j] = x[from_i,from_j]: of one type its bits, else its value. */
static void move(const layerops_matrix *x, int64_t from_i, int64_t from_j, const layerops_matrix *y,
                 int64_t i, int64_t j) {
  const int64_t size = (int64_t)layerops_type_size(x->type);
  if (x->type == y->type)
    memmove((char *)lo_address(y) + (i * y->stride + j) * size,
            (const char *)lo_address(x) + (from_i * x->stride + from_j) * size, (size_t)size);
  else
    lo_ref_store(y, i, j, lo_ref_load(x, from_i, from_j));
}

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
    for (int64_t j = 0; j < a->y.cols; j++) move(&a->x, i, j, &a->y, i, j);
  return LAYEROPS_OK;
}

layerops_status lo_ref_transpose(layerops_context *ctx, const layerops_transpose_args *a) {
  ctx->kernel = "plain";
  for (int64_t i = 0; i < a->y.rows; i++)
    for (int64_t j = 0; j < a->y.cols; j++) move(&a->x, j, i, &a->y, i, j);
  return LAYEROPS_OK;
}

layerops_status lo_ref_gather(layerops_context *ctx, const layerops_gather_args *a) {
  ctx->kernel = "plain";
  LO_TRY(lo_check_labels("gather", "index", &a->index, a->x.rows, LO_NOTHING_IGNORED));
  for (int64_t i = 0; i < a->y.rows; i++)
    for (int64_t j = 0; j < a->y.cols; j++)
      move(&a->x, (int64_t)lo_ref_load(&a->index, 0, i), j, &a->y, i, j);
  return LAYEROPS_OK;
}

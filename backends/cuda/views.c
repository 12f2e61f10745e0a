/* From public arguments to what kernels take. */
#include <config.h>

#include <string.h>

#include "backends/cuda/cuda.h"

void lo_cuda_flatten(lo_cu_view **views, int count) {
  for (int i = 0; i < count; i++)
    if (views[i]->p && views[i]->rows > 1 && views[i]->stride != views[i]->cols) return;
  for (int i = 0; i < count; i++) {
    lo_cu_view *v = views[i];
    if (!v->p) continue;
    bool whole = (uintptr_t)v->p % (4 * layerops_type_size(v->type)) == 0;
    v->cols = v->stride = v->rows * v->cols;
    v->rows = 1;
    v->vector = whole;
  }
}

lo_cu_grid lo_cuda_grid(layerops_context *ctx, int64_t items) {
  int64_t blocks = (items + 255) / 256, most = 32 * (int64_t)lo_cuda(ctx)->device->sms;
  return (lo_cu_grid){.x = blocks < 1      ? 1
                           : blocks < most ? blocks
                                           : most,
                      .y = 1,
                      .z = 1,
                      .threads = 256};
}

lo_cu_grid lo_cuda_quads(layerops_context *ctx, const lo_cu_view *view) {
  return lo_cuda_grid(ctx, view->rows * ((view->cols + 3) / 4));
}

const char *lo_cuda_shut_out(layerops_context *ctx, const char *name) {
  const char *forced = lo_cuda(ctx)->forced;
  return *forced && strcmp(forced, name) ? "LAYEROPS_CUDA_KERNEL names another kernel" : NULL;
}

layerops_status lo_cuda_scratch(layerops_context *ctx, int64_t bytes, char **out) {
  *out = NULL;
  if (!bytes) return LAYEROPS_OK;
  layerops_buffer *buffer;
  LO_TRY(lo_workspace(ctx, bytes + 256, &buffer));
  lo_cuda(ctx)->scratch = buffer->number;
  *out = (char *)buffer->native + (256 - (uintptr_t)buffer->native % 256) % 256;
  return LAYEROPS_OK;
}

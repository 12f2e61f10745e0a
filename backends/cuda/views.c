/* From public arguments to what kernels take. */
#include <config.h>

#include <string.h>

#include "backends/cuda/cuda.h"

bool lo_cuda_aligned(const layerops_matrix *m, int elements) {
  uintptr_t bytes = (uintptr_t)elements * (uintptr_t)layerops_type_size(m->type);
  return (uintptr_t)lo_address(m) % bytes == 0 && (m->rows == 1 || m->stride % elements == 0) &&
         (m->batch == 1 || m->batch_stride % elements == 0);
}

lo_cu_view lo_cuda_view(const layerops_matrix *m) {
  if (!lo_present(m)) return (lo_cu_view){0};
  void *p = lo_address(m);
  return (lo_cu_view){.p = p,
                      .rows = m->rows,
                      .cols = m->cols,
                      .stride = m->stride,
                      .batch_stride = m->batch == 1 ? 0 : m->batch_stride,
                      .type = m->type,
                      .vector = lo_cuda_aligned(m, 4)};
}

lo_cu_scalar lo_cuda_scalar(const layerops_scalar *s) {
  if (s->kind != 2) return (lo_cu_scalar){.value = s->value};
  return (lo_cu_scalar){.p = (const float *)s->buffer->native + s->offset};
}

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
  return (lo_cu_grid){blocks < 1 ? 1 : blocks < most ? blocks : most, 1, 1, 256, 0};
}

lo_cu_grid lo_cuda_quads(layerops_context *ctx, const lo_cu_view *view) {
  return lo_cuda_grid(ctx, view->rows * ((view->cols + 3) / 4));
}

const char *lo_cuda_shut_out(layerops_context *ctx, const char *name) {
  const char *forced = lo_cuda(ctx)->forced;
  return *forced && strcmp(forced, name) ? "LAYEROPS_CUDA_KERNEL names another kernel" : NULL;
}

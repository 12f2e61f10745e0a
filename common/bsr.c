/* Block-sparse weights: their life. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "common/bsr.h"

void *lo_bsr_memory(int64_t count, size_t size) {
  return calloc(count ? (size_t)count : 1, size);
}

layerops_status lo_bsr_no_memory(const char *function) {
  return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "%s: no memory", function);
}

static layerops_status upload_index(layerops_context *ctx, layerops_bsr *w) {
  lo_bsr_array arrays[LO_BSR_ARRAYS];
  lo_bsr_arrays_of(w, arrays);
  for (const lo_bsr_array *a = arrays; a < arrays + LO_BSR_ARRAYS; a++)
    LO_TRY(layerops_buffer_from(ctx, *a->host, a->count * (int64_t)sizeof(int32_t), a->device));
  return LAYEROPS_OK;
}

layerops_status lo_bsr_fill_in(layerops_context *ctx, layerops_bsr *w) {
  const int64_t elements = w->count * w->height * w->width;
  if (ctx->backend->bsr) LO_TRY(ctx->backend->bsr->create(ctx, w));
  LO_TRY(layerops_buffer_create(ctx, elements * (int64_t)layerops_type_size(w->type), &w->values));
  if (w->type != LAYEROPS_I8) return LAYEROPS_OK;
  return layerops_buffer_create(ctx, w->count * (int64_t)sizeof(float), &w->scales);
}

layerops_status lo_bsr_keep(layerops_status status, layerops_bsr *w, layerops_bsr **bsr) {
  if (status != LAYEROPS_OK) {
    layerops_bsr_destroy(w);
    w = NULL;
  }
  *bsr = w;
  return status;
}

layerops_bsr *lo_bsr_new(const layerops_context *ctx, const lo_bsr_shape *shape, layerops_type type,
                         int64_t count) {
  layerops_bsr *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  *w = (layerops_bsr){.device = ctx->device,
                      .rows = shape->rows,
                      .cols = shape->cols,
                      .height = shape->height,
                      .width = shape->width,
                      .block_rows = shape->block_rows,
                      .block_cols = shape->block_cols,
                      .count = count,
                      .type = type};
  return w;
}

layerops_status lo_bsr_make(const char *function, layerops_context *ctx, const lo_bsr_shape *shape,
                            layerops_type type, const lo_bsr_pattern *pattern, layerops_bsr **bsr) {
  layerops_bsr *w = lo_bsr_new(ctx, shape, type, pattern->count);
  if (!w) return lo_bsr_no_memory(function);
  layerops_status status = lo_bsr_index_make(function, w, pattern);
  if (status == LAYEROPS_OK) status = upload_index(ctx, w);
  if (status == LAYEROPS_OK) status = lo_bsr_fill_in(ctx, w);
  return lo_bsr_keep(status, w, bsr);
}

void layerops_bsr_destroy(layerops_bsr *w) {
  if (!w) return;
  layerops_buffer *const buffers[] = {w->row_start, w->column, w->col_start, w->row,
                                      w->place,     w->values, w->scales};
  if (w->device->backend->bsr) w->device->backend->bsr->release(w);
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) layerops_buffer_destroy(buffers[i]);
  free((void *)w->host.row_start);
  free(w);
}

layerops_matrix layerops_bsr_values(const layerops_bsr *w) {
  if (!w) return (layerops_matrix){0};
  return layerops_matrix_of(w->values, w->type, w->count * w->height, w->width);
}

layerops_matrix layerops_bsr_scales(const layerops_bsr *w) {
  if (!w || !w->scales) return (layerops_matrix){0};
  return layerops_vector_f32(w->scales, w->count);
}

lo_bsr_shape lo_bsr_shape_of(const layerops_bsr *w) {
  return (lo_bsr_shape){w->rows, w->cols, w->height, w->width, w->block_rows, w->block_cols};
}

/* Elements of kept blocks within W: all, less what stands out. */
static int64_t elements_of(const layerops_bsr *w) {
  int64_t elements = 0;
  for (int64_t r = 0; r < w->block_rows; r++) {
    const int64_t below = w->rows - r * w->height;
    const int64_t first = w->host.row_start[r], end = w->host.row_start[r + 1];
    int64_t across = (end - first) * w->width;
    if (end > first && w->host.column[end - 1] == w->block_cols - 1)
      across -= w->block_cols * w->width - w->cols;
    elements += across * (below < w->height ? below : w->height);
  }
  return elements;
}

layerops_status layerops_bsr_describe_(const layerops_bsr *w, layerops_bsr_info *info,
                                       size_t size) {
  if (!w || !info)
    return lo_fail(LAYEROPS_ERROR_INVALID, "bsr_describe: %s is NULL", w ? "info" : "bsr");
  const layerops_bsr_info full = {.rows = w->rows,
                                  .cols = w->cols,
                                  .height = w->height,
                                  .width = w->width,
                                  .block_rows = w->block_rows,
                                  .block_cols = w->block_cols,
                                  .count = w->count,
                                  .elements = elements_of(w),
                                  .type = w->type,
                                  .row_start = w->host.row_start,
                                  .column = w->host.column,
                                  .col_start = w->host.col_start,
                                  .row = w->host.row,
                                  .place = w->host.place};
  memset(info, 0, size);
  memcpy(info, &full, size < sizeof full ? size : sizeof full);
  return LAYEROPS_OK;
}

/* Block-sparse weights: their life. */
#include <config.h>

#include <stdlib.h>

#include "common/bsr.h"
#include "common/door.h"

static layerops_status upload_index(layerops_context *ctx, layerops_bsr *w) {
  const struct {
    const int32_t *from;
    int64_t count;
    layerops_buffer **to;
  } arrays[] = {{w->host.row_start, w->block_rows + 1, &w->row_start},
                {w->host.column, w->count, &w->column},
                {w->host.col_start, w->block_cols + 1, &w->col_start},
                {w->host.row, w->count, &w->row},
                {w->host.place, w->count, &w->place}};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    LO_TRY(layerops_buffer_from(ctx, arrays[i].from, arrays[i].count * (int64_t)sizeof(int32_t),
                                arrays[i].to));
  return LAYEROPS_OK;
}

static layerops_status fill_in(const char *function, layerops_context *ctx, layerops_bsr *w,
                               const int32_t *row_start, const int32_t *column) {
  const int64_t elements = w->count * w->height * w->width;
  LO_TRY(lo_bsr_index_make(function, w, row_start, column));
  LO_TRY(upload_index(ctx, w));
  LO_TRY(layerops_buffer_create(ctx, elements * (int64_t)layerops_type_size(w->type), &w->values));
  if (w->type != LAYEROPS_I8) return LAYEROPS_OK;
  return layerops_buffer_create(ctx, w->count * (int64_t)sizeof(float), &w->scales);
}

layerops_status lo_bsr_make(const char *function, layerops_context *ctx, const lo_bsr_shape *shape,
                            layerops_type type, int64_t count, const int32_t *row_start,
                            const int32_t *column, layerops_bsr **bsr) {
  layerops_bsr *w = calloc(1, sizeof *w);
  if (!w) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "%s: no memory", function);
  *w = (layerops_bsr){.device = ctx->device,
                      .rows = shape->rows,
                      .cols = shape->cols,
                      .height = shape->height,
                      .width = shape->width,
                      .block_rows = shape->block_rows,
                      .block_cols = shape->block_cols,
                      .count = count,
                      .type = type};
  layerops_status status = fill_in(function, ctx, w, row_start, column);
  if (status == LAYEROPS_OK)
    *bsr = w;
  else
    layerops_bsr_destroy(w);
  return status;
}

void layerops_bsr_destroy(layerops_bsr *w) {
  if (!w) return;
  layerops_buffer *const buffers[] = {w->row_start, w->column, w->col_start, w->row,
                                      w->place,     w->values, w->scales};
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

/* Block-sparse weights that a device makes by itself. What the host plans with, the pattern alone,
 * is read back; values and dense matrices are not. */
#include <config.h>

#include "common/bsr.h"

const struct lo_bsr_form *lo_bsr_form_of(const layerops_context *ctx, const layerops_matrix *view) {
  const struct lo_bsr_form *form = ctx->backend->bsr;
  return form && form->index && view->buffer ? form : NULL;
}

/* A copy that nobody else can change. */
static layerops_status own(layerops_context *ctx, const layerops_matrix *from, int64_t count,
                           layerops_buffer **to) {
  LO_TRY(layerops_buffer_create(ctx, count * (int64_t)sizeof(int32_t), to));
  const layerops_copy_args args = {.x = *from,
                                   .y = layerops_matrix_of(*to, LAYEROPS_I32, 1, count)};
  return count ? layerops_copy(ctx, &args) : LAYEROPS_OK;
}

static layerops_status read_back(layerops_context *ctx, const lo_bsr_array *arrays, int count) {
  for (const lo_bsr_array *a = arrays; a < arrays + count; a++)
    LO_TRY(layerops_buffer_read_at(ctx, *a->device, 0, (int32_t *)*a->host,
                                   a->count * (int64_t)sizeof(int32_t)));
  return LAYEROPS_OK;
}

/* Where the device finds a fault the host says which it is. */
static layerops_status index_of(const char *function, layerops_context *ctx, layerops_bsr *w,
                                const lo_bsr_shape *shape, const layerops_matrix *row_start,
                                const layerops_matrix *column) {
  lo_bsr_array arrays[LO_BSR_ARRAYS];
  bool valid = false;
  lo_bsr_arrays_of(w, arrays);
  LO_TRY(own(ctx, row_start, w->block_rows + 1, &w->row_start));
  LO_TRY(own(ctx, column, w->count, &w->column));
  LO_TRY(ctx->backend->bsr->index(ctx, w, &valid));
  LO_TRY(lo_bsr_index_memory(function, w));
  LO_TRY(read_back(ctx, arrays, valid ? LO_BSR_ARRAYS : 2));
  if (valid) return LAYEROPS_OK;
  const lo_bsr_pattern pattern = {w->count, w->host.row_start, w->host.column, NULL};
  LO_TRY(lo_bsr_check_pattern(function, shape, &pattern));
  return lo_fail(LAYEROPS_ERROR_DEVICE, "%s: %s and the host judge index arrays differently",
                 function, ctx->device->name);
}

layerops_status lo_bsr_make_from_views(const char *function, layerops_context *ctx,
                                       const lo_bsr_shape *shape, layerops_type type, int64_t count,
                                       const layerops_matrix *row_start,
                                       const layerops_matrix *column, layerops_bsr **bsr) {
  layerops_bsr *w = lo_bsr_new(ctx, shape, type, count);
  if (!w) return lo_bsr_no_memory(function);
  layerops_status status = index_of(function, ctx, w, shape, row_start, column);
  if (status == LAYEROPS_OK) status = lo_bsr_fill_in(ctx, w);
  return lo_bsr_keep(status, w, bsr);
}

/* Block-sparse weights from index arrays. */
#include <config.h>

#include "common/bsr.h"
#include "common/door.h"

static const char name[] = "bsr_create";

static layerops_status fill(layerops_context *ctx, layerops_matrix y, double value) {
  const layerops_fill_args args = {.y = y, .value = layerops_value(value)};
  return layerops_fill(ctx, &args);
}

/* ---- What stands out of W ---- */

/* Of block i, rows from `row` and columns from `col` on become 0. */
static layerops_status clear(layerops_context *ctx, const layerops_bsr *w, int64_t i, int64_t row,
                             int64_t col) {
  return fill(ctx,
              layerops_slice(layerops_bsr_values(w), i * w->height + row, w->height - row, col,
                             w->width - col),
              0);
}

static layerops_status clear_outside(layerops_context *ctx, const layerops_bsr *w) {
  const int64_t rows = w->rows % w->height, cols = w->cols % w->width;
  const int64_t last_row = w->block_rows - 1, last_col = w->block_cols - 1;
  for (int64_t i = rows ? w->host.row_start[last_row] : w->count; i < w->count; i++)
    LO_TRY(clear(ctx, w, i, rows, 0));
  for (int64_t at = cols ? w->host.col_start[last_col] : w->count; at < w->count; at++)
    LO_TRY(clear(ctx, w, w->host.place[at], 0, cols));
  return LAYEROPS_OK;
}

/* ---- Values ---- */

static layerops_status put_values(layerops_context *ctx, layerops_bsr *w, const void *values) {
  if (!values) return fill(ctx, layerops_bsr_values(w), 0);
  LO_TRY(layerops_buffer_write(ctx, w->values, values, layerops_buffer_bytes(w->values)));
  return clear_outside(ctx, w);
}

static layerops_status put_scales(layerops_context *ctx, layerops_bsr *w, const float *scales) {
  if (!w->scales) return LAYEROPS_OK;
  if (!scales) return fill(ctx, layerops_bsr_scales(w), 1);
  return layerops_buffer_write(ctx, w->scales, scales, layerops_buffer_bytes(w->scales));
}

/* ---- The public function ---- */

static layerops_status check(layerops_context *ctx, const layerops_bsr_args *a,
                             lo_bsr_shape *shape) {
  LO_TRY(lo_bsr_check_shape(name, a->rows, a->cols, a->block, a->width, shape));
  LO_TRY(lo_bsr_check_device(name, ctx, shape));
  LO_TRY(lo_bsr_check_type(name, a->type));
  LO_TRY(lo_bsr_check_count(name, a->count));
  if (a->reserved)
    return lo_fail(LAYEROPS_ERROR_UNSUPPORTED, "bsr_create: reserved is %d, but must be 0",
                   (int)a->reserved);
  if (a->scales && a->type != LAYEROPS_I8)
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "bsr_create: scales is set, but is only for i8; type is %s",
                   layerops_type_name(a->type));
  if (!a->row_start || (!a->column && a->count))
    return lo_fail(LAYEROPS_ERROR_INVALID, "bsr_create: %s is NULL",
                   a->row_start ? "column" : "row_start");
  return lo_bsr_check_index(name, shape, a->count, a->row_start, a->column);
}

layerops_status layerops_bsr_create_(layerops_context *ctx, const layerops_bsr_args *args,
                                     size_t size, layerops_bsr **bsr) {
  layerops_bsr_args a;
  lo_bsr_shape shape;
  LO_TRY(lo_enter(ctx, name));
  LO_TRY(lo_not_recording(ctx, name));
  LO_TRY(lo_copy_args(name, &a, sizeof a, args, size));
  if (!bsr) return lo_fail(LAYEROPS_ERROR_INVALID, "bsr_create: bsr is NULL");
  *bsr = NULL;
  LO_TRY(check(ctx, &a, &shape));
  layerops_bsr *w;
  LO_TRY(lo_bsr_make(name, ctx, &shape, a.type, a.count, a.row_start, a.column, &w));
  layerops_status status = put_values(ctx, w, a.values);
  if (status == LAYEROPS_OK) status = put_scales(ctx, w, a.scales);
  if (status == LAYEROPS_OK)
    *bsr = w;
  else
    layerops_bsr_destroy(w);
  return status;
}

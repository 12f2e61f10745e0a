/* Block-sparse weights from index arrays or a mask, and values in blocks. */
#include <config.h>

#include <stdlib.h>

#include "common/bsr.h"
#include "common/door.h"

static const char name[] = "bsr_create";

static layerops_status fill(layerops_context *ctx, layerops_matrix y, double value) {
  const layerops_fill_args args = {.y = y, .value = layerops_value(value)};
  return layerops_fill(ctx, &args);
}

static layerops_status copy(layerops_context *ctx, layerops_matrix x, layerops_matrix y) {
  const layerops_copy_args args = {.x = x, .y = y};
  return layerops_copy(ctx, &args);
}

/* ---- What is given ---- */

static layerops_status refuse_both(const char *one, const char *other) {
  return lo_fail(LAYEROPS_ERROR_INVALID, "%s: %s and %s are both set: give one", name, one, other);
}

static bool has_views(const layerops_bsr_args *a) {
  return lo_given(&a->device_row_start) || lo_given(&a->device_column);
}

/* Which of the ways to give a pattern is taken. */
static layerops_status check_ways(const layerops_bsr_args *a) {
  const bool arrays = a->row_start || a->column;
  const bool views = has_views(a);
  if (arrays && views) return refuse_both("row_start or column", "their device_ views");
  if (arrays && a->mask) return refuse_both("row_start or column", "mask");
  if (views && a->mask) return refuse_both("device_row_start or device_column", "mask");
  if (a->values && lo_given(&a->device_values)) return refuse_both("values", "device_values");
  if (a->scales && lo_given(&a->device_scales)) return refuse_both("scales", "device_scales");
  if ((a->scales || lo_given(&a->device_scales)) && a->type != LAYEROPS_I8)
    return lo_fail(LAYEROPS_ERROR_INVALID, "%s: scales is set, but is only for i8; type is %s",
                   name, layerops_type_name(a->type));
  return LAYEROPS_OK;
}

static layerops_status check(layerops_context *ctx, const layerops_bsr_args *a,
                             lo_bsr_shape *shape) {
  LO_TRY(lo_bsr_check_shape(name, a->rows, a->cols, a->block, a->width, shape));
  LO_TRY(lo_bsr_check_device(name, ctx, shape));
  LO_TRY(lo_bsr_check_type(name, a->type));
  LO_TRY(lo_bsr_check_count(name, a->count));
  LO_TRY(lo_bsr_check_reserved(name, a->reserved));
  return check_ways(a);
}

/* The views of values: all sizes follow from the pattern's. */
static layerops_status check_views(lo_door *door, layerops_bsr_args *a, const lo_bsr_shape *shape,
                                   int64_t count) {
  const unsigned types = a->type == LAYEROPS_I8 ? LO_BIT(LAYEROPS_I8) : LO_FLOAT | LO_F8;
  LO_TRY(lo_door_optional(door, "device_values", &a->device_values, LO_IN, types,
                          count * shape->height, shape->width));
  LO_TRY(lo_door_optional(door, "device_scales", &a->device_scales, LO_IN, LO_BIT(LAYEROPS_F32), 1,
                          count));
  return lo_door_all_unbatched(door);
}

/* ---- Pattern ---- */

static layerops_status pattern_of_arrays(const layerops_bsr_args *a, lo_bsr_pattern *pattern) {
  if (!a->row_start || (!a->column && a->count))
    return lo_fail(LAYEROPS_ERROR_INVALID, "%s: %s is NULL", name,
                   a->row_start ? "column" : "row_start");
  *pattern = (lo_bsr_pattern){a->count, a->row_start, a->column, NULL};
  return LAYEROPS_OK;
}

static layerops_status pattern_of_mask(const layerops_bsr_args *a, const lo_bsr_shape *shape,
                                       lo_bsr_pattern *pattern) {
  LO_TRY(lo_bsr_pattern_of_mask(name, shape, a->mask, pattern));
  if (!a->count || a->count == pattern->count) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_INVALID, "%s: count is %lld, but mask keeps %lld blocks", name,
                 (long long)a->count, (long long)pattern->count);
}

static layerops_status check_pattern_views(lo_door *door, layerops_bsr_args *a,
                                           const lo_bsr_shape *shape) {
  const unsigned i32 = LO_BIT(LAYEROPS_I32);
  const int64_t starts = shape->block_rows + 1;
  LO_TRY(lo_door_matrix(door, "device_row_start", &a->device_row_start, LO_IN, i32, 1, starts));
  if (a->count || lo_given(&a->device_column))
    LO_TRY(lo_door_matrix(door, "device_column", &a->device_column, LO_IN, i32, 1, a->count));
  return lo_door_all_unbatched(door);
}

/* Read back, so that what was checked is what is used. */
static layerops_status pattern_of_views(layerops_context *ctx, const layerops_bsr_args *a,
                                        const lo_bsr_shape *shape, lo_bsr_pattern *pattern) {
  LO_TRY(lo_bsr_pattern_new(name, shape, a->count, pattern));
  LO_TRY(copy(ctx, a->device_row_start,
              layerops_host_matrix(pattern->row_start, LAYEROPS_I32, 1, shape->block_rows + 1)));
  if (!a->count) return LAYEROPS_OK;
  return copy(ctx, a->device_column,
              layerops_host_matrix(pattern->column, LAYEROPS_I32, 1, a->count));
}

/* Sets pattern->memory, or to NULL, whatever it returns. */
static layerops_status pattern_of(layerops_context *ctx, const layerops_bsr_args *a,
                                  const lo_bsr_shape *shape, lo_bsr_pattern *pattern) {
  pattern->memory = NULL;
  if (a->mask) return pattern_of_mask(a, shape, pattern);
  LO_TRY(has_views(a) ? pattern_of_views(ctx, a, shape, pattern) : pattern_of_arrays(a, pattern));
  return lo_bsr_check_pattern(name, shape, pattern);
}

/* ---- Values ---- */

static layerops_status put_values(layerops_context *ctx, layerops_bsr *w,
                                  const layerops_bsr_args *a) {
  if (!a->values && !lo_present(&a->device_values)) return fill(ctx, layerops_bsr_values(w), 0);
  LO_TRY(a->values ? layerops_buffer_write(ctx, w->values, a->values, w->values->bytes)
                   : copy(ctx, a->device_values, layerops_bsr_values(w)));
  return lo_bsr_clear_outside(ctx, w);
}

static layerops_status put_scales(layerops_context *ctx, layerops_bsr *w,
                                  const layerops_bsr_args *a) {
  if (!w->scales) return LAYEROPS_OK;
  if (a->scales) return layerops_buffer_write(ctx, w->scales, a->scales, w->scales->bytes);
  if (lo_present(&a->device_scales)) return copy(ctx, a->device_scales, layerops_bsr_scales(w));
  return fill(ctx, layerops_bsr_scales(w), 1);
}

/* ---- The public function ---- */

static layerops_status make_on_host(layerops_context *ctx, const layerops_bsr_args *a,
                                    const lo_bsr_shape *shape, layerops_bsr **bsr) {
  lo_bsr_pattern pattern;
  layerops_status status = pattern_of(ctx, a, shape, &pattern);
  if (status == LAYEROPS_OK) status = lo_bsr_make(name, ctx, shape, a->type, &pattern, bsr);
  free(pattern.memory);
  return status;
}

static layerops_status make(layerops_context *ctx, const layerops_bsr_args *a,
                            const lo_bsr_shape *shape, layerops_bsr **bsr) {
  if (!has_views(a) || !shape->block_rows || !lo_bsr_form_of(ctx, &a->device_row_start))
    return make_on_host(ctx, a, shape, bsr);
  return lo_bsr_make_from_views(name, ctx, shape, a->type, a->count, &a->device_row_start,
                                &a->device_column, bsr);
}

static layerops_status create(lo_door *door, layerops_bsr_args *a, const lo_bsr_shape *shape,
                              layerops_bsr **bsr) {
  if (has_views(a)) LO_TRY(check_pattern_views(door, a, shape));
  LO_TRY(make(door->ctx, a, shape, bsr));
  layerops_status status = check_views(door, a, shape, (*bsr)->count);
  if (status == LAYEROPS_OK) status = put_values(door->ctx, *bsr, a);
  if (status == LAYEROPS_OK) status = put_scales(door->ctx, *bsr, a);
  return lo_bsr_keep(status, *bsr, bsr);
}

layerops_status layerops_bsr_create_(layerops_context *ctx, const layerops_bsr_args *args,
                                     size_t size, layerops_bsr **bsr) {
  lo_door door;
  layerops_bsr_args a;
  lo_bsr_shape shape;
  LO_TRY(lo_door_enter(&door, ctx, name));
  LO_TRY(lo_not_recording(ctx, name));
  LO_TRY(lo_copy_args(name, &a, sizeof a, args, size));
  if (!bsr) return lo_fail(LAYEROPS_ERROR_INVALID, "%s: bsr is NULL", name);
  *bsr = NULL;
  LO_TRY(check(ctx, &a, &shape));
  return create(&door, &a, &shape, bsr);
}

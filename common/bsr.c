/* Block-sparse weights and the linear layer on them. */
#include <config.h>

#include <stdlib.h>

#include "common/door.h"

static layerops_status check_shape(const layerops_bsr_args *a) {
  if (a->block != 16 && a->block != 32)
    return lo_fail(a->block <= 0 ? LAYEROPS_ERROR_INVALID : LAYEROPS_ERROR_UNSUPPORTED,
                   "bsr_create: block is %lld; supported: 16, 32", (long long)a->block);
  if (a->type != LAYEROPS_F32)
    return lo_fail(LAYEROPS_ERROR_UNSUPPORTED, "bsr_create: type is %s; supported: f32",
                   layerops_type_name(a->type));
  if (a->rows < 0 || a->cols < 0 || a->rows % a->block || a->cols % a->block)
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "bsr_create: rows %lld and cols %lld must be multiples of block %lld",
                   (long long)a->rows, (long long)a->cols, (long long)a->block);
  if (a->rows / a->block >= INT32_MAX || a->cols / a->block >= INT32_MAX || a->count > INT32_MAX)
    return lo_fail(LAYEROPS_ERROR_OVERFLOW,
                   "bsr_create: rows %lld, cols %lld, count %lld: indices are 32 bits wide",
                   (long long)a->rows, (long long)a->cols, (long long)a->count);
  if (a->count < 0)
    return lo_fail(LAYEROPS_ERROR_INVALID, "bsr_create: count is %lld", (long long)a->count);
  if (a->reserved)
    return lo_fail(LAYEROPS_ERROR_UNSUPPORTED, "bsr_create: reserved is %d, but must be 0",
                   (int)a->reserved);
  if (!a->row_start || (!a->column && a->count))
    return lo_fail(LAYEROPS_ERROR_INVALID, "bsr_create: %s is NULL",
                   a->row_start ? "column" : "row_start");
  return LAYEROPS_OK;
}

static layerops_status check_row(const layerops_bsr_args *a, int64_t r) {
  int64_t begin = a->row_start[r], end = a->row_start[r + 1], columns = a->cols / a->block;
  if (begin > end || end > a->count)
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "bsr_create: row_start[%lld] is %lld and row_start[%lld] is %lld; count is %lld",
                   (long long)r, (long long)begin, (long long)r + 1, (long long)end,
                   (long long)a->count);
  for (int64_t i = begin; i < end; i++) {
    if (a->column[i] < 0 || a->column[i] >= columns)
      return lo_fail(LAYEROPS_ERROR_INVALID,
                     "bsr_create: column[%lld] is %d, but must lie in [0, %lld)", (long long)i,
                     (int)a->column[i], (long long)columns);
    if (i > begin && a->column[i] <= a->column[i - 1])
      return lo_fail(LAYEROPS_ERROR_INVALID,
                     "bsr_create: column[%lld] is %d after %d: columns must ascend within row %lld",
                     (long long)i, (int)a->column[i], (int)a->column[i - 1], (long long)r);
  }
  return LAYEROPS_OK;
}

static layerops_status check_pattern(const layerops_bsr_args *a) {
  int64_t rows = a->rows / a->block;
  if (a->row_start[0] != 0 || a->row_start[rows] != a->count)
    return lo_fail(
        LAYEROPS_ERROR_INVALID,
        "bsr_create: row_start begins with %d and ends with %d, but must with 0 and %lld",
        (int)a->row_start[0], (int)a->row_start[rows], (long long)a->count);
  for (int64_t r = 0; r < rows; r++) LO_TRY(check_row(a, r));
  return LAYEROPS_OK;
}

/* A copy of the pattern in host memory: kernels are planned with it. */
static layerops_status copy_pattern(layerops_bsr *w, const layerops_bsr_args *a) {
  int64_t rows = a->rows / a->block;
  int32_t *copy = malloc((size_t)(rows + 1 + a->count) * sizeof *copy);
  if (!copy) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "bsr_create: no memory for the pattern");
  for (int64_t r = 0; r <= rows; r++) copy[r] = a->row_start[r];
  for (int64_t i = 0; i < a->count; i++) copy[rows + 1 + i] = a->column[i];
  w->host_row_start = copy;
  w->host_column = copy + rows + 1;
  for (int64_t r = 0; r < rows; r++)
    if (copy[r + 1] - copy[r] > w->longest_row) w->longest_row = copy[r + 1] - copy[r];
  return LAYEROPS_OK;
}

static layerops_status upload_values(layerops_context *ctx, layerops_bsr *w, const void *values) {
  int64_t elements = w->count * w->block * w->block,
          bytes = elements * (int64_t)layerops_type_size(w->type);
  if (values) return layerops_buffer_from(ctx, values, bytes, &w->values);
  LO_TRY(layerops_buffer_create(ctx, bytes, &w->values));
  layerops_fill_args fill = {.y = layerops_bsr_values(w)};
  return layerops_fill(ctx, &fill);
}

static layerops_status upload(layerops_context *ctx, layerops_bsr *w, const layerops_bsr_args *a) {
  int64_t rows = a->rows / a->block, word = (int64_t)sizeof(int32_t);
  LO_TRY(layerops_buffer_from(ctx, w->host_row_start, (rows + 1) * word, &w->row_start));
  LO_TRY(layerops_buffer_from(ctx, w->host_column, a->count * word, &w->column));
  return upload_values(ctx, w, a->values);
}

layerops_status layerops_bsr_create_(layerops_context *ctx, const layerops_bsr_args *args,
                                     size_t size, layerops_bsr **bsr) {
  layerops_bsr_args a;
  LO_TRY(lo_enter(ctx, "bsr_create"));
  LO_TRY(lo_not_recording(ctx, "bsr_create"));
  LO_TRY(lo_copy_args("bsr_create", &a, sizeof a, args, size));
  if (!bsr) return lo_fail(LAYEROPS_ERROR_INVALID, "bsr_create: bsr is NULL");
  *bsr = NULL;
  LO_TRY(check_shape(&a));
  LO_TRY(check_pattern(&a));
  layerops_bsr *w = calloc(1, sizeof *w);
  if (!w) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "bsr_create: no memory");
  w->device = ctx->device;
  w->rows = a.rows;
  w->cols = a.cols;
  w->block = a.block;
  w->count = a.count;
  w->type = a.type;
  layerops_status status = copy_pattern(w, &a);
  if (status == LAYEROPS_OK) status = upload(ctx, w, &a);
  if (status != LAYEROPS_OK) {
    layerops_bsr_destroy(w);
    return status;
  }
  *bsr = w;
  return LAYEROPS_OK;
}

void layerops_bsr_destroy(layerops_bsr *w) {
  if (!w) return;
  layerops_buffer_destroy(w->row_start);
  layerops_buffer_destroy(w->column);
  layerops_buffer_destroy(w->values);
  free((void *)w->host_row_start);
  free(w);
}

layerops_matrix layerops_bsr_values(const layerops_bsr *w) {
  if (!w) return (layerops_matrix){0};
  return layerops_matrix_of(w->values, w->type, w->count * w->block, w->block);
}

layerops_status layerops_bsr_linear_forward_(layerops_context *ctx,
                                             const layerops_bsr_linear_forward_args *args,
                                             size_t size) {
  lo_door door;
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_bsr_linear_forward, sizeof *args, args, size));
  layerops_bsr_linear_forward_args *a = &door.call.args.bsr_linear_forward;
  LO_TRY(lo_door_flags(&door, a->flags));
  if (!a->w) return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID, "w is needed, but is NULL");
  if (a->w->device != ctx->device)
    return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID, "w is on %s, the context on %s",
                          a->w->device->name, ctx->device->name);
  unsigned type = LO_BIT(a->w->type);
  int64_t n = a->w->rows, k = a->w->cols;
  LO_TRY(lo_door_matrix(&door, "x", &a->x, LO_IN, type, LO_ANY, k));
  int64_t m = a->x.rows;
  LO_TRY(lo_door_optional(&door, "bias", &a->bias, LO_IN, type, 1, n));
  LO_TRY(lo_door_optional(&door, "residual", &a->residual, LO_IN | LO_IN_PLACE, type, m, n));
  LO_TRY(lo_door_optional(&door, "preact", &a->preact, LO_OUT, type, m, n));
  LO_TRY(lo_door_matrix(&door, "y", &a->y, LO_OUT, type, m, n));
  layerops_matrix values = layerops_bsr_values(a->w); /* y must not lie in them */
  LO_TRY(lo_door_matrix(&door, "w's values", &values, LO_IN, type, LO_ANY, LO_ANY));
  LO_TRY(lo_door_all_unbatched(&door));
  LO_TRY(lo_door_activation(&door, "activation", a->activation));
  LO_TRY(lo_door_value(&door, "slope", &a->slope, 0.01, -1e30, 1e30));
  LO_TRY(lo_door_scalar(&door, "alpha", &a->alpha, 1));
  lo_door_describe(&door, m, n, k,
                   2.0 * (double)m * (double)(a->w->block * a->w->block) * (double)a->w->count,
                   a->x.type, a->y.type);
  lo_door_detail(&door, 1, "block=%lld blocks=%lld activation=%s", (long long)a->w->block,
                 (long long)a->w->count, layerops_activation_name(a->activation));
  return lo_door_pass(&door);
}

/* Block-sparse weights from a dense matrix, and back. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "common/bsr.h"
#include "common/door.h"

typedef struct job {
  const char *function;
  layerops_context *ctx;
  layerops_bsr *w;
  const layerops_bsr *from;
} job;

/* ---- Blocks of a strip ---- */

/* Calls copy(block, strip) for each row of each kept block: where both begin, and how many elements
 * lie within W. */
typedef void (*copy_fn)(float *block, float *strip, size_t bytes);

static void to_block(float *block, float *strip, size_t bytes) {
  memcpy(block, strip, bytes);
}

static void to_strip(float *block, float *strip, size_t bytes) {
  memcpy(strip, block, bytes);
}

static void each_row(const layerops_bsr *w, const lo_bsr_strip *strip, float *blocks,
                     copy_fn copy) {
  const int64_t begin = w->host.row_start[strip->first];
  for (int64_t i = 0; i < strip->row_count; i++) {
    const int64_t r = strip->first + i / w->height;
    for (int64_t b = w->host.row_start[r]; b < w->host.row_start[r + 1]; b++) {
      const int64_t col = w->host.column[b] * w->width;
      const int64_t count = w->cols - col < w->width ? w->cols - col : w->width;
      copy(blocks + ((b - begin) * w->height + i % w->height) * w->width,
           strip->rows + i * w->cols + col, (size_t)count * sizeof(float));
    }
  }
}

/* Memory for the blocks of a strip, and how many they are. */
static float *blocks_of(const layerops_bsr *w, const lo_bsr_strip *strip, int64_t *count) {
  *count = w->host.row_start[strip->end] - w->host.row_start[strip->first];
  return lo_bsr_memory(*count * w->height * w->width, sizeof(float));
}

/* ---- From a dense matrix ---- */

static layerops_status gather(void *arg, const lo_bsr_strip *strip) {
  const job *j = arg;
  int64_t count;
  float *blocks = blocks_of(j->w, strip, &count);
  if (!blocks) return lo_bsr_no_memory(j->function);
  each_row(j->w, strip, blocks, to_block);
  const layerops_status status =
      lo_bsr_put(j->function, j->ctx, j->w, j->w->host.row_start[strip->first], count, blocks);
  free(blocks);
  return status;
}

static layerops_status put_values(const char *function, layerops_context *ctx, layerops_bsr *w,
                                  const layerops_matrix *dense) {
  const struct lo_bsr_form *form = lo_bsr_form_of(ctx, dense);
  const lo_bsr_shape shape = lo_bsr_shape_of(w);
  job j = {.function = function, .ctx = ctx, .w = w};
  if (form) return form->gather(ctx, w, dense);
  return lo_bsr_strips(function, ctx, &shape, dense, LO_BSR_READ, gather, &j);
}

/* Without a mask: blocks whose largest element is not 0. */
static layerops_status pattern_of_values(const char *function, layerops_context *ctx,
                                         const lo_bsr_shape *shape, const layerops_matrix *w,
                                         lo_bsr_pattern *pattern) {
  const int64_t blocks = shape->block_rows * shape->block_cols;
  double *scores = lo_bsr_memory(blocks, sizeof *scores);
  uint8_t *mask = lo_bsr_memory(blocks, sizeof *mask);
  layerops_status status = scores && mask ? LAYEROPS_OK : lo_bsr_no_memory(function);
  if (status == LAYEROPS_OK)
    status = lo_bsr_scores(function, ctx, shape, w, LAYEROPS_BSR_MAX, scores);
  for (int64_t i = 0; status == LAYEROPS_OK && i < blocks; i++) mask[i] = scores[i] != 0;
  if (status == LAYEROPS_OK) status = lo_bsr_pattern_of_mask(function, shape, mask, pattern);
  free(scores);
  free(mask);
  return status;
}

layerops_status layerops_bsr_from_dense_(layerops_context *ctx, const layerops_bsr_dense_args *args,
                                         size_t size, layerops_bsr **bsr) {
  static const char name[] = "bsr_from_dense";
  lo_door door;
  layerops_bsr_dense_args a;
  lo_bsr_shape shape;
  lo_bsr_pattern pattern;
  layerops_bsr *w = NULL;
  LO_TRY(lo_door_enter(&door, ctx, name));
  LO_TRY(lo_not_recording(ctx, name));
  LO_TRY(lo_copy_args(name, &a, sizeof a, args, size));
  if (!bsr) return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID, "bsr is NULL");
  *bsr = NULL;
  LO_TRY(lo_bsr_door_dense(&door, &a.w, LO_IN, a.block, a.width, &shape));
  LO_TRY(lo_bsr_check_device(name, ctx, &shape));
  LO_TRY(lo_bsr_check_type(name, a.type));
  LO_TRY(lo_bsr_check_reserved(name, a.reserved));
  LO_TRY(a.mask ? lo_bsr_pattern_of_mask(name, &shape, a.mask, &pattern)
                : pattern_of_values(name, ctx, &shape, &a.w, &pattern));
  layerops_status status = lo_bsr_make(name, ctx, &shape, a.type, &pattern, &w);
  free(pattern.memory);
  if (status == LAYEROPS_OK) status = put_values(name, ctx, w, &a.w);
  return lo_bsr_keep(status, w, bsr);
}

/* ---- Back ---- */

static layerops_status scatter(void *arg, const lo_bsr_strip *strip) {
  const job *j = arg;
  int64_t count;
  float *blocks = blocks_of(j->from, strip, &count);
  if (!blocks) return lo_bsr_no_memory(j->function);
  const layerops_status status = lo_bsr_get(j->function, j->ctx, j->from,
                                            j->from->host.row_start[strip->first], count, blocks);
  if (strip->row_count)
    memset(strip->rows, 0, (size_t)(strip->row_count * j->from->cols) * sizeof(float));
  if (status == LAYEROPS_OK) each_row(j->from, strip, blocks, to_strip);
  free(blocks);
  return status;
}

layerops_status layerops_bsr_to_dense(layerops_context *ctx, const layerops_bsr *bsr,
                                      layerops_matrix w) {
  static const char name[] = "bsr_to_dense";
  lo_door door;
  LO_TRY(lo_door_enter(&door, ctx, name));
  LO_TRY(lo_not_recording(ctx, name));
  LO_TRY(lo_bsr_check_use(name, ctx, bsr));
  layerops_matrix values = layerops_bsr_values(bsr), scales = layerops_bsr_scales(bsr);
  LO_TRY(lo_door_matrix(&door, "w", &w, LO_OUT, LO_FLOAT | LO_F8, bsr->rows, bsr->cols));
  LO_TRY(lo_door_matrix(&door, "bsr's values", &values, LO_IN, LO_BIT(bsr->type), LO_ANY, LO_ANY));
  LO_TRY(lo_door_optional(&door, "bsr's scales", &scales, LO_IN, LO_BIT(LAYEROPS_F32), LO_ANY,
                          LO_ANY));
  LO_TRY(lo_door_all_unbatched(&door));
  LO_TRY(lo_check_aliases(&door));
  const struct lo_bsr_form *form = lo_bsr_form_of(ctx, &w);
  const lo_bsr_shape shape = lo_bsr_shape_of(bsr);
  job j = {.function = name, .ctx = ctx, .from = bsr};
  if (form) return form->scatter(ctx, bsr, &w);
  return lo_bsr_strips(name, ctx, &shape, &w, LO_BSR_WRITE, scatter, &j);
}

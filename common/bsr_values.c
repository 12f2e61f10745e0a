/* The values of block-sparse weights as f32 in host memory: conversion is the copy operation's. */
#include <config.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "common/bsr.h"

static layerops_matrix stored(const layerops_bsr *w, int64_t first, int64_t count) {
  return layerops_slice(layerops_bsr_values(w), first * w->height, count * w->height, 0, w->width);
}

static layerops_matrix on_host(const layerops_bsr *w, int64_t count, const float *blocks) {
  return layerops_host_matrix(blocks, LAYEROPS_F32, count * w->height, w->width);
}

static layerops_status copy(layerops_context *ctx, layerops_matrix x, layerops_matrix y) {
  const layerops_copy_args args = {.x = x, .y = y};
  return layerops_copy(ctx, &args);
}

/* ---- 8 bits ---- */

/* The largest magnitude; NaN where there is one. */
static float largest(const float *block, int64_t area) {
  float most = 0;
  for (int64_t j = 0; j < area; j++)
    if (!(fabsf(block[j]) <= most)) {
      most = fabsf(block[j]);
      if (isnan(most)) break;
    }
  return most;
}

/* A subnormal scale would be too coarse itself. Infinity gives infinity, and NaN for all values. */
static float scale_of(float most) {
  if (most == 0) return 1;
  const float scale = most / 127;
  return scale < FLT_MIN ? FLT_MIN : scale;
}

/* Divides each block by its scale; what remains is rounded by the copy. */
static void scale_down(const layerops_bsr *w, int64_t count, float *blocks, float *scales) {
  const int64_t area = w->height * w->width;
  for (int64_t i = 0; i < count; i++) {
    scales[i] = scale_of(largest(blocks + i * area, area));
    for (int64_t j = 0; j < area; j++) blocks[i * area + j] /= scales[i];
  }
}

static void scale_up(const layerops_bsr *w, int64_t count, float *blocks, const float *scales) {
  const int64_t area = w->height * w->width;
  for (int64_t i = 0; i < count; i++)
    for (int64_t j = 0; j < area; j++) blocks[i * area + j] *= scales[i];
}

enum { SCALE = sizeof(float) };

static layerops_status put_i8(layerops_context *ctx, layerops_bsr *w, int64_t first, int64_t count,
                              float *blocks, float *scales) {
  scale_down(w, count, blocks, scales);
  LO_TRY(layerops_buffer_write_at(ctx, w->scales, first * SCALE, scales, count * SCALE));
  return copy(ctx, on_host(w, count, blocks), stored(w, first, count));
}

static layerops_status get_i8(layerops_context *ctx, const layerops_bsr *w, int64_t first,
                              int64_t count, float *blocks, float *scales) {
  LO_TRY(copy(ctx, stored(w, first, count), on_host(w, count, blocks)));
  LO_TRY(layerops_buffer_read_at(ctx, w->scales, first * SCALE, scales, count * SCALE));
  scale_up(w, count, blocks, scales);
  return LAYEROPS_OK;
}

/* ---- All types ---- */

layerops_status lo_bsr_put(const char *function, layerops_context *ctx, layerops_bsr *w,
                           int64_t first, int64_t count, float *blocks) {
  if (w->type != LAYEROPS_I8) return copy(ctx, on_host(w, count, blocks), stored(w, first, count));
  float *scales = lo_bsr_memory(count, sizeof *scales);
  if (!scales) return lo_bsr_no_memory(function);
  const layerops_status status = put_i8(ctx, w, first, count, blocks, scales);
  free(scales);
  return status;
}

layerops_status lo_bsr_get(const char *function, layerops_context *ctx, const layerops_bsr *w,
                           int64_t first, int64_t count, float *blocks) {
  if (w->type != LAYEROPS_I8) return copy(ctx, stored(w, first, count), on_host(w, count, blocks));
  float *scales = lo_bsr_memory(count, sizeof *scales);
  if (!scales) return lo_bsr_no_memory(function);
  const layerops_status status = get_i8(ctx, w, first, count, blocks, scales);
  free(scales);
  return status;
}

/* ---- What stands out of W ---- */

/* Of block i, rows from `row` and columns from `col` on. */
static layerops_status clear(layerops_context *ctx, const layerops_bsr *w, int64_t i, int64_t row,
                             int64_t col) {
  const layerops_fill_args args = {.y = layerops_slice(layerops_bsr_values(w), i * w->height + row,
                                                       w->height - row, col, w->width - col)};
  return layerops_fill(ctx, &args);
}

layerops_status lo_bsr_clear_outside(layerops_context *ctx, const layerops_bsr *w) {
  const int64_t rows = w->rows % w->height, cols = w->cols % w->width;
  if (!rows && !cols) return LAYEROPS_OK;
  if (ctx->backend->bsr && ctx->backend->bsr->clear) return ctx->backend->bsr->clear(ctx, w);
  int64_t below = rows ? w->host.row_start[w->block_rows - 1] : w->count;
  int64_t right = cols ? w->host.col_start[w->block_cols - 1] : w->count;
  for (; below < w->count; below++) LO_TRY(clear(ctx, w, below, rows, 0));
  for (; right < w->count; right++) LO_TRY(clear(ctx, w, w->host.place[right], 0, cols));
  return LAYEROPS_OK;
}

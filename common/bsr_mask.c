/* Patterns from block masks, and back. */
#include <config.h>

#include <string.h>

#include "common/bsr.h"

layerops_status lo_bsr_pattern_new(const char *function, const lo_bsr_shape *shape, int64_t count,
                                   lo_bsr_pattern *pattern) {
  const int64_t starts = shape->block_rows + 1;
  int32_t *memory = lo_bsr_memory(starts + count, sizeof *memory);
  if (!memory) return lo_bsr_no_memory(function);
  *pattern = (lo_bsr_pattern){count, memory, memory + starts, memory};
  return LAYEROPS_OK;
}

layerops_status lo_bsr_pattern_of_mask(const char *function, const lo_bsr_shape *shape,
                                       const uint8_t *mask, lo_bsr_pattern *pattern) {
  int64_t count = 0;
  for (int64_t i = 0; i < shape->block_rows * shape->block_cols; i++) count += mask[i] != 0;
  LO_TRY(lo_bsr_check_count(function, count));
  LO_TRY(lo_bsr_pattern_new(function, shape, count, pattern));
  int32_t *row_start = pattern->memory, *column = row_start + shape->block_rows + 1, kept = 0;
  for (int64_t r = 0; r < shape->block_rows; r++) {
    for (int64_t c = 0; c < shape->block_cols; c++)
      if (mask[r * shape->block_cols + c]) column[kept++] = (int32_t)c;
    row_start[r + 1] = kept;
  }
  return LAYEROPS_OK;
}

layerops_status layerops_bsr_to_mask(const layerops_bsr *w, uint8_t *mask) {
  if (!w) return lo_fail(LAYEROPS_ERROR_INVALID, "bsr_to_mask: bsr is NULL");
  const int64_t blocks = w->block_rows * w->block_cols;
  if (!mask && blocks) return lo_fail(LAYEROPS_ERROR_INVALID, "bsr_to_mask: mask is NULL");
  if (blocks) memset(mask, 0, (size_t)blocks);
  for (int64_t r = 0; r < w->block_rows; r++)
    for (int32_t i = w->host.row_start[r]; i < w->host.row_start[r + 1]; i++)
      mask[r * w->block_cols + w->host.column[i]] = 1;
  return LAYEROPS_OK;
}

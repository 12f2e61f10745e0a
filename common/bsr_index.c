/* The pattern of block-sparse weights in host memory, by rows and by columns: kernels are planned
 * with it. */
#include <config.h>

#include <string.h>

#include "common/bsr.h"

static int64_t longest(const int32_t *start, int64_t lists) {
  int64_t most = 0;
  for (int64_t i = 0; i < lists; i++)
    if (start[i + 1] - start[i] > most) most = start[i + 1] - start[i];
  return most;
}

/* Sorts blocks by columns, those of a column in the order of rows: counts into
 * zeros, sums, deals out. Within the last step col_start[c] is where column c's next block goes:
 * one column too far at its end. */
static void by_columns(const layerops_bsr *w, const int32_t *row_start, const int32_t *column,
                       int32_t *col_start, int32_t *row, int32_t *place) {
  for (int64_t i = 0; i < w->count; i++) col_start[column[i] + 1]++;
  for (int64_t c = 0; c < w->block_cols; c++) col_start[c + 1] += col_start[c];
  for (int64_t r = 0; r < w->block_rows; r++)
    for (int32_t i = row_start[r]; i < row_start[r + 1]; i++) {
      const int32_t to = col_start[column[i]]++;
      row[to] = (int32_t)r;
      place[to] = i;
    }
  memmove(col_start + 1, col_start, (size_t)w->block_cols * sizeof *col_start);
  col_start[0] = 0;
}

layerops_status lo_bsr_index_make(const char *function, layerops_bsr *w,
                                  const lo_bsr_pattern *pattern) {
  const int64_t rows = w->block_rows + 1, cols = w->block_cols + 1;
  int32_t *memory = lo_bsr_memory(rows + cols + 3 * w->count, sizeof *memory);
  if (!memory) return lo_bsr_no_memory(function);
  int32_t *own_column = memory + rows, *col_start = own_column + w->count, *row = col_start + cols,
          *place = row + w->count;
  memcpy(memory, pattern->row_start, (size_t)rows * sizeof *memory);
  if (w->count) memcpy(own_column, pattern->column, (size_t)w->count * sizeof *memory);
  by_columns(w, memory, own_column, col_start, row, place);
  w->host = (lo_bsr_index){memory, own_column, col_start, row, place};
  w->longest_row = longest(memory, w->block_rows);
  w->longest_col = longest(col_start, w->block_cols);
  return LAYEROPS_OK;
}

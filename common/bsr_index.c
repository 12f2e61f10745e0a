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

void lo_bsr_arrays_of(layerops_bsr *w, lo_bsr_array arrays[LO_BSR_ARRAYS]) {
  const lo_bsr_array all[LO_BSR_ARRAYS] = {{&w->host.row_start, &w->row_start, w->block_rows + 1},
                                           {&w->host.column, &w->column, w->count},
                                           {&w->host.col_start, &w->col_start, w->block_cols + 1},
                                           {&w->host.row, &w->row, w->count},
                                           {&w->host.place, &w->place, w->count}};
  memcpy(arrays, all, sizeof all);
}

layerops_status lo_bsr_index_memory(const char *function, layerops_bsr *w) {
  lo_bsr_array arrays[LO_BSR_ARRAYS];
  int64_t at = 0;
  lo_bsr_arrays_of(w, arrays);
  for (int i = 0; i < LO_BSR_ARRAYS; i++) at += arrays[i].count;
  const int32_t *memory = lo_bsr_memory(at, sizeof *memory);
  if (!memory) return lo_bsr_no_memory(function);
  for (int i = 0; i < LO_BSR_ARRAYS; memory += arrays[i++].count) *arrays[i].host = memory;
  return LAYEROPS_OK;
}

layerops_status lo_bsr_index_make(const char *function, layerops_bsr *w,
                                  const lo_bsr_pattern *pattern) {
  LO_TRY(lo_bsr_index_memory(function, w));
  const lo_bsr_index *own = &w->host;
  memcpy((int32_t *)own->row_start, pattern->row_start,
         (size_t)(w->block_rows + 1) * sizeof(int32_t));
  if (w->count) memcpy((int32_t *)own->column, pattern->column, (size_t)w->count * sizeof(int32_t));
  by_columns(w, own->row_start, own->column, (int32_t *)own->col_start, (int32_t *)own->row,
             (int32_t *)own->place);
  w->longest_row = longest(own->row_start, w->block_rows);
  w->longest_col = longest(own->col_start, w->block_cols);
  return LAYEROPS_OK;
}

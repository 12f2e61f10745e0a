/* Block-sparse weights from element-wise sparse arrays, CSR and COO, and back to CSR. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "common/bsr.h"
#include "common/door.h"

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Behind the block rows from `first` on whose values are moved at once: at least one. */
static int64_t batch_end(const layerops_bsr *w, int64_t first) {
  const int64_t most = (1 << 22) / (w->height * w->width);
  int64_t end = first + 1;
  while (end < w->block_rows && w->host.row_start[end + 1] - w->host.row_start[first] <= most)
    end++;
  return end;
}

static float *batch_memory(const layerops_bsr *w, int64_t first, int64_t end, int64_t *count) {
  *count = w->host.row_start[end] - w->host.row_start[first];
  return lo_bsr_memory(*count * w->height * w->width, sizeof(float));
}

/* ---- Elements by rows ---- */

typedef struct elements {
  const layerops_bsr_elements_args *a;
  const int64_t *row_start; /* the user's, or of */
  const int64_t *order;     /* COO: which element comes when; CSR: NULL, as they stand */
} elements;

static int64_t element_at(const elements *e, int64_t at) {
  return e->order ? e->order[at] : at;
}

/* Counts, sums, deals out: those of a row stay in their order. */
static void sort_by_row(const layerops_bsr_elements_args *a, int64_t *row_start, int64_t *order) {
  for (int64_t i = 0; i < a->count; i++) row_start[a->row[i] + 1]++;
  for (int64_t r = 0; r < a->rows; r++) row_start[r + 1] += row_start[r];
  for (int64_t i = 0; i < a->count; i++) order[row_start[a->row[i]]++] = i;
  memmove(row_start + 1, row_start, (size_t)a->rows * sizeof *row_start);
  row_start[0] = 0;
}

/* ---- Pattern ---- */

static int ascending(const void *left, const void *right) {
  const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
  return (a > b) - (a < b);
}

/* The block columns of block row r, as they are found; seen[c] is r + 1 once c was. */
static int64_t find_columns(const elements *e, const lo_bsr_shape *shape, int64_t r, int32_t *seen,
                            int32_t *columns) {
  const int64_t end = e->row_start[smaller((r + 1) * shape->height, shape->rows)];
  int64_t count = 0;
  for (int64_t at = e->row_start[r * shape->height]; at < end; at++) {
    const int64_t c = e->a->column[element_at(e, at)] / shape->width;
    if (seen[c] == r + 1) continue;
    seen[c] = (int32_t)(r + 1);
    columns[count++] = (int32_t)c;
  }
  return count;
}

/* `seen` of block_cols zeros; `columns` has room for as many. */
static layerops_status find_pattern(const char *function, const elements *e,
                                    const lo_bsr_shape *shape, int32_t *seen, int32_t *columns,
                                    lo_bsr_pattern *pattern) {
  int64_t count = 0;
  for (int64_t r = 0; r < shape->block_rows; r++) count += find_columns(e, shape, r, seen, columns);
  LO_TRY(lo_bsr_check_count(function, count));
  LO_TRY(lo_bsr_pattern_new(function, shape, count, pattern));
  memset(seen, 0, (size_t)shape->block_cols * sizeof *seen);
  int32_t *row_start = pattern->memory, *column = row_start + shape->block_rows + 1;
  for (int64_t r = 0; r < shape->block_rows; r++) {
    const int64_t found = find_columns(e, shape, r, seen, columns);
    qsort(columns, (size_t)found, sizeof *columns, ascending);
    memcpy(column + row_start[r], columns, (size_t)found * sizeof *columns);
    row_start[r + 1] = row_start[r] + (int32_t)found;
  }
  return LAYEROPS_OK;
}

static layerops_status pattern_of(const char *function, const elements *e,
                                  const lo_bsr_shape *shape, lo_bsr_pattern *pattern) {
  int32_t *seen = lo_bsr_memory(shape->block_cols, sizeof *seen);
  int32_t *columns = lo_bsr_memory(shape->block_cols, sizeof *columns);
  const layerops_status status = seen && columns
                                     ? find_pattern(function, e, shape, seen, columns, pattern)
                                     : lo_bsr_no_memory(function);
  free(seen);
  free(columns);
  return status;
}

/* ---- Values ---- */

/* Adds the elements of block row r to its blocks; where[c] is that of block column c. */
static void add_row(const elements *e, const layerops_bsr *w, int64_t r, int32_t *where,
                    float *blocks) {
  const int64_t last = smaller((r + 1) * w->height, w->rows);
  for (int32_t i = w->host.row_start[r]; i < w->host.row_start[r + 1]; i++)
    where[w->host.column[i]] = i - w->host.row_start[r];
  for (int64_t row = r * w->height; row < last; row++)
    for (int64_t at = e->row_start[row]; at < e->row_start[row + 1]; at++) {
      const int64_t i = element_at(e, at), column = e->a->column[i];
      const int64_t block = where[column / w->width];
      blocks[(block * w->height + row % w->height) * w->width + column % w->width] +=
          e->a->values[i];
    }
}

static layerops_status put_batch(const char *function, layerops_context *ctx, const elements *e,
                                 layerops_bsr *w, int64_t first, int64_t end, int32_t *where) {
  const int32_t begin = w->host.row_start[first];
  int64_t count;
  float *blocks = batch_memory(w, first, end, &count);
  if (!blocks) return lo_bsr_no_memory(function);
  for (int64_t r = first; r < end; r++)
    add_row(e, w, r, where, blocks + (w->host.row_start[r] - begin) * w->height * w->width);
  const layerops_status status = lo_bsr_put(function, ctx, w, begin, count, blocks);
  free(blocks);
  return status;
}

static layerops_status put_elements(const char *function, layerops_context *ctx, const elements *e,
                                    layerops_bsr *w) {
  int32_t *where = lo_bsr_memory(w->block_cols, sizeof *where);
  layerops_status status = where ? LAYEROPS_OK : lo_bsr_no_memory(function);
  for (int64_t r = 0, end; r < w->block_rows && status == LAYEROPS_OK; r = end) {
    end = batch_end(w, r);
    status = put_batch(function, ctx, e, w, r, end, where);
  }
  free(where);
  return status;
}

/* ---- The public functions ---- */

static const char from_name[] = "bsr_from_elements";

static layerops_status check_indices(const char *name, const int64_t *index, int64_t count,
                                     int64_t limit) {
  for (int64_t i = 0; i < count; i++)
    if (index[i] < 0 || index[i] >= limit)
      return lo_fail(LAYEROPS_ERROR_INVALID, "%s: %s[%lld] is %lld, but must lie in [0, %lld)",
                     from_name, name, (long long)i, (long long)index[i], (long long)limit);
  return LAYEROPS_OK;
}

static layerops_status check_arrays(const layerops_bsr_elements_args *a) {
  if (a->row_start && a->row)
    return lo_fail(LAYEROPS_ERROR_INVALID, "%s: row_start and row are both set: give one",
                   from_name);
  const char *missing = !a->row_start && !a->row && a->count ? "row_start, or row, is needed, but"
                        : a->count && !a->column             ? "column"
                        : a->count && !a->values             ? "values"
                                                             : NULL;
  if (missing) return lo_fail(LAYEROPS_ERROR_INVALID, "%s: %s is NULL", from_name, missing);
  if (a->count < 0)
    return lo_fail(LAYEROPS_ERROR_INVALID, "%s: count is %lld", from_name, (long long)a->count);
  return LAYEROPS_OK;
}

static layerops_status check(layerops_context *ctx, const layerops_bsr_elements_args *a,
                             lo_bsr_shape *shape) {
  LO_TRY(lo_bsr_check_shape(from_name, a->rows, a->cols, a->block, a->width, shape));
  LO_TRY(lo_bsr_check_device(from_name, ctx, shape));
  LO_TRY(lo_bsr_check_type(from_name, a->type));
  LO_TRY(lo_bsr_check_reserved(from_name, a->reserved));
  LO_TRY(check_arrays(a));
  if (a->row_start) LO_TRY(lo_bsr_check_starts(from_name, a->row_start, a->rows, a->count));
  if (a->row) LO_TRY(check_indices("row", a->row, a->count, a->rows));
  return check_indices("column", a->column, a->count, a->cols);
}

static layerops_status from_rows(layerops_context *ctx, const elements *e,
                                 const lo_bsr_shape *shape, layerops_bsr **bsr) {
  lo_bsr_pattern pattern;
  LO_TRY(pattern_of(from_name, e, shape, &pattern));
  layerops_status status = lo_bsr_make(from_name, ctx, shape, e->a->type, &pattern, bsr);
  free(pattern.memory);
  if (status != LAYEROPS_OK) return status;
  return lo_bsr_keep(put_elements(from_name, ctx, e, *bsr), *bsr, bsr);
}

static layerops_status from_coo(layerops_context *ctx, const layerops_bsr_elements_args *a,
                                const lo_bsr_shape *shape, layerops_bsr **bsr) {
  int64_t *row_start = lo_bsr_memory(a->rows + 1, sizeof *row_start);
  int64_t *order = lo_bsr_memory(a->count, sizeof *order);
  layerops_status status = row_start && order ? LAYEROPS_OK : lo_bsr_no_memory(from_name);
  if (status == LAYEROPS_OK) {
    sort_by_row(a, row_start, order);
    const elements e = {a, row_start, order};
    status = from_rows(ctx, &e, shape, bsr);
  }
  free(row_start);
  free(order);
  return status;
}

layerops_status layerops_bsr_from_elements_(layerops_context *ctx,
                                            const layerops_bsr_elements_args *args, size_t size,
                                            layerops_bsr **bsr) {
  layerops_bsr_elements_args a;
  lo_bsr_shape shape;
  LO_TRY(lo_enter(ctx, from_name));
  LO_TRY(lo_not_recording(ctx, from_name));
  LO_TRY(lo_copy_args(from_name, &a, sizeof a, args, size));
  if (!bsr) return lo_fail(LAYEROPS_ERROR_INVALID, "%s: bsr is NULL", from_name);
  *bsr = NULL;
  LO_TRY(check(ctx, &a, &shape));
  const elements csr = {&a, a.row_start, NULL};
  return a.row_start ? from_rows(ctx, &csr, &shape, bsr) : from_coo(ctx, &a, &shape, bsr);
}

/* Elements of a row of a block: fewer where it stands out of W. */
static int64_t across(const layerops_bsr *w, int64_t block) {
  return smaller(w->width, w->cols - w->host.column[block] * w->width);
}

/* The elements of row `row` of W, of which `blocks` holds the values of its block row, if any. */
static int64_t write_row(const layerops_bsr *w, int64_t row, const float *blocks, int64_t *column,
                         float *values) {
  const int64_t r = row / w->height, begin = w->host.row_start[r];
  int64_t count = 0;
  for (int64_t i = begin; i < w->host.row_start[r + 1]; i++) {
    const int64_t width = across(w, i);
    const int64_t from = ((i - begin) * w->height + row % w->height) * w->width;
    for (int64_t j = 0; column && j < width; j++)
      column[count + j] = w->host.column[i] * w->width + j;
    if (values) memcpy(values + count, blocks + from, (size_t)width * sizeof *values);
    count += width;
  }
  return count;
}

typedef struct csr {
  int64_t *row_start, *column;
  float *values;
  int64_t count; /* elements so far */
} csr;

static layerops_status write_batch(const char *function, layerops_context *ctx,
                                   const layerops_bsr *w, int64_t first, int64_t end, csr *to) {
  const int64_t begin = w->host.row_start[first], last = smaller(end * w->height, w->rows);
  int64_t count;
  float *blocks = batch_memory(w, first, end, &count);
  if (!blocks) return lo_bsr_no_memory(function);
  const layerops_status status =
      to->values ? lo_bsr_get(function, ctx, w, begin, count, blocks) : LAYEROPS_OK;
  for (int64_t row = first * w->height; status == LAYEROPS_OK && row < last; row++) {
    const int64_t before = w->host.row_start[row / w->height] - begin;
    to->count += write_row(w, row, blocks + before * w->height * w->width,
                           to->column ? to->column + to->count : NULL,
                           to->values ? to->values + to->count : NULL);
    if (to->row_start) to->row_start[row + 1] = to->count;
  }
  free(blocks);
  return status;
}

layerops_status layerops_bsr_to_csr(layerops_context *ctx, const layerops_bsr *bsr,
                                    int64_t *row_start, int64_t *column, float *values) {
  static const char name[] = "bsr_to_csr";
  LO_TRY(lo_enter(ctx, name));
  LO_TRY(lo_not_recording(ctx, name));
  LO_TRY(lo_bsr_check_use(name, ctx, bsr));
  csr to = {row_start, column, values, 0};
  if (row_start) row_start[0] = 0;
  for (int64_t r = 0, end; r < bsr->block_rows; r = end) {
    end = batch_end(bsr, r);
    LO_TRY(write_batch(name, ctx, bsr, r, end, &to));
  }
  return LAYEROPS_OK;
}

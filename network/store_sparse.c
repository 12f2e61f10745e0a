/* The pattern of a block-sparse layer in a network's file. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bsr.h"
#include "network/store.h"

/* More columns than any first layer has, so that a small file cannot ask for much memory: other
 * layers' columns and all rows are those of a tensor that is there. */
#define MAX_INPUTS (1 << 24)

enum { SIZE, ROW_START, COLUMN };
static const char *const names[LO_STORE_ARRAYS] = {
    [SIZE] = "weight.size", [ROW_START] = "weight.row_start", [COLUMN] = "weight.column"};

/* ---- Reading ---- */

static layerops_status find(const char *path, const lo_safetensors *file, int64_t layer,
                            const char *what, const char *dtype, int rank, const lo_tensor **t) {
  const lo_store_name name = lo_store_name_of(NULL, layer, what);
  *t = lo_safetensors_find(file, name.text);
  if (!*t) return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %s is missing", path, name.text);
  if (!strcmp((*t)->dtype, dtype) && (*t)->rank == rank) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_FORMAT,
                 "%s: %s is %.20s with %d dimensions, but must be %s with %d", path, name.text,
                 (*t)->dtype, (int)(*t)->rank, dtype, rank);
}

layerops_status lo_store_sparse_size(const char *path, const lo_safetensors *file, int64_t layer,
                                     bool *found, int64_t size[2]) {
  const lo_tensor *t;
  const lo_store_name name = lo_store_name_of(NULL, layer, names[SIZE]);
  *found = lo_safetensors_find(file, name.text) != NULL;
  if (!*found) return LAYEROPS_OK;
  LO_TRY(find(path, file, layer, names[SIZE], "I64", 1, &t));
  if (t->shape[0] != 2)
    return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %s has %lld elements, but must have 2", path,
                   name.text, (long long)t->shape[0]);
  memcpy(size, t->data, 2 * sizeof *size);
  return LAYEROPS_OK;
}

/* The place before the message; what the file is to blame for becomes FORMAT. */
static layerops_status blame(const char *path, int64_t layer, layerops_status status) {
  char text[400];
  const bool wrong = status == LAYEROPS_ERROR_INVALID || status == LAYEROPS_ERROR_OVERFLOW;
  if (status == LAYEROPS_OK) return status;
  snprintf(text, sizeof text, "%s", layerops_last_error());
  return lo_fail(wrong ? LAYEROPS_ERROR_FORMAT : status, "%s: layers.%lld.weight: %s", path,
                 (long long)layer, text);
}

/* An array of I32 in memory that is aligned, and just as long. */
static layerops_status get_array(const char *path, const lo_safetensors *file, int64_t layer,
                                 int which, int64_t count, int32_t **array) {
  const lo_tensor *t;
  LO_TRY(find(path, file, layer, names[which], "I32", 1, &t));
  if (t->shape[0] != count)
    return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %s has %lld elements, but must have %lld", path,
                   t->name, (long long)t->shape[0], (long long)count);
  *array = lo_bsr_memory(count, sizeof **array);
  if (!*array) return lo_bsr_no_memory(path);
  memcpy(*array, t->data, (size_t)t->bytes);
  return LAYEROPS_OK;
}

/* Sizes that agree with each other, of an array that is there. */
static layerops_status get_shape(const char *path, const lo_safetensors *file, int64_t layer,
                                 const int64_t size[2], int64_t *count, lo_bsr_shape *shape) {
  const lo_tensor *values;
  LO_TRY(find(path, file, layer, "weight.values", "F32", 3, &values));
  const int64_t height = values->shape[1], width = values->shape[2];
  *count = values->shape[0];
  if (!width) return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %s has a width of 0", path, values->name);
  const layerops_status cut =
      lo_bsr_check_shape("network_load", size[0], size[1], height, width, shape);
  LO_TRY(blame(path, layer, cut == LAYEROPS_ERROR_UNSUPPORTED ? LAYEROPS_ERROR_INVALID : cut));
  LO_TRY(blame(path, layer, lo_bsr_check_count("network_load", *count)));
  if (size[1] <= MAX_INPUTS) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_FORMAT,
                 "%s: layers.%lld.weight has %lld inputs: at most %d are read", path,
                 (long long)layer, (long long)size[1], MAX_INPUTS);
}

layerops_status lo_store_sparse_pattern(layerops_context *ctx, const char *path,
                                        const lo_safetensors *file, int64_t layer,
                                        const int64_t size[2], layerops_bsr **w) {
  lo_bsr_shape shape;
  int64_t count;
  int32_t *row_start = NULL, *column = NULL;
  *w = NULL;
  LO_TRY(get_shape(path, file, layer, size, &count, &shape));
  layerops_status status =
      get_array(path, file, layer, ROW_START, shape.block_rows + 1, &row_start);
  if (status == LAYEROPS_OK) status = get_array(path, file, layer, COLUMN, count, &column);
  if (status == LAYEROPS_OK) {
    const layerops_bsr_args args = {.rows = size[0],
                                    .cols = size[1],
                                    .block = shape.height,
                                    .width = shape.width,
                                    .count = count,
                                    .row_start = row_start,
                                    .column = column,
                                    .type = LAYEROPS_F32};
    status = blame(path, layer, layerops_bsr_create(ctx, &args, w));
  }
  free(row_start);
  free(column);
  return status;
}

void lo_store_clear_outside(const layerops_bsr *w, float *values) {
  for (int64_t r = 0; r < w->block_rows; r++)
    for (int64_t b = w->host.row_start[r]; b < w->host.row_start[r + 1]; b++)
      for (int64_t i = 0; i < w->height; i++) {
        float *row = values + (b * w->height + i) * w->width;
        const int64_t left = w->cols - w->host.column[b] * w->width;
        const int64_t inside = r * w->height + i >= w->rows ? 0 : left < w->width ? left : w->width;
        memset(row + inside, 0, (size_t)(w->width - inside) * sizeof *row);
      }
}

/* ---- Writing ---- */

void lo_store_sparse_arrays(const layerops_bsr *w, int64_t layer, int64_t size[2],
                            lo_store_name text[LO_STORE_ARRAYS],
                            lo_tensor tensors[LO_STORE_ARRAYS]) {
  const lo_tensor arrays[LO_STORE_ARRAYS] = {
      [SIZE] = {.dtype = "I64", .shape = {2}, .data = size},
      [ROW_START] = {.dtype = "I32", .shape = {w->block_rows + 1}, .data = w->host.row_start},
      [COLUMN] = {.dtype = "I32", .shape = {w->count}, .data = w->host.column}};
  size[0] = w->rows;
  size[1] = w->cols;
  for (int i = 0; i < LO_STORE_ARRAYS; i++) {
    text[i] = lo_store_name_of(NULL, layer, names[i]);
    tensors[i] = arrays[i];
    tensors[i].name = text[i].text;
    tensors[i].rank = 1;
  }
}

/* Aliasing: an output must not overlap another operand, but for its input, where the operation has
 * one for it, that is the very same view. Judged by elements where strides are equal (column slices
 * of one matrix are apart), else by address range. */
#include <config.h>

#include "common/door.h"

typedef struct extent {
  const void *root;
  int64_t begin, end;    /* bytes within root */
  int64_t stride, width; /* bytes: from row to row (0: there is one), of a row's elements */
} extent;

static extent extent_of(const layerops_matrix *v) {
  int64_t size = (int64_t)lo_type_bytes(v->type);
  extent e = {.root = v->host ? NULL : v->buffer->root,
              .begin = v->host ? (int64_t)(intptr_t)v->host : v->buffer->root_offset,
              .stride = v->rows > 1 ? v->stride * size : 0,
              .width = v->cols * size};
  e.begin += v->offset * size;
  e.end = e.begin + ((v->batch - 1) * v->batch_stride + (v->rows - 1) * v->stride + v->cols) * size;
  return e;
}

static bool same_view(const layerops_matrix *a, const layerops_matrix *b, extent x, extent y) {
  return x.root == y.root && x.begin == y.begin && a->rows == b->rows && a->cols == b->cols &&
         x.stride == y.stride && a->batch == b->batch &&
         (a->batch == 1 || a->batch_stride == b->batch_stride) &&
         lo_type_bytes(a->type) == lo_type_bytes(b->type);
}

static bool overlap(const layerops_matrix *a, const layerops_matrix *b, extent x, extent y) {
  if (x.root != y.root || x.end <= y.begin || y.end <= x.begin) return false;
  const int64_t stride = x.stride ? x.stride : y.stride; /* a single row fits any */
  if (!stride || (y.stride && y.stride != stride) || a->batch > 1 || b->batch > 1) return true;
  /* Equal strides: the column ranges within a period of one row must overlap. */
  int64_t shift = (y.begin - x.begin) % stride;
  if (shift < 0) shift += stride;
  return shift < x.width || shift + y.width > stride;
}

static bool has_memory(const layerops_matrix *v) {
  return v->rows && v->cols && v->batch;
}

layerops_status lo_check_aliases(lo_door *door) {
  for (int i = 0; i < door->count; i++) {
    const lo_operand *out = &door->operands[i];
    if (!(out->role & LO_OUT) || !has_memory(out->view)) continue;
    extent x = extent_of(out->view);
    for (int j = 0; j < door->count; j++) {
      const lo_operand *other = &door->operands[j];
      if (i == j || !has_memory(other->view) || ((other->role & LO_OUT) && j < i)) continue;
      extent y = extent_of(other->view);
      if (!overlap(out->view, other->view, x, y)) continue;
      const bool pair = out->role & other->role & (LO_IN_PLACE | LO_IN_PLACE_TOO);
      if (pair && same_view(out->view, other->view, x, y)) continue;
      return lo_door_refuse(
          door, LAYEROPS_ERROR_ALIAS, "%s overlaps %s%s", out->name, other->name,
          pair ? " without being the same view (place, shape, stride, element size)" : "");
    }
  }
  return LAYEROPS_OK;
}

/* What products of 8-bit integers have beside their operands. */
#include <config.h>

#include "common/door.h"

enum { MAX_K = INT32_MAX / (255 * 128) };

static layerops_status check_scale(lo_door *door, layerops_type type, const lo_scale *s) {
  const layerops_matrix *v = s->view;
  if (!lo_is_int8(type))
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID,
                          "%s is set, but is for operands of i8 and u8: they are %s here", s->name,
                          layerops_type_name(type));
  LO_TRY(lo_door_matrix(door, s->name, s->view, LO_IN, LO_BIT(s->type), LO_ANY, LO_ANY));
  if (v->batch == 1 && v->rows == 1 && (v->cols == 1 || v->cols == s->count)) return LAYEROPS_OK;
  return lo_door_refuse(door, LAYEROPS_ERROR_INVALID,
                        "%s is %lld x %lld in a batch of %lld, but must be 1 x 1 or 1 x %lld in a "
                        "batch of 1",
                        s->name, (long long)v->rows, (long long)v->cols, (long long)v->batch,
                        (long long)s->count);
}

layerops_status lo_door_scales(lo_door *door, layerops_type type, int64_t k, const lo_scale *scales,
                               int count) {
  for (int i = 0; i < count; i++)
    if (lo_given(scales[i].view)) LO_TRY(check_scale(door, type, &scales[i]));
  if (!lo_is_int8(type) || k <= MAX_K) return LAYEROPS_OK;
  return lo_door_refuse(door, LAYEROPS_ERROR_OVERFLOW,
                        "k is %lld: a sum of more than %d products of 8 bits could overflow int32",
                        (long long)k, MAX_K);
}

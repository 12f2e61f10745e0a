/* The types that the operands of a product may have, and what those of 8 bits have beside them. */
#include <config.h>

#include "common/door.h"

/* The largest k whose sum of products of u8 and i8 cannot overflow int32. */
enum { MAX_K = INT32_MAX / (255 * 128) };

lo_product_types lo_product_types_of(layerops_type a) {
  enum { F32 = LO_BIT(LAYEROPS_F32), F16 = LO_BIT(LAYEROPS_F16), BF16 = LO_BIT(LAYEROPS_BF16) };
  enum { I8 = LO_BIT(LAYEROPS_I8), I32 = LO_BIT(LAYEROPS_I32) };
  static const lo_product_types types[LAYEROPS_TYPE_COUNT] = {
      [LAYEROPS_F32] = {.b = F32, .beside = F32},
      [LAYEROPS_F16] = {.b = F16 | I8 | LO_F8, .beside = F16 | F32},
      [LAYEROPS_BF16] = {.b = BF16 | I8 | LO_F8, .beside = BF16 | F32},
      [LAYEROPS_I8] = {.b = I8, .beside = LO_FLOAT, .sums = I32, .narrow = LO_INT8},
      [LAYEROPS_U8] = {.b = I8, .beside = LO_FLOAT, .sums = I32, .narrow = LO_INT8},
      [LAYEROPS_F8E4M3] = {.b = LO_F8, .beside = LO_FLOAT, .narrow = LO_F8},
      [LAYEROPS_F8E5M2] = {.b = LO_F8, .beside = LO_FLOAT, .narrow = LO_F8},
  };
  return types[a];
}

lo_op_types lo_op_types_of(layerops_op op, layerops_type first) {
  switch (op) {
  case LAYEROPS_OP_gemm:
  case LAYEROPS_OP_linear_forward:
    return (lo_op_types){LO_MULTIPLIED, lo_product_types_of(first).b};
  case LAYEROPS_OP_linear_backward:
    return (lo_op_types){LO_FLOAT, LO_BIT(first)};
  case LAYEROPS_OP_fill:
  case LAYEROPS_OP_copy:
  case LAYEROPS_OP_gather:
    return (lo_op_types){LO_COPYABLE, LO_COPYABLE};
  case LAYEROPS_OP_transpose:
    return (lo_op_types){LO_COPYABLE, LO_BIT(first)};
  case LAYEROPS_OP_bsr_linear_forward:
    return (lo_op_types){LO_FLOAT, LO_BIT(first)};
  default:
    return (lo_op_types){LO_FLOAT, LO_FLOAT};
  }
}

static layerops_status check_scale(lo_door *door, const lo_scale *s) {
  const layerops_matrix *v = s->view;
  char list[LO_TYPES_TEXT];
  if (!(s->types & LO_BIT(s->of->type)))
    return lo_door_refuse(
        door, LAYEROPS_ERROR_INVALID, "%s is set, but is only for %s of %s, which is %s here",
        s->name, s->of_name, lo_types_text(s->types, list), layerops_type_name(s->of->type));
  LO_TRY(lo_door_matrix(door, s->name, s->view, LO_IN, LO_BIT(s->type), LO_ANY, LO_ANY));
  if (v->batch == 1 && v->rows == 1 && (v->cols == 1 || v->cols == s->count)) return LAYEROPS_OK;
  return lo_door_refuse(door, LAYEROPS_ERROR_INVALID,
                        "%s is %lld x %lld in a batch of %lld, but must be 1 x 1 or 1 x %lld in a "
                        "batch of 1",
                        s->name, (long long)v->rows, (long long)v->cols, (long long)v->batch,
                        (long long)s->count);
}

layerops_status lo_door_scales(lo_door *door, const lo_scale *scales, int count) {
  for (int i = 0; i < count; i++)
    if (lo_given(scales[i].view)) LO_TRY(check_scale(door, &scales[i]));
  return LAYEROPS_OK;
}

layerops_status lo_door_sums(lo_door *door, layerops_type a, int64_t k) {
  if (!lo_is_int8(a) || k <= MAX_K) return LAYEROPS_OK;
  return lo_door_refuse(door, LAYEROPS_ERROR_OVERFLOW,
                        "k is %lld: a sum of more than %d products of 8 bits could overflow int32",
                        (long long)k, MAX_K);
}

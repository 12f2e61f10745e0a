#include <config.h>

#include "common/again.h"

layerops_status layerops_linear_forward_(layerops_context *ctx,
                                         const layerops_linear_forward_args *args, size_t size) {
  lo_door door;
  LO_CALL_AGAIN(ctx, LAYEROPS_OP_linear_forward, args, size);
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_linear_forward, sizeof *args, args, size));
  layerops_linear_forward_args *a = &door.call.args.linear_forward;
  LO_TRY(lo_door_flags(&door, a->flags));
  LO_TRY(lo_door_matrix(&door, "x", &a->x, LO_IN, LO_MULTIPLIED, LO_ANY, LO_ANY));
  int64_t m = a->x.rows, k = a->x.cols;
  const lo_product_types types = lo_product_types_of(a->x.type);
  const bool packed = a->packed != NULL;
  layerops_matrix w;
  LO_TRY(lo_door_weights(&door, &a->w, &a->packed, false, a->x.type, types.b, LO_ANY, k, &w));
  int64_t n = w.rows;
  LO_TRY(lo_door_optional(&door, "bias", &a->bias, LO_IN, types.beside, 1, n));
  LO_TRY(
      lo_door_optional(&door, "residual", &a->residual, LO_IN | LO_IN_PLACE, types.beside, m, n));
  LO_TRY(lo_door_optional(&door, "preact", &a->preact, LO_OUT, types.beside, m, n));
  LO_TRY(
      lo_door_matrix(&door, "y", &a->y, LO_OUT | LO_IN_PLACE, types.beside | types.narrow, m, n));
  const lo_scale scales[] = {{"scale_x", &a->scale_x, LAYEROPS_F32, m, "x", &a->x, LO_BYTES},
                             {"scale_w", &a->scale_w, LAYEROPS_F32, n, "w", &w, LO_BYTES},
                             {"zero_x", &a->zero_x, LAYEROPS_I32, m, "x", &a->x, LO_INT8},
                             {"scale_y", &a->scale_y, LAYEROPS_F32, 1, "y", &a->y, LO_BYTES}};
  LO_TRY(lo_door_scales(&door, scales, 4));
  LO_TRY(lo_door_sums(&door, a->x.type, k));
  LO_TRY(lo_door_all_unbatched(&door));
  LO_TRY(lo_door_activation(&door, "activation", a->activation));
  LO_TRY(lo_door_value(&door, "slope", &a->slope, 0.01, -1e30, 1e30));
  LO_TRY(lo_door_scalar(&door, "alpha", &a->alpha, 1));
  lo_door_describe(&door, m, n, k, 2.0 * (double)m * (double)n * (double)k, a->x.type, a->y.type);
  lo_door_pair(&door, w.type);
  lo_door_detail(&door, 1, "trans=nt activation=%s%s", layerops_activation_name(a->activation),
                 packed ? " packed=1" : "");
  return lo_door_pass(&door);
}

/* What the gradient's own activation needs. */
static layerops_status check_dz(lo_door *door, layerops_linear_backward_args *a) {
  int64_t m = a->dy.rows, n = a->dy.cols;
  unsigned types = lo_same_or_f32(a->dy.type);
  LO_TRY(lo_door_activation(door, "activation", a->activation));
  LO_TRY(lo_door_value(door, "slope", &a->slope, 0.01, 0, 1e30));
  LO_TRY(a->activation == LAYEROPS_IDENTITY
             ? lo_door_optional(door, "saved", &a->saved, LO_IN, types, m, n)
             : lo_door_matrix(door, "saved", &a->saved, LO_IN, types, m, n));
  return lo_door_optional(door, "dz", &a->dz, LO_OUT | LO_IN_PLACE, LO_BIT(a->dy.type), m, n);
}

/* In place of an operand that is given but not needed: nobody checked it, so no backend sees it. */
static const layerops_matrix unneeded;

static layerops_status check_dx(lo_door *door, layerops_linear_backward_args *a,
                                layerops_matrix *w) {
  LO_TRY(lo_door_activation(door, "dx_activation", a->dx_activation));
  LO_TRY(lo_door_value(door, "dx_slope", &a->dx_slope, 0.01, 0, 1e30));
  if (!lo_given(&a->dx)) {
    if (a->dx_activation != LAYEROPS_IDENTITY)
      return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "dx_activation is set, but dx is absent");
    a->w = a->dx_saved = unneeded;
    a->packed = NULL;
    return LAYEROPS_OK;
  }
  unsigned types = lo_same_or_f32(a->dy.type);
  LO_TRY(lo_door_weights(door, &a->w, &a->packed, true, a->dy.type, LO_BIT(a->dy.type), a->dy.cols,
                         LO_ANY, w));
  LO_TRY(lo_door_matrix(door, "dx", &a->dx, LO_OUT | LO_IN_PLACE_TOO, types, a->dy.rows, w->cols));
  return (a->dx_activation == LAYEROPS_IDENTITY ? lo_door_optional : lo_door_matrix)(
      door, "dx_saved", &a->dx_saved, LO_IN | LO_IN_PLACE_TOO, types, a->dy.rows, w->cols);
}

static layerops_status check_dw(lo_door *door, layerops_linear_backward_args *a) {
  unsigned types = lo_same_or_f32(a->dy.type);
  if (lo_given(&a->dw)) {
    LO_TRY(lo_door_matrix(door, "x", &a->x, LO_IN, LO_BIT(a->dy.type), a->dy.rows, LO_ANY));
    LO_TRY(lo_door_matrix(door, "dw", &a->dw, LO_INOUT, types, a->dy.cols, a->x.cols));
  } else {
    a->x = unneeded;
  }
  LO_TRY(lo_door_optional(door, "dbias", &a->dbias, LO_INOUT, types, 1, a->dy.cols));
  return lo_door_scalar(door, "beta", &a->beta, 0);
}

layerops_status layerops_linear_backward_(layerops_context *ctx,
                                          const layerops_linear_backward_args *args, size_t size) {
  lo_door door;
  LO_CALL_AGAIN(ctx, LAYEROPS_OP_linear_backward, args, size);
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_linear_backward, sizeof *args, args, size));
  layerops_linear_backward_args *a = &door.call.args.linear_backward;
  LO_TRY(lo_door_flags(&door, a->flags));
  LO_TRY(lo_door_reserved(&door, a->reserved));
  LO_TRY(lo_door_matrix(&door, "dy", &a->dy, LO_IN | LO_IN_PLACE, LO_FLOAT, LO_ANY, LO_ANY));
  LO_TRY(check_dz(&door, a));
  const bool packed = a->packed && lo_given(&a->dx);
  layerops_matrix w = unneeded;
  LO_TRY(check_dx(&door, a, &w));
  LO_TRY(check_dw(&door, a));
  if (!lo_present(&a->dx) && !lo_present(&a->dw) && !lo_present(&a->dbias) && !lo_present(&a->dz))
    return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID, "dz, dx, dw and dbias are all absent");
  LO_TRY(lo_door_all_unbatched(&door));
  int64_t k = lo_present(&a->dx) ? w.cols : lo_present(&a->dw) ? a->x.cols : 0;
  int products = lo_present(&a->dx) + lo_present(&a->dw);
  lo_door_describe(&door, a->dy.rows, a->dy.cols, k,
                   2.0 * products * (double)a->dy.rows * (double)a->dy.cols * (double)k, a->dy.type,
                   lo_present(&a->dw) ? a->dw.type : a->dx.type);
  lo_door_detail(&door, 1, "wants=%s%s%s activation=%s%s", lo_present(&a->dx) ? "x" : "",
                 lo_present(&a->dw) ? "w" : "", lo_present(&a->dbias) ? "b" : "",
                 layerops_activation_name(a->dx_activation), packed ? " packed=1" : "");
  return lo_door_pass(&door);
}

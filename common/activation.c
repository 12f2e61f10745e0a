#include <config.h>

#include "common/again.h"

layerops_status layerops_activation_forward_(layerops_context *ctx,
                                             const layerops_activation_forward_args *args,
                                             size_t size) {
  lo_door door;
  LO_CALL_AGAIN(ctx, LAYEROPS_OP_activation_forward, args, size);
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_activation_forward, sizeof *args, args, size));
  layerops_activation_forward_args *a = &door.call.args.activation_forward;
  LO_TRY(lo_door_reserved(&door, a->reserved));
  LO_TRY(lo_door_matrix(&door, "x", &a->x, LO_IN | LO_IN_PLACE, LO_FLOAT, LO_ANY, LO_ANY));
  LO_TRY(lo_door_matrix(&door, "y", &a->y, LO_OUT | LO_IN_PLACE, LO_FLOAT, a->x.rows, a->x.cols));
  LO_TRY(lo_door_all_unbatched(&door));
  LO_TRY(lo_door_activation(&door, "activation", a->activation));
  LO_TRY(lo_door_value(&door, "slope", &a->slope, 0.01, -1e30, 1e30));
  lo_door_describe(&door, a->x.rows, a->x.cols, 0, (double)a->x.rows * (double)a->x.cols, a->x.type,
                   a->y.type);
  lo_door_detail(&door, 1, "activation=%s", layerops_activation_name(a->activation));
  return lo_door_pass(&door);
}

layerops_status layerops_activation_backward_(layerops_context *ctx,
                                              const layerops_activation_backward_args *args,
                                              size_t size) {
  lo_door door;
  LO_CALL_AGAIN(ctx, LAYEROPS_OP_activation_backward, args, size);
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_activation_backward, sizeof *args, args, size));
  layerops_activation_backward_args *a = &door.call.args.activation_backward;
  LO_TRY(lo_door_reserved(&door, a->reserved));
  LO_TRY(lo_door_matrix(&door, "dy", &a->dy, LO_IN | LO_IN_PLACE, LO_FLOAT, LO_ANY, LO_ANY));
  int64_t m = a->dy.rows, n = a->dy.cols;
  LO_TRY(lo_door_matrix(&door, "saved", &a->saved, LO_IN | LO_IN_PLACE, LO_FLOAT, m, n));
  LO_TRY(lo_door_matrix(&door, "dx", &a->dx, LO_OUT | LO_IN_PLACE, LO_FLOAT, m, n));
  LO_TRY(lo_door_all_unbatched(&door));
  LO_TRY(lo_door_activation(&door, "activation", a->activation));
  LO_TRY(lo_door_value(&door, "slope", &a->slope, 0.01, 0, 1e30));
  lo_door_describe(&door, m, n, 0, 2.0 * (double)m * (double)n, a->dy.type, a->dx.type);
  lo_door_detail(&door, 1, "activation=%s", layerops_activation_name(a->activation));
  return lo_door_pass(&door);
}

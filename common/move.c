/* Operations that move data: fill, copy (cast), transpose, gather. */
#include <config.h>

#include "common/again.h"

layerops_status layerops_fill_(layerops_context *ctx, const layerops_fill_args *args, size_t size) {
  lo_door door;
  LO_CALL_AGAIN(ctx, LAYEROPS_OP_fill, args, size);
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_fill, sizeof *args, args, size));
  layerops_fill_args *a = &door.call.args.fill;
  LO_TRY(lo_door_matrix(&door, "y", &a->y, LO_OUT, LO_COPYABLE, LO_ANY, LO_ANY));
  LO_TRY(lo_door_all_unbatched(&door));
  LO_TRY(lo_door_scalar(&door, "value", &a->value, 0));
  lo_door_describe(&door, a->y.rows, a->y.cols, 0, 0, a->y.type, a->y.type);
  return lo_door_pass(&door);
}

layerops_status layerops_copy_(layerops_context *ctx, const layerops_copy_args *args, size_t size) {
  lo_door door;
  LO_CALL_AGAIN(ctx, LAYEROPS_OP_copy, args, size);
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_copy, sizeof *args, args, size));
  layerops_copy_args *a = &door.call.args.copy;
  LO_TRY(lo_door_matrix(&door, "x", &a->x, LO_IN | LO_IN_PLACE, LO_COPYABLE, LO_ANY, LO_ANY));
  LO_TRY(
      lo_door_matrix(&door, "y", &a->y, LO_OUT | LO_IN_PLACE, LO_COPYABLE, a->x.rows, a->x.cols));
  LO_TRY(lo_door_all_unbatched(&door));
  lo_door_describe(&door, a->x.rows, a->x.cols, 0, 0, a->x.type, a->y.type);
  lo_door_pair(&door, a->y.type);
  return lo_door_pass(&door);
}

layerops_status layerops_transpose_(layerops_context *ctx, const layerops_transpose_args *args,
                                    size_t size) {
  lo_door door;
  LO_CALL_AGAIN(ctx, LAYEROPS_OP_transpose, args, size);
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_transpose, sizeof *args, args, size));
  layerops_transpose_args *a = &door.call.args.transpose;
  LO_TRY(lo_door_matrix(&door, "x", &a->x, LO_IN, LO_COPYABLE, LO_ANY, LO_ANY));
  LO_TRY(lo_door_matrix(&door, "y", &a->y, LO_OUT, LO_BIT(a->x.type), a->x.cols, a->x.rows));
  LO_TRY(lo_door_all_unbatched(&door));
  lo_door_describe(&door, a->x.rows, a->x.cols, 0, 0, a->x.type, a->y.type);
  return lo_door_pass(&door);
}

layerops_status layerops_gather_(layerops_context *ctx, const layerops_gather_args *args,
                                 size_t size) {
  lo_door door;
  LO_CALL_AGAIN(ctx, LAYEROPS_OP_gather, args, size);
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_gather, sizeof *args, args, size));
  layerops_gather_args *a = &door.call.args.gather;
  LO_TRY(lo_door_matrix(&door, "x", &a->x, LO_IN, LO_COPYABLE, LO_ANY, LO_ANY));
  LO_TRY(lo_door_matrix(&door, "y", &a->y, LO_OUT, LO_COPYABLE, LO_ANY, a->x.cols));
  LO_TRY(lo_door_matrix(&door, "index", &a->index, LO_IN, LO_BIT(LAYEROPS_I32), 1, a->y.rows));
  LO_TRY(lo_door_all_unbatched(&door));
  lo_door_describe(&door, a->y.rows, a->y.cols, 0, 0, a->x.type, a->y.type);
  lo_door_pair(&door, a->y.type);
  return lo_door_pass(&door);
}

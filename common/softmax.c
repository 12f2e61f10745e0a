#include <config.h>

#include "common/again.h"

layerops_status layerops_softmax_(layerops_context *ctx, const layerops_softmax_args *args,
                                  size_t size) {
  lo_door door;
  LO_CALL_AGAIN(ctx, LAYEROPS_OP_softmax, args, size);
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_softmax, sizeof *args, args, size));
  layerops_softmax_args *a = &door.call.args.softmax;
  LO_TRY(lo_door_reserved(&door, a->reserved));
  LO_TRY(lo_door_matrix(&door, "x", &a->x, LO_IN | LO_IN_PLACE, LO_FLOAT, LO_ANY, LO_ANY));
  LO_TRY(lo_door_matrix(&door, "y", &a->y, LO_OUT | LO_IN_PLACE, LO_FLOAT, a->x.rows, a->x.cols));
  LO_TRY(lo_door_all_unbatched(&door));
  LO_TRY(lo_door_one_of(&door, "log", a->log, 2));
  lo_door_describe(&door, a->x.rows, a->x.cols, 0, 4.0 * (double)a->x.rows * (double)a->x.cols,
                   a->x.type, a->y.type);
  lo_door_detail(&door, 1, "log=%d", (int)a->log);
  return lo_door_pass(&door);
}

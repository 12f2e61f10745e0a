#include <config.h>

#include "common/again.h"

#define F32 LO_BIT(LAYEROPS_F32)

layerops_status layerops_sgd_(layerops_context *ctx, const layerops_sgd_args *args, size_t size) {
  lo_door door;
  LO_CALL_AGAIN(ctx, LAYEROPS_OP_sgd, args, size);
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_sgd, sizeof *args, args, size));
  layerops_sgd_args *a = &door.call.args.sgd;
  LO_TRY(lo_door_reserved(&door, a->reserved));
  LO_TRY(lo_door_matrix(&door, "w", &a->w, LO_INOUT, LO_FLOAT, LO_ANY, LO_ANY));
  int64_t m = a->w.rows, n = a->w.cols;
  LO_TRY(lo_door_matrix(&door, "g", &a->g, LO_IN, LO_FLOAT, m, n));
  LO_TRY(lo_door_optional(&door, "velocity", &a->velocity, LO_INOUT, F32, m, n));
  LO_TRY(lo_door_all_unbatched(&door));
  if (!a->lr.kind)
    return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID, "lr is needed, but is unset");
  if (a->momentum.kind && !lo_present(&a->velocity))
    return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID, "momentum is set, but velocity is absent");
  LO_TRY(lo_door_scalar(&door, "lr", &a->lr, 0));
  LO_TRY(lo_door_scalar(&door, "momentum", &a->momentum, 0));
  LO_TRY(lo_door_scalar(&door, "weight_decay", &a->weight_decay, 0));
  LO_TRY(lo_door_one_of(&door, "nesterov", a->nesterov, 2));
  lo_door_describe(&door, m, n, 0, 4.0 * (double)m * (double)n, a->w.type, a->w.type);
  return lo_door_pass(&door);
}

layerops_status layerops_adam_(layerops_context *ctx, const layerops_adam_args *args, size_t size) {
  lo_door door;
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_adam, sizeof *args, args, size));
  layerops_adam_args *a = &door.call.args.adam;
  LO_TRY(lo_door_reserved(&door, a->reserved));
  LO_TRY(lo_door_matrix(&door, "w", &a->w, LO_INOUT, LO_FLOAT, LO_ANY, LO_ANY));
  int64_t m = a->w.rows, n = a->w.cols;
  LO_TRY(lo_door_matrix(&door, "g", &a->g, LO_IN, LO_FLOAT, m, n));
  LO_TRY(lo_door_matrix(&door, "m", &a->m, LO_INOUT, F32, m, n));
  LO_TRY(lo_door_matrix(&door, "v", &a->v, LO_INOUT, F32, m, n));
  LO_TRY(lo_door_all_unbatched(&door));
  if (!a->step.kind)
    return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID, "step is needed, but is unset");
  if (a->step.kind == 1 && !(a->step.value >= 1))
    return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID, "step is %g, but the first is 1",
                          a->step.value);
  LO_TRY(lo_door_scalar(&door, "lr", &a->lr, 1e-3));
  LO_TRY(lo_door_scalar(&door, "beta1", &a->beta1, 0.9));
  LO_TRY(lo_door_scalar(&door, "beta2", &a->beta2, 0.999));
  LO_TRY(lo_door_scalar(&door, "epsilon", &a->epsilon, 1e-8));
  LO_TRY(lo_door_scalar(&door, "weight_decay", &a->weight_decay, 0));
  LO_TRY(lo_door_scalar(&door, "step", &a->step, 1));
  LO_TRY(lo_door_one_of(&door, "decoupled", a->decoupled, 2));
  lo_door_describe(&door, m, n, 0, 12.0 * (double)m * (double)n, a->w.type, a->w.type);
  return lo_door_pass(&door);
}

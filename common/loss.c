#include <config.h>

#include <math.h>

#include "common/again.h"

#define F32 LO_BIT(LAYEROPS_F32)
#define I32 LO_BIT(LAYEROPS_I32)

static layerops_status check_truth(lo_door *door, layerops_cross_entropy_args *a) {
  int64_t m = a->logits.rows, n = a->logits.cols;
  if (lo_given(&a->labels) == lo_given(&a->probabilities))
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID,
                          "labels and probabilities are both %s: give one",
                          lo_given(&a->labels) ? "set" : "absent");
  LO_TRY(lo_door_optional(door, "labels", &a->labels, LO_IN, I32, 1, m));
  LO_TRY(lo_door_optional(door, "probabilities", &a->probabilities, LO_IN, LO_FLOAT, m, n));
  if (a->ignore_label.kind && !lo_present(&a->labels))
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID,
                          "ignore_label is set, but labels is absent");
  if (a->ignore_label.kind)
    LO_TRY(lo_door_value(door, "ignore_label", &a->ignore_label, 0, INT32_MIN, INT32_MAX));
  if (a->ignore_label.value != rint(a->ignore_label.value))
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "ignore_label is %g, but must be whole",
                          a->ignore_label.value);
  return LAYEROPS_OK;
}

layerops_status layerops_cross_entropy_(layerops_context *ctx,
                                        const layerops_cross_entropy_args *args, size_t size) {
  lo_door door;
  LO_CALL_AGAIN(ctx, LAYEROPS_OP_cross_entropy, args, size);
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_cross_entropy, sizeof *args, args, size));
  layerops_cross_entropy_args *a = &door.call.args.cross_entropy;
  LO_TRY(lo_door_reserved(&door, a->reserved));
  LO_TRY(
      lo_door_matrix(&door, "logits", &a->logits, LO_IN | LO_IN_PLACE, LO_FLOAT, LO_ANY, LO_ANY));
  int64_t m = a->logits.rows, n = a->logits.cols;
  LO_TRY(check_truth(&door, a));
  LO_TRY(lo_door_optional(&door, "loss", &a->loss, LO_OUT, F32, 1, 1));
  LO_TRY(lo_door_optional(&door, "losses", &a->losses, LO_OUT, F32, 1, m));
  LO_TRY(lo_door_optional(&door, "dlogits", &a->dlogits, LO_OUT | LO_IN_PLACE, LO_FLOAT, m, n));
  LO_TRY(lo_door_optional(&door, "correct", &a->correct, LO_OUT, I32, 1, 1));
  if (!lo_present(&a->loss) && !lo_present(&a->losses) && !lo_present(&a->dlogits) &&
      !lo_present(&a->correct))
    return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID,
                          "loss, losses, dlogits and correct are all absent");
  LO_TRY(lo_door_all_unbatched(&door));
  LO_TRY(lo_door_scalar(&door, "grad_scale", &a->grad_scale, 1));
  LO_TRY(lo_door_one_of(&door, "reduction", a->reduction, 2));
  lo_door_describe(&door, m, n, 0, 6.0 * (double)m * (double)n, a->logits.type,
                   lo_present(&a->dlogits) ? a->dlogits.type : LAYEROPS_F32);
  lo_door_detail(&door, 1, "truth=%s", lo_present(&a->labels) ? "labels" : "probabilities");
  return lo_door_pass(&door);
}

layerops_status layerops_mse_(layerops_context *ctx, const layerops_mse_args *args, size_t size) {
  lo_door door;
  LO_CALL_AGAIN(ctx, LAYEROPS_OP_mse, args, size);
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_mse, sizeof *args, args, size));
  layerops_mse_args *a = &door.call.args.mse;
  LO_TRY(lo_door_reserved(&door, a->reserved));
  LO_TRY(lo_door_matrix(&door, "y", &a->y, LO_IN | LO_IN_PLACE, LO_FLOAT, LO_ANY, LO_ANY));
  int64_t m = a->y.rows, n = a->y.cols;
  LO_TRY(lo_door_matrix(&door, "target", &a->target, LO_IN | LO_IN_PLACE, LO_FLOAT, m, n));
  LO_TRY(lo_door_optional(&door, "loss", &a->loss, LO_OUT, F32, 1, 1));
  LO_TRY(lo_door_optional(&door, "dy", &a->dy, LO_OUT | LO_IN_PLACE, LO_FLOAT, m, n));
  if (!lo_present(&a->loss) && !lo_present(&a->dy))
    return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID, "loss and dy are both absent");
  LO_TRY(lo_door_all_unbatched(&door));
  LO_TRY(lo_door_scalar(&door, "grad_scale", &a->grad_scale, 1));
  LO_TRY(lo_door_one_of(&door, "reduction", a->reduction, 2));
  lo_door_describe(&door, m, n, 0, 4.0 * (double)m * (double)n, a->y.type,
                   lo_present(&a->dy) ? a->dy.type : LAYEROPS_F32);
  return lo_door_pass(&door);
}

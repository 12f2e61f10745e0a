/* The block-sparse linear layer. */
#include <config.h>

#include "common/door.h"

layerops_status layerops_bsr_linear_forward_(layerops_context *ctx,
                                             const layerops_bsr_linear_forward_args *args,
                                             size_t size) {
  lo_door door;
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_bsr_linear_forward, sizeof *args, args, size));
  layerops_bsr_linear_forward_args *a = &door.call.args.bsr_linear_forward;
  LO_TRY(lo_door_flags(&door, a->flags));
  if (!a->w) return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID, "w is needed, but is NULL");
  if (a->w->device != ctx->device)
    return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID, "w is on %s, the context on %s",
                          a->w->device->name, ctx->device->name);
  unsigned type = LO_BIT(a->w->type);
  int64_t n = a->w->rows, k = a->w->cols;
  LO_TRY(lo_door_matrix(&door, "x", &a->x, LO_IN, type, LO_ANY, k));
  int64_t m = a->x.rows;
  LO_TRY(lo_door_optional(&door, "bias", &a->bias, LO_IN, type, 1, n));
  LO_TRY(lo_door_optional(&door, "residual", &a->residual, LO_IN | LO_IN_PLACE, type, m, n));
  LO_TRY(lo_door_optional(&door, "preact", &a->preact, LO_OUT, type, m, n));
  LO_TRY(lo_door_matrix(&door, "y", &a->y, LO_OUT, type, m, n));
  layerops_matrix values = layerops_bsr_values(a->w); /* y must not lie in them */
  LO_TRY(lo_door_matrix(&door, "w's values", &values, LO_IN, type, LO_ANY, LO_ANY));
  LO_TRY(lo_door_all_unbatched(&door));
  LO_TRY(lo_door_activation(&door, "activation", a->activation));
  LO_TRY(lo_door_value(&door, "slope", &a->slope, 0.01, -1e30, 1e30));
  LO_TRY(lo_door_scalar(&door, "alpha", &a->alpha, 1));
  lo_door_describe(&door, m, n, k,
                   2.0 * (double)m * (double)(a->w->height * a->w->width) * (double)a->w->count,
                   a->x.type, a->y.type);
  lo_door_detail(&door, 1, "block=%lld blocks=%lld activation=%s", (long long)a->w->height,
                 (long long)a->w->count, layerops_activation_name(a->activation));
  return lo_door_pass(&door);
}

/* Packed weights: checked here once; kept in the backend's own form, or as rows in a buffer. */
#include <config.h>

#include <stdlib.h>

#include "common/door.h"

static const struct lo_weights_form *form_of(const layerops_weights *p) {
  return p->device->backend->weights;
}

/* ---- Values in and out; views are checked ---- */

static layerops_status put(layerops_context *ctx, layerops_weights *p, const layerops_matrix *w) {
  if (form_of(p)) return form_of(p)->update(ctx, p, w);
  layerops_copy_args copy = {.x = *w, .y = p->shape};
  return layerops_copy(ctx, &copy);
}

static layerops_status get(layerops_context *ctx, const layerops_weights *p,
                           const layerops_matrix *w) {
  if (form_of(p)) return form_of(p)->unpack(ctx, p, w);
  layerops_copy_args copy = {.x = p->shape, .y = *w};
  return layerops_copy(ctx, &copy);
}

static layerops_status create(layerops_context *ctx, layerops_weights *p,
                              const layerops_matrix *w) {
  p->shape = layerops_matrix_of(NULL, w->type, w->rows, w->cols);
  if (form_of(p)) return form_of(p)->create(ctx, p);
  int64_t bytes = w->rows * w->cols * (int64_t)layerops_type_size(w->type);
  return layerops_buffer_create(ctx, bytes, &p->shape.buffer);
}

/* ---- The public functions ---- */

static layerops_status check(lo_door *door, layerops_context *ctx, const char *function) {
  LO_TRY(lo_door_enter(door, ctx, function));
  return lo_not_recording(ctx, function);
}

layerops_status layerops_weights_pack_(layerops_context *ctx, const layerops_weights_args *args,
                                       size_t size, layerops_weights **weights) {
  lo_door door;
  layerops_weights_args a;
  LO_TRY(check(&door, ctx, "weights_pack"));
  LO_TRY(lo_copy_args(door.function, &a, sizeof a, args, size));
  if (!weights) return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID, "weights is NULL");
  *weights = NULL;
  LO_TRY(lo_door_matrix(&door, "w", &a.w, LO_IN, LO_FLOAT | LO_BIT(LAYEROPS_I8) | LO_F8, LO_ANY,
                        LO_ANY));
  LO_TRY(lo_door_all_unbatched(&door));
  LO_TRY(lo_door_one_of(&door, "backward", a.backward, 2));
  if (a.backward && LO_BYTES & LO_BIT(a.w.type))
    return lo_door_refuse(&door, LAYEROPS_ERROR_UNSUPPORTED,
                          "backward is 1, but w is %s, which linear_backward does not take",
                          layerops_type_name(a.w.type));
  if (a.flags)
    return lo_door_refuse(&door, LAYEROPS_ERROR_UNSUPPORTED, "flags is 0x%x, but must be 0",
                          (unsigned)a.flags);
  LO_TRY(lo_supports(ctx, LAYEROPS_OP_linear_forward, a.w.type, a.w.type));
  layerops_weights *p = calloc(1, sizeof *p);
  if (!p) return lo_door_refuse(&door, LAYEROPS_ERROR_OUT_OF_MEMORY, "no memory");
  p->device = ctx->device;
  p->number = lo_next_number();
  p->backward = a.backward;
  layerops_status status = create(ctx, p, &a.w);
  if (status == LAYEROPS_OK) status = put(ctx, p, &a.w);
  if (status != LAYEROPS_OK) {
    layerops_weights_destroy(p);
    return status;
  }
  *weights = p;
  return LAYEROPS_OK;
}

/* NULL, another device, another form. */
static layerops_status check_use(lo_door *door, const char *name, const layerops_weights *p) {
  if (!p) return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "%s is NULL", name);
  if (p->device != door->ctx->device)
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "%s is on %s, the context on %s", name,
                          p->device->name, door->ctx->device->name);
  const char *reason = form_of(p) ? form_of(p)->refuses(door->ctx, p) : NULL;
  return reason ? lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "%s %s", name, reason) : LAYEROPS_OK;
}

static layerops_status check_values(lo_door *door, layerops_context *ctx, const char *function,
                                    const layerops_weights *p, layerops_matrix *w, int role) {
  LO_TRY(check(door, ctx, function));
  LO_TRY(check_use(door, "weights", p));
  LO_TRY(lo_door_matrix(door, "w", w, role, LO_BIT(p->shape.type), p->shape.rows, p->shape.cols));
  return lo_door_all_unbatched(door);
}

layerops_status layerops_weights_update(layerops_context *ctx, layerops_weights *weights,
                                        layerops_matrix w) {
  lo_door door;
  LO_TRY(check_values(&door, ctx, "weights_update", weights, &w, LO_IN));
  return put(ctx, weights, &w);
}

layerops_status layerops_weights_unpack(layerops_context *ctx, const layerops_weights *weights,
                                        layerops_matrix w) {
  lo_door door;
  LO_TRY(check_values(&door, ctx, "weights_unpack", weights, &w, LO_OUT));
  return get(ctx, weights, &w);
}

void layerops_weights_destroy(layerops_weights *weights) {
  if (!weights) return;
  if (form_of(weights)) form_of(weights)->release(weights);
  layerops_buffer_destroy(weights->shape.buffer);
  free(weights);
}

/* ---- As an operand ---- */

static layerops_status check_packed(lo_door *door, const layerops_weights *p, bool backward,
                                    layerops_type x, unsigned types, int64_t rows, int64_t cols) {
  const layerops_matrix *w = &p->shape;
  char list[LO_TYPES_TEXT];
  LO_TRY(check_use(door, "packed", p));
  if (!(types & LO_BIT(w->type)))
    return lo_door_refuse(door, LAYEROPS_ERROR_UNSUPPORTED, "packed is %s here; supported: %s",
                          layerops_type_name(w->type), lo_types_text(types, list));
  const char *reason = form_of(p) ? form_of(p)->refuses_x(p, x) : NULL;
  if (reason)
    return lo_door_refuse(door, LAYEROPS_ERROR_UNSUPPORTED, "packed is %s, and %s; x is %s",
                          layerops_type_name(w->type), reason, layerops_type_name(x));
  LO_TRY(lo_door_shape(door, "packed", w, rows, cols));
  if (backward && !p->backward)
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID,
                          "packed was packed without `backward`, which dx needs");
  return LAYEROPS_OK;
}

layerops_status lo_door_weights(lo_door *door, layerops_matrix *w, const layerops_weights **packed,
                                bool backward, layerops_type x, unsigned types, int64_t rows,
                                int64_t cols, layerops_matrix *shape) {
  if (*packed && lo_given(w))
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "w and packed are both set: give one");
  door->packed = *packed;
  if (*packed) {
    LO_TRY(check_packed(door, *packed, backward, x, types, rows, cols));
    *shape = (*packed)->shape;
    if (form_of(*packed)) return LAYEROPS_OK;
    *w = *shape;
    *packed = NULL;
  }
  LO_TRY(lo_door_matrix(door, "w", w, LO_IN, types, rows, cols));
  *shape = *w;
  return LAYEROPS_OK;
}

/* Tuning, as the user asks for it. What it is stands in the backend (struct lo_tuning_form). */
#include <config.h>

#include <math.h>

#include "common/again.h"

/* The backend's functions; NULL with an error where it has none. */
static const struct lo_tuning_form *form_of(layerops_context *ctx, const char *function) {
  const struct lo_tuning_form *form = ctx->backend->tuning;
  if (!form)
    lo_fail(LAYEROPS_ERROR_UNSUPPORTED, "%s: %s has no kernels to choose from by measuring",
            function, ctx->device->name);
  return form;
}

static layerops_status check_args(const layerops_tune_args *a) {
  if (!(a->seconds > 0 && isfinite(a->seconds)))
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "tune_begin: seconds is %g, but must be positive and finite", a->seconds);
  if (a->again != 0 && a->again != 1)
    return lo_fail(LAYEROPS_ERROR_INVALID, "tune_begin: again is %d, but must be 0 or 1",
                   (int)a->again);
  if (a->reserved)
    return lo_fail(LAYEROPS_ERROR_UNSUPPORTED, "tune_begin: reserved is %d, but must be 0",
                   (int)a->reserved);
  return LAYEROPS_OK;
}

layerops_status layerops_tune_begin_(layerops_context *ctx, const layerops_tune_args *user,
                                     size_t size) {
  layerops_tune_args args;
  LO_TRY(lo_enter(ctx, "tune_begin"));
  LO_TRY(lo_copy_args("tune_begin", &args, sizeof args, user, size));
  LO_TRY(check_args(&args));
  LO_TRY(lo_not_recording(ctx, "tune_begin"));
  const struct lo_tuning_form *form = form_of(ctx, "tune_begin");
  if (!form) return LAYEROPS_ERROR_UNSUPPORTED;
  if (ctx->tuning)
    return lo_fail(LAYEROPS_ERROR_STATE, "tune_begin: the context is tuning already");
  LO_TRY(form->begin(ctx, &args));
  lo_calls_forget(ctx);
  ctx->tuning = true;
  return LAYEROPS_OK;
}

layerops_status layerops_tune_end(layerops_context *ctx) {
  LO_TRY(lo_enter(ctx, "tune_end"));
  if (!ctx->tuning) return lo_fail(LAYEROPS_ERROR_STATE, "tune_end: the context is not tuning");
  ctx->tuning = false;
  return ctx->backend->tuning->end(ctx);
}

layerops_status layerops_tune_list(layerops_context *ctx, layerops_tuned_fn told, void *user) {
  LO_TRY(lo_enter(ctx, "tune_list"));
  if (!told) return lo_fail(LAYEROPS_ERROR_INVALID, "tune_list: told is NULL");
  const struct lo_tuning_form *form = form_of(ctx, "tune_list");
  return form ? form->list(ctx, told, user) : LAYEROPS_ERROR_UNSUPPORTED;
}

layerops_status layerops_tune_clear(layerops_context *ctx) {
  LO_TRY(lo_enter(ctx, "tune_clear"));
  const struct lo_tuning_form *form = form_of(ctx, "tune_clear");
  if (!form) return LAYEROPS_ERROR_UNSUPPORTED;
  if (ctx->tuning)
    return lo_fail(LAYEROPS_ERROR_STATE, "tune_clear: not allowed while the context is tuning");
  lo_calls_forget(ctx);
  return form->clear(ctx);
}

/* The block-sparse linear layer, forward and backward. */
#include <config.h>

#include <stdio.h>

#include "common/door.h"

/* ---- What both have ---- */

/* An operand of m samples, as the layout has it; it must be present, or is `optional`. */
typedef struct activations {
  lo_door *door;
  int32_t layout;
  int64_t m;
} activations;

static layerops_status check(const activations *s, const char *name, layerops_matrix *view,
                             int role, unsigned types, int64_t features) {
  const bool by_features = s->layout == LAYEROPS_FEATURES_BY_ROW;
  return lo_door_matrix(s->door, name, view, role, types, by_features ? features : s->m,
                        by_features ? s->m : features);
}

static layerops_status check_optional(const activations *s, const char *name, layerops_matrix *view,
                                      int role, unsigned types, int64_t features) {
  return lo_given(view) ? check(s, name, view, role, types, features) : LAYEROPS_OK;
}

/* The first of them tells how many samples there are. */
static layerops_status begin(activations *s, const char *name, layerops_matrix *view, int role,
                             int64_t features) {
  s->m = LO_ANY;
  LO_TRY(lo_door_one_of(s->door, "layout", s->layout, 2));
  LO_TRY(check(s, name, view, role, LO_FLOAT, features));
  s->m = s->layout == LAYEROPS_FEATURES_BY_ROW ? view->cols : view->rows;
  return LAYEROPS_OK;
}

static layerops_status check_object(lo_door *door, const layerops_bsr *w) {
  if (!w) return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "w is needed, but is NULL");
  if (w->device == door->ctx->device) return LAYEROPS_OK;
  return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "w is on %s, the context on %s",
                        w->device->name, door->ctx->device->name);
}

/* What is read beside the activations, and must not be written. */
typedef struct memory {
  layerops_matrix values, scales;
} memory;

static layerops_status check_values(lo_door *door, const layerops_bsr *w, unsigned types,
                                    memory *of) {
  of->values = layerops_bsr_values(w);
  of->scales = layerops_bsr_scales(w);
  LO_TRY(lo_door_matrix(door, "w", &of->values, LO_IN, types, LO_ANY, LO_ANY));
  return lo_door_optional(door, "w's scales", &of->scales, LO_IN, LO_BIT(LAYEROPS_F32), 1, LO_ANY);
}

static layerops_status check_gates(lo_door *door, const char *name, layerops_matrix *view, int role,
                                   const layerops_bsr *w) {
  return lo_door_optional(door, name, view, role, LO_BIT(LAYEROPS_F32), 1, w->count);
}

static double block_flops(const layerops_bsr *w, int64_t m) {
  return 2.0 * (double)m * (double)(w->height * w->width) * (double)w->count;
}

static void describe(lo_door *door, const layerops_bsr *w, const char *wants,
                     layerops_activation activation, int32_t layout, const layerops_matrix *gate) {
  char width[24] = "";
  if (door->ctx->verbose && w->width != w->height)
    snprintf(width, sizeof width, " width=%lld", (long long)w->width);
  lo_door_detail(door, 1, "%sblock=%lld%s blocks=%lld activation=%s%s%s", wants,
                 (long long)w->height, width, (long long)w->count,
                 layerops_activation_name(activation),
                 layout == LAYEROPS_FEATURES_BY_ROW ? " layout=features" : "",
                 lo_present(gate) ? " gate=1" : "");
}

/* ---- Forward ---- */

layerops_status layerops_bsr_linear_forward_(layerops_context *ctx,
                                             const layerops_bsr_linear_forward_args *args,
                                             size_t size) {
  lo_door door;
  memory of;
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_bsr_linear_forward, sizeof *args, args, size));
  layerops_bsr_linear_forward_args *a = &door.call.args.bsr_linear_forward;
  activations s = {&door, a->layout, 0};
  LO_TRY(lo_door_flags(&door, a->flags));
  LO_TRY(lo_door_reserved(&door, a->reserved));
  LO_TRY(check_object(&door, a->w));
  const int64_t n = a->w->rows, k = a->w->cols;
  LO_TRY(begin(&s, "x", &a->x, LO_IN, k));
  const unsigned types = lo_same_or_f32(a->x.type);
  LO_TRY(check_values(&door, a->w, LO_BIT(a->x.type) | LO_BIT(LAYEROPS_I8), &of));
  LO_TRY(lo_door_optional(&door, "bias", &a->bias, LO_IN, types, 1, n));
  LO_TRY(check_optional(&s, "residual", &a->residual, LO_IN | LO_IN_PLACE, types, n));
  LO_TRY(check_optional(&s, "preact", &a->preact, LO_OUT, types, n));
  LO_TRY(check(&s, "y", &a->y, LO_OUT | LO_IN_PLACE, types, n));
  LO_TRY(check_gates(&door, "gate", &a->gate, LO_IN, a->w));
  LO_TRY(lo_door_all_unbatched(&door));
  LO_TRY(lo_door_activation(&door, "activation", a->activation));
  LO_TRY(lo_door_value(&door, "slope", &a->slope, 0.01, -1e30, 1e30));
  LO_TRY(lo_door_scalar(&door, "alpha", &a->alpha, 1));
  lo_door_describe(&door, s.m, n, k, block_flops(a->w, s.m), a->x.type, a->y.type);
  lo_door_pair(&door, a->w->type);
  describe(&door, a->w, "", a->activation, a->layout, &a->gate);
  return lo_door_pass(&door);
}

/* ---- Backward ---- */

/* In place of an operand that is given but not needed: nobody checked it, so no backend sees it. */
static const layerops_matrix unneeded;

static layerops_status check_dz(const activations *s, layerops_bsr_linear_backward_args *a) {
  const int64_t n = a->w->rows;
  const unsigned types = lo_same_or_f32(a->dy.type);
  LO_TRY(lo_door_activation(s->door, "activation", a->activation));
  LO_TRY(lo_door_value(s->door, "slope", &a->slope, 0.01, 0, 1e30));
  LO_TRY((a->activation == LAYEROPS_IDENTITY ? check_optional : check)(s, "saved", &a->saved, LO_IN,
                                                                       types, n));
  return check_optional(s, "dz", &a->dz, LO_OUT | LO_IN_PLACE, LO_BIT(a->dy.type), n);
}

static layerops_status check_dx(const activations *s, layerops_bsr_linear_backward_args *a) {
  const unsigned types = lo_same_or_f32(a->dy.type);
  LO_TRY(lo_door_activation(s->door, "dx_activation", a->dx_activation));
  LO_TRY(lo_door_value(s->door, "dx_slope", &a->dx_slope, 0.01, 0, 1e30));
  if (lo_given(&a->dx)) {
    LO_TRY(check(s, "dx", &a->dx, LO_OUT | LO_IN_PLACE_TOO, types, a->w->cols));
    return (a->dx_activation == LAYEROPS_IDENTITY ? check_optional : check)(
        s, "dx_saved", &a->dx_saved, LO_IN | LO_IN_PLACE_TOO, types, a->w->cols);
  }
  a->dx_saved = unneeded;
  if (a->dx_activation == LAYEROPS_IDENTITY) return LAYEROPS_OK;
  return lo_door_refuse(s->door, LAYEROPS_ERROR_INVALID, "dx_activation is set, but dx is absent");
}

static layerops_status check_dw(const activations *s, layerops_bsr_linear_backward_args *a) {
  const layerops_bsr *w = a->w;
  const unsigned types = lo_same_or_f32(a->dy.type);
  if (lo_given(&a->dw) || lo_given(&a->dgate))
    LO_TRY(check(s, "x", &a->x, LO_IN, LO_BIT(a->dy.type), w->cols));
  else
    a->x = unneeded;
  LO_TRY(lo_door_optional(s->door, "dw", &a->dw, LO_INOUT, types, w->count * w->height, w->width));
  LO_TRY(lo_door_optional(s->door, "dbias", &a->dbias, LO_INOUT, types, 1, w->rows));
  LO_TRY(check_gates(s->door, "gate", &a->gate, LO_IN, w));
  LO_TRY(check_gates(s->door, "dgate", &a->dgate, LO_INOUT, w));
  return lo_door_scalar(s->door, "beta", &a->beta, 0);
}

static void describe_backward(lo_door *door, const layerops_bsr_linear_backward_args *a,
                              int64_t m) {
  char wants[16];
  const bool sampled = lo_present(&a->dw) || lo_present(&a->dgate);
  snprintf(wants, sizeof wants, "wants=%s%s%s%s ", lo_present(&a->dx) ? "x" : "",
           lo_present(&a->dw) ? "w" : "", lo_present(&a->dbias) ? "b" : "",
           lo_present(&a->dgate) ? "g" : "");
  lo_door_describe(door, m, a->w->rows, a->w->cols,
                   (lo_present(&a->dx) + sampled) * block_flops(a->w, m), a->dy.type,
                   lo_present(&a->dw)   ? a->dw.type
                   : lo_present(&a->dx) ? a->dx.type
                                        : a->dy.type);
  describe(door, a->w, wants, a->dx_activation, a->layout, &a->gate);
}

layerops_status layerops_bsr_linear_backward_(layerops_context *ctx,
                                              const layerops_bsr_linear_backward_args *args,
                                              size_t size) {
  lo_door door;
  memory of;
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_bsr_linear_backward, sizeof *args, args, size));
  layerops_bsr_linear_backward_args *a = &door.call.args.bsr_linear_backward;
  activations s = {&door, a->layout, 0};
  LO_TRY(lo_door_flags(&door, a->flags));
  LO_TRY(check_object(&door, a->w));
  LO_TRY(begin(&s, "dy", &a->dy, LO_IN | LO_IN_PLACE, a->w->rows));
  const bool reads = lo_given(&a->dx) || lo_given(&a->dgate);
  LO_TRY(check_values(&door, a->w, reads ? LO_BIT(a->dy.type) : LO_BIT(a->w->type), &of));
  LO_TRY(check_dz(&s, a));
  LO_TRY(check_dx(&s, a));
  LO_TRY(check_dw(&s, a));
  if (!lo_present(&a->dz) && !lo_present(&a->dx) && !lo_present(&a->dw) && !lo_present(&a->dbias) &&
      !lo_present(&a->dgate))
    return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID,
                          "dz, dx, dw, dbias and dgate are all absent");
  LO_TRY(lo_door_all_unbatched(&door));
  describe_backward(&door, a, s.m);
  return lo_door_pass(&door);
}

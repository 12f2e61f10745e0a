/* The block-sparse linear layer, forward and backward. */
#include <config.h>

#include "backends/opencl/bsr.h"

#include "backends/opencl/map.h"

enum { LOOK_UP = 3072 }; /* bytes of local memory beside a tile, at most */

lo_cl_operand lo_cl_bsr_samples(const layerops_matrix *view, bool features_by_row) {
  return (lo_cl_operand){.offset = view->offset,
                         .across = features_by_row ? 1 : view->stride,
                         .along = features_by_row ? view->stride : 1,
                         .count = features_by_row ? view->cols : view->rows,
                         .type = view->type};
}

int64_t lo_cl_bsr_local(const lo_cl_bsr_tile *t) {
  const int64_t panels = lo_cl_gpu_local(t->rows, t->cols), turned = t->cols * (t->rows + 1);
  return panels > turned ? panels : turned;
}

bool lo_cl_bsr_fits(const lo_cl_device *d, const lo_cl_bsr_tile *t) {
  return lo_cl_bsr_items(t) <= d->largest_group &&
         lo_cl_bsr_local(t) * (int64_t)sizeof(cl_float) + LOOK_UP <= d->local_memory;
}

layerops_status lo_cl_bsr_none_fits(const lo_cl_device *d) {
  return lo_fail(
      LAYEROPS_ERROR_UNSUPPORTED,
      "block-sparse products: the device has too little local memory (%lld bytes) or too "
      "small groups (%lld)",
      (long long)d->local_memory, (long long)d->largest_group);
}

static layerops_status workspace(layerops_context *ctx, int64_t bytes, lo_cl_region *region) {
  return bytes ? lo_workspace(ctx, bytes, &region->buffer) : LAYEROPS_OK;
}

layerops_status lo_cl_bsr_linear_forward(layerops_context *ctx,
                                         const layerops_bsr_linear_forward_args *a) {
  lo_cl_region region = {0};
  lo_cl_bsr_lines lines = {.w = a->w,
                           .features_by_row = a->layout == LAYEROPS_FEATURES_BY_ROW,
                           .in = a->x,
                           .out = a->y,
                           .gate = a->gate,
                           .flags = a->flags};
  lo_epilogue_bsr(a, &lines.epilogue);
  LO_TRY(workspace(ctx, lo_cl_bsr_lines_scratch(ctx, &lines), &region));
  return lo_cl_bsr_lines_run(ctx, &lines, region);
}

/* ---- Backward: dZ, then a product for each gradient ---- */

typedef struct backward {
  const layerops_bsr_linear_backward_args *a;
  bool features_by_row, own_dz; /* dZ in scratch memory */
  layerops_matrix dz;
  int64_t dz_bytes;
  lo_cl_bsr_lines dgrad;
  lo_cl_bsr_wgrad wgrad;
} backward;

/* dZ is dY itself where nothing has to be done to it. */
static void place_dz(backward *b) {
  const layerops_bsr_linear_backward_args *a = b->a;
  b->dz = lo_present(&a->dz) ? a->dz : a->dy;
  b->own_dz = a->activation != LAYEROPS_IDENTITY && !lo_present(&a->dz);
  if (!b->own_dz) return;
  b->dz = layerops_matrix_of(NULL, a->dy.type, a->dy.rows, a->dy.cols);
  b->dz_bytes = lo_cl_round(b->dz.rows * b->dz.cols * (int64_t)layerops_type_size(b->dz.type));
}

static void describe(backward *b) {
  const layerops_bsr_linear_backward_args *a = b->a;
  b->dgrad = (lo_cl_bsr_lines){.w = a->w,
                               .backward = true,
                               .features_by_row = b->features_by_row,
                               .in = b->dz,
                               .out = a->dx,
                               .gate = a->gate,
                               .flags = a->flags,
                               .epilogue = {.alpha = layerops_value(1),
                                            .beta = layerops_value(0),
                                            .derivative = a->dx_activation,
                                            .derivative_slope = (float)a->dx_slope.value}};
  if (a->dx_activation != LAYEROPS_IDENTITY) b->dgrad.epilogue.saved = a->dx_saved;
  b->wgrad = (lo_cl_bsr_wgrad){.w = a->w,
                               .features_by_row = b->features_by_row,
                               .dz = b->dz,
                               .x = a->x,
                               .gate = a->gate,
                               .dw = a->dw,
                               .dgate = a->dgate,
                               .beta = a->beta};
}

static bool samples(const backward *b) {
  return lo_present(&b->a->dw) || lo_present(&b->a->dgate);
}

static int64_t scratch(layerops_context *ctx, const backward *b) {
  const layerops_bsr_linear_backward_args *a = b->a;
  int64_t needs[3] = {0}, most = 0;
  if (lo_present(&a->dx)) needs[0] = lo_cl_bsr_lines_scratch(ctx, &b->dgrad);
  if (samples(b)) needs[1] = lo_cl_bsr_wgrad_scratch(ctx, &b->wgrad);
  if (lo_present(&a->dbias) && !b->features_by_row) needs[2] = lo_cl_sum_scratch(&b->dz);
  for (int i = 0; i < 3; i++) most = needs[i] > most ? needs[i] : most;
  return b->dz_bytes + most;
}

static layerops_status make_dz(layerops_context *ctx, const backward *b) {
  const layerops_bsr_linear_backward_args *a = b->a;
  const layerops_matrix absent = {0};
  if (!a->dy.rows || !a->dy.cols || (!b->own_dz && !lo_present(&a->dz))) return LAYEROPS_OK;
  return lo_cl_map_backward(ctx, &a->dy, a->activation == LAYEROPS_IDENTITY ? &absent : &a->saved,
                            &b->dz, a->activation, (float)a->slope.value);
}

layerops_status lo_cl_bsr_linear_backward(layerops_context *ctx,
                                          const layerops_bsr_linear_backward_args *a) {
  backward b = {.a = a, .features_by_row = a->layout == LAYEROPS_FEATURES_BY_ROW};
  lo_cl_region region = {0};
  ctx->kernel = "opencl_map";
  place_dz(&b);
  describe(&b);
  LO_TRY(workspace(ctx, scratch(ctx, &b), &region));
  if (b.own_dz) b.dz.buffer = b.dgrad.in.buffer = b.wgrad.dz.buffer = region.buffer;
  region.offset = b.dz_bytes;
  LO_TRY(make_dz(ctx, &b));
  if (lo_present(&a->dx)) LO_TRY(lo_cl_bsr_lines_run(ctx, &b.dgrad, region));
  if (samples(&b)) LO_TRY(lo_cl_bsr_wgrad_run(ctx, &b.wgrad, region));
  if (!lo_present(&a->dbias)) return LAYEROPS_OK;
  return b.features_by_row ? lo_cl_sum_rows(ctx, &b.dz, &a->beta, &a->dbias)
                           : lo_cl_sum_columns(ctx, &b.dz, &a->beta, &a->dbias, region);
}

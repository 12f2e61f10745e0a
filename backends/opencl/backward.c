/* linear_backward: the layer's own activation, two products, a column sum. */
#include <config.h>

#include "backends/opencl/map.h"
#include "backends/opencl/product.h"

typedef struct backward {
  const layerops_linear_backward_args *args;
  layerops_matrix dz;
  bool own_dz; /* in scratch memory */
  lo_product dgrad, wgrad;
  lo_cl_plan dgrad_plan, wgrad_plan;
  int64_t dz_bytes, scratch;
} backward;

static void need(backward *b, int64_t bytes) {
  if (bytes > b->scratch) b->scratch = bytes;
}

/* dZ is dY itself where nothing has to be done to it. */
static void place_dz(backward *b) {
  const layerops_linear_backward_args *a = b->args;
  b->dz = lo_present(&a->dz) ? a->dz : a->dy;
  b->own_dz = a->activation != LAYEROPS_IDENTITY && !lo_present(&a->dz);
  if (!b->own_dz) return;
  b->dz = layerops_matrix_of(NULL, a->dy.type, a->dy.rows, a->dy.cols);
  b->dz_bytes = lo_cl_round(b->dz.rows * b->dz.cols * (int64_t)layerops_type_size(b->dz.type));
}

static layerops_status plan(layerops_context *ctx, backward *b) {
  const layerops_linear_backward_args *a = b->args;
  if (lo_present(&a->dx)) {
    lo_product_dgrad(a, &b->dz, &b->dgrad);
    LO_TRY(lo_cl_plan_product(ctx, &b->dgrad, b->dz_bytes, &b->dgrad_plan));
    need(b, b->dgrad_plan.scratch);
  }
  if (lo_present(&a->dw)) {
    lo_product_wgrad(a, &b->dz, &b->wgrad);
    LO_TRY(lo_cl_plan_product(ctx, &b->wgrad, b->dz_bytes, &b->wgrad_plan));
    need(b, b->wgrad_plan.scratch);
  }
  if (lo_present(&a->dbias)) need(b, lo_cl_sum_scratch(&b->dz));
  return LAYEROPS_OK;
}

static layerops_status make_dz(layerops_context *ctx, backward *b) {
  const layerops_linear_backward_args *a = b->args;
  if (!a->dy.rows || !a->dy.cols || (!b->own_dz && !lo_present(&a->dz))) return LAYEROPS_OK;
  const layerops_matrix absent = {0};
  return lo_cl_map_backward(ctx, &a->dy, a->activation == LAYEROPS_IDENTITY ? &absent : &a->saved,
                            &b->dz, a->activation, (float)a->slope.value);
}

layerops_status lo_cl_linear_backward(layerops_context *ctx,
                                      const layerops_linear_backward_args *a) {
  backward b = {.args = a};
  lo_cl_region region = {0};
  ctx->kernel = "opencl_map";
  place_dz(&b);
  LO_TRY(plan(ctx, &b));
  if (b.dz_bytes + b.scratch) LO_TRY(lo_workspace(ctx, b.dz_bytes + b.scratch, &region.buffer));
  if (b.own_dz) b.dz.buffer = b.dgrad.a.buffer = b.wgrad.a.buffer = region.buffer;
  region.offset = b.dz_bytes;
  LO_TRY(make_dz(ctx, &b));
  if (lo_present(&a->dx)) LO_TRY(lo_cl_run_plan(ctx, &b.dgrad_plan, region));
  if (lo_present(&a->dw)) LO_TRY(lo_cl_run_plan(ctx, &b.wgrad_plan, region));
  return lo_present(&a->dbias) ? lo_cl_sum_columns(ctx, &b.dz, &a->beta, &a->dbias, region)
                               : LAYEROPS_OK;
}

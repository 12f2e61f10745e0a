/* linear_backward: the layer's own activation, two products, a column sum. */
#include <config.h>

#include <math.h>

#include "backends/opencl/map.h"
#include "backends/opencl/product.h"

/* dbias: sums of about sqrt(m) rows each, then the sum of those. */
static lo_cl_sum sum_of(const layerops_linear_backward_args *a) {
  int64_t rows = a->dy.rows, chunk = (int64_t)ceil(sqrt((double)rows));
  if (chunk < 16) chunk = 16;
  return (lo_cl_sum){.to = lo_cl_view_of(&a->dbias),
                     .beta = lo_cl_scalar_of(&a->beta),
                     .rows = rows,
                     .cols = a->dy.cols,
                     .chunk = chunk,
                     .chunks = lo_cl_ceil(rows, chunk)};
}

static layerops_status run_sum(layerops_context *ctx, const layerops_linear_backward_args *a,
                               const layerops_matrix *dz, lo_cl_region region) {
  const lo_cl_class *c = &lo_cl_of(ctx)->device->class;
  lo_cl_sum p = sum_of(a);
  int64_t groups = lo_cl_ceil(lo_cl_ceil(p.cols, c->vector), c->group);
  p.x = lo_cl_view_of(dz);
  p.partial = region.offset / (int64_t)sizeof(float);
  if (p.chunks) {
    lo_cl_launch l = lo_cl_start(ctx, LO_CL_SUM, NULL, "columns");
    lo_cl_view_memory(&l, dz);
    lo_cl_memory(&l, region.buffer);
    lo_cl_bytes(&l, sizeof p, &p);
    LO_TRY(lo_cl_run(&l, c->group, groups, p.chunks, 1));
  }
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_SUM, NULL, "chunks");
  lo_cl_memory(&l, region.buffer);
  lo_cl_view_memory(&l, &a->dbias);
  lo_cl_scalar_memory(&l, &a->beta);
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run(&l, c->group, groups, 1, 1);
}

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
  if (lo_present(&a->dbias)) {
    lo_cl_sum s = sum_of(a);
    need(b, s.chunks * s.cols * (int64_t)sizeof(float));
  }
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
  return lo_present(&a->dbias) ? run_sum(ctx, a, &b.dz, region) : LAYEROPS_OK;
}

/* bsr_linear_backward, plainly: dZ, then a kernel for each gradient. */
#include <config.h>

#include "backends/opencl/map.h"
#include "backends/opencl/product.h"

typedef struct gradient {
  layerops_context *ctx;
  const layerops_bsr_linear_backward_args *a;
  layerops_matrix dz, values;
  lo_cl_bsr_gradient p;
} gradient;

/* dZ is dY itself where nothing has to be done to it. */
static layerops_status make_dz(gradient *g) {
  const layerops_bsr_linear_backward_args *a = g->a;
  const layerops_matrix absent = {0};
  const bool acts = a->activation != LAYEROPS_IDENTITY;
  g->dz = lo_present(&a->dz) ? a->dz : a->dy;
  if (!acts && !lo_present(&a->dz)) return LAYEROPS_OK;
  if (!lo_present(&a->dz)) {
    int64_t bytes = a->dy.rows * a->dy.cols * (int64_t)layerops_type_size(a->dy.type);
    g->dz = layerops_matrix_of(NULL, a->dy.type, a->dy.rows, a->dy.cols);
    LO_TRY(lo_workspace(g->ctx, bytes ? bytes : 1, &g->dz.buffer));
  }
  if (!a->dy.rows || !a->dy.cols) return LAYEROPS_OK;
  return lo_cl_map_backward(g->ctx, &a->dy, acts ? &a->saved : &absent, &g->dz, a->activation,
                            (float)a->slope.value);
}

static layerops_status run(gradient *g, lo_cl_launch *l, int64_t items) {
  const int group = lo_cl_of(g->ctx)->device->class.group;
  lo_cl_bytes(l, sizeof g->p, &g->p);
  return items ? lo_cl_run(l, group, lo_cl_ceil(items, group), 1, 1) : l->status;
}

static layerops_status run_dx(gradient *g) {
  const layerops_bsr_linear_backward_args *a = g->a;
  lo_cl_launch l = lo_cl_start(g->ctx, LO_CL_BSR_GRADIENT, NULL, "dgrad");
  lo_cl_view_memory(&l, &g->dz);
  lo_cl_view_memory(&l, &g->values);
  lo_cl_memory(&l, a->w->col_start);
  lo_cl_memory(&l, a->w->row);
  lo_cl_memory(&l, a->w->place);
  lo_cl_view_memory(&l, &a->gate);
  lo_cl_view_memory(&l, &a->dx_saved);
  lo_cl_view_memory(&l, &a->dx);
  g->p.to = lo_cl_view_of(&a->dx);
  if (a->dx_activation != LAYEROPS_IDENTITY) g->p.saved = lo_cl_view_of(&a->dx_saved);
  return run(g, &l, a->dx.rows * lo_cl_ceil(a->dx.cols, lo_cl_of(g->ctx)->device->class.vector));
}

static layerops_status run_dw(gradient *g) {
  const layerops_bsr_linear_backward_args *a = g->a;
  lo_cl_launch l = lo_cl_start(g->ctx, LO_CL_BSR_GRADIENT, NULL, "wgrad");
  lo_cl_view_memory(&l, &g->dz);
  lo_cl_view_memory(&l, &a->x);
  lo_cl_memory(&l, a->w->row_start);
  lo_cl_memory(&l, a->w->column);
  lo_cl_view_memory(&l, &a->gate);
  lo_cl_scalar_memory(&l, &a->beta);
  lo_cl_view_memory(&l, &a->dw);
  g->p.to = lo_cl_view_of(&a->dw);
  return run(g, &l, a->w->count * a->w->height * a->w->width);
}

static layerops_status run_dgate(gradient *g) {
  const layerops_bsr_linear_backward_args *a = g->a;
  lo_cl_launch l = lo_cl_start(g->ctx, LO_CL_BSR_GRADIENT, NULL, "gates");
  lo_cl_view_memory(&l, &g->dz);
  lo_cl_view_memory(&l, &a->x);
  lo_cl_view_memory(&l, &g->values);
  lo_cl_memory(&l, a->w->row_start);
  lo_cl_memory(&l, a->w->column);
  lo_cl_scalar_memory(&l, &a->beta);
  lo_cl_view_memory(&l, &a->dgate);
  g->p.to = lo_cl_view_of(&a->dgate);
  return run(g, &l, a->w->count);
}

static layerops_status run_dbias(gradient *g) {
  const layerops_bsr_linear_backward_args *a = g->a;
  lo_cl_launch l = lo_cl_start(g->ctx, LO_CL_BSR_GRADIENT, NULL, "bias");
  lo_cl_view_memory(&l, &g->dz);
  lo_cl_scalar_memory(&l, &a->beta);
  lo_cl_view_memory(&l, &a->dbias);
  g->p.to = lo_cl_view_of(&a->dbias);
  return run(g, &l, a->w->rows);
}

layerops_status lo_cl_bsr_linear_backward(layerops_context *ctx,
                                          const layerops_bsr_linear_backward_args *a) {
  const layerops_bsr *w = a->w;
  const bool transposed = a->layout == LAYEROPS_FEATURES_BY_ROW;
  gradient g = {.ctx = ctx, .a = a, .values = layerops_bsr_values(w)};
  LO_TRY(make_dz(&g));
  g.p = (lo_cl_bsr_gradient){.dz = lo_cl_view_of(&g.dz),
                             .x = lo_cl_view_of(&a->x),
                             .beta = lo_cl_scalar_of(&a->beta),
                             .m = transposed ? a->dy.cols : a->dy.rows,
                             .n = w->rows,
                             .k = w->cols,
                             .height = w->height,
                             .width = w->width,
                             .count = w->count,
                             .block_rows = w->block_rows,
                             .gate = lo_present(&a->gate) ? a->gate.offset : -1,
                             .transposed = transposed,
                             .activation = a->dx_activation,
                             .slope = (float)a->dx_slope.value};
  ctx->kernel = "opencl_bsr_plain";
  if (lo_present(&a->dx)) LO_TRY(run_dx(&g));
  if (lo_present(&a->dw)) LO_TRY(run_dw(&g));
  if (lo_present(&a->dgate)) LO_TRY(run_dgate(&g));
  return lo_present(&a->dbias) ? run_dbias(&g) : LAYEROPS_OK;
}

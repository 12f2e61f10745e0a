/* bsr_linear_backward: dZ, then each gradient by tensor cores where they take it, else plainly. */
#include <config.h>

#include "backends/cuda/bsr_launch.h"
#include "backends/cuda/cuda.h"
#include "backends/cuda/ops_bsr.h"
#include "common/bsr.h"

typedef struct gradient {
  layerops_context *ctx;
  const layerops_bsr_linear_backward_args *a;
  layerops_matrix dz;
  lo_cu_bsr_gradient p;
} gradient;

/* dZ is dY itself where nothing has to be done to it. */
static layerops_status make_dz(gradient *g) {
  const layerops_bsr_linear_backward_args *a = g->a;
  char *memory;
  g->dz = lo_present(&a->dz) ? a->dz : a->dy;
  if (a->activation == LAYEROPS_IDENTITY && !lo_present(&a->dz)) return LAYEROPS_OK;
  if (!a->dy.rows || !a->dy.cols) return LAYEROPS_OK;
  if (!lo_present(&a->dz)) {
    g->dz = layerops_matrix_of(NULL, a->dy.type, a->dy.rows, a->dy.cols);
    int64_t bytes = a->dy.rows * a->dy.cols * (int64_t)layerops_type_size(a->dy.type);
    LO_TRY(lo_cuda_scratch(g->ctx, bytes, &memory));
    g->dz.host = memory; /* an address without a buffer of its own */
  }
  if (a->activation == LAYEROPS_IDENTITY) {
    layerops_copy_args copy = {.x = a->dy, .y = g->dz};
    return lo_cuda_copy(g->ctx, &copy);
  }
  layerops_activation_backward_args args = {
      .dy = a->dy, .saved = a->saved, .dx = g->dz, .activation = a->activation, .slope = a->slope};
  return lo_cuda_activation_backward(g->ctx, &args);
}

static const char operation[] = "bsr_linear_backward";

static layerops_status run(gradient *g, int which, const layerops_matrix *to, int64_t items) {
  if (!lo_present(to) || !items) return LAYEROPS_OK;
  g->p.to = lo_cuda_view(to);
  g->ctx->kernel = "bsr_plain";
  return lo_cuda_check(
      g->ctx,
      lo_cu_run_bsr_gradient(which, &g->p, lo_cuda_grid(g->ctx, items), lo_cuda(g->ctx)->stream),
      operation);
}

static layerops_status run_dx(gradient *g) {
  const layerops_bsr_linear_backward_args *a = g->a;
  lo_cuda_bsr_product p = {.w = a->w,
                           .turned = true,
                           .features = g->p.transposed,
                           .x = g->dz,
                           .y = a->dx,
                           .gate = a->gate,
                           .what = operation};
  if (!lo_present(&a->dx)) return LAYEROPS_OK;
  p.epilogue = (lo_epilogue){.alpha = layerops_value(1),
                             .derivative = a->dx_activation,
                             .derivative_slope = (float)a->dx_slope.value};
  if (a->dx_activation != LAYEROPS_IDENTITY) p.epilogue.saved = a->dx_saved;
  lo_cuda_bsr_one_sample(&p);
  if (lo_cuda_bsr_features_takes(g->ctx, &p)) return lo_cuda_bsr_features_run(g->ctx, &p);
  if (lo_cuda_bsr_takes(g->ctx, &p)) return lo_cuda_bsr_run(g->ctx, &p);
  return run(g, LO_CU_BSR_DX, &a->dx, a->dx.rows * a->dx.cols);
}

/* The gates' gradient is a by-product of that of the weights. */
static layerops_status run_dw(gradient *g) {
  const layerops_bsr_linear_backward_args *a = g->a;
  const layerops_bsr *w = a->w;
  lo_cuda_bsr_gradient p = {.w = w,
                            .features = g->p.transposed,
                            .dz = g->dz,
                            .x = a->x,
                            .dw = a->dw,
                            .gate = a->gate,
                            .dgate = a->dgate,
                            .beta = a->beta,
                            .what = operation};
  if (!lo_present(&a->dw) && !lo_present(&a->dgate)) return LAYEROPS_OK;
  if (lo_cuda_bsr_wgrad_takes(g->ctx, &p)) return lo_cuda_bsr_wgrad(g->ctx, &p);
  if (lo_cuda_bsr_features_wgrad_takes(g->ctx, &p)) return lo_cuda_bsr_features_wgrad(g->ctx, &p);
  LO_TRY(run(g, LO_CU_BSR_DW, &a->dw, w->count * w->height * w->width));
  return run(g, LO_CU_BSR_DGATE, &a->dgate, w->count);
}

layerops_status lo_cuda_bsr_linear_backward(layerops_context *ctx,
                                            const layerops_bsr_linear_backward_args *a) {
  const layerops_bsr *w = a->w;
  const bool transposed = a->layout == LAYEROPS_FEATURES_BY_ROW;
  const layerops_matrix values = layerops_bsr_values(w);
  gradient g = {.ctx = ctx, .a = a};
  LO_TRY(make_dz(&g));
  g.p = (lo_cu_bsr_gradient){.dz = lo_cuda_view(&g.dz),
                             .x = lo_cuda_view(&a->x),
                             .values = lo_cuda_view(&values),
                             .row_start = w->row_start->native,
                             .column = w->column->native,
                             .col_start = w->col_start->native,
                             .row = w->row->native,
                             .place = w->place->native,
                             .gate = lo_present(&a->gate) ? lo_address(&a->gate) : NULL,
                             .beta = lo_cuda_scalar(&a->beta),
                             .m = transposed ? a->dy.cols : a->dy.rows,
                             .n = w->rows,
                             .k = w->cols,
                             .count = w->count,
                             .block_rows = w->block_rows,
                             .height = (int)w->height,
                             .width = (int)w->width,
                             .transposed = transposed,
                             .activation = a->dx_activation,
                             .slope = (float)a->dx_slope.value};
  if (a->dx_activation != LAYEROPS_IDENTITY) g.p.saved = lo_cuda_view(&a->dx_saved);
  LO_TRY(run_dx(&g));
  LO_TRY(run_dw(&g));
  return run(&g, LO_CU_BSR_DBIAS, &a->dbias, w->rows);
}

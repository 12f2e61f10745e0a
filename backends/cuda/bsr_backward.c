/* bsr_linear_backward: dZ, then each gradient by tensor cores where they take it, else on ordinary
 * ones. */
#include <config.h>

#include "backends/cuda/ops_bsr.h"
#include "backends/cuda/plan.h"
#include "common/bsr.h"

static const char operation[] = "bsr_linear_backward";

typedef struct backward {
  layerops_context *ctx;
  const layerops_bsr_linear_backward_args *a;
  layerops_matrix dz;
  bool features;
  lo_cuda_bsr_gradient gradient;
  lo_cu_column_sum column_sum;
  int64_t dz_bytes, bytes; /* of scratch memory: dZ, and all */
} backward;

/* dZ is dY itself where nothing has to be done to it. */
static void plan_dz(backward *b) {
  const layerops_bsr_linear_backward_args *a = b->a;
  b->dz = lo_present(&a->dz) ? a->dz : a->dy;
  if (lo_present(&a->dz) || a->activation == LAYEROPS_IDENTITY) return;
  b->dz = layerops_matrix_of(NULL, a->dy.type, a->dy.rows, a->dy.cols);
  b->dz_bytes = a->dy.rows * a->dy.cols * (int64_t)lo_type_bytes(a->dy.type);
  b->dz_bytes = (b->dz_bytes + 255) / 256 * 256;
}

/* All scratch memory is asked for once: dZ, then what the gates or, after them, the bias needs. */
static void plan(backward *b) {
  const layerops_bsr_linear_backward_args *a = b->a;
  plan_dz(b);
  b->gradient = (lo_cuda_bsr_gradient){.w = a->w,
                                       .x = a->x,
                                       .dw = a->dw,
                                       .gate = a->gate,
                                       .dgate = a->dgate,
                                       .beta = a->beta,
                                       .features = b->features,
                                       .what = operation};
  b->bytes = lo_cuda_bsr_simt_scratch(&b->gradient);
  if (lo_present(&a->dbias) && !b->features) {
    const int64_t bytes = lo_cuda_plan_column_sum(b->ctx, &a->dy, &b->column_sum);
    if (bytes > b->bytes) b->bytes = bytes;
  }
  b->bytes += b->dz_bytes;
}

static layerops_status make_dz(backward *b) {
  const layerops_bsr_linear_backward_args *a = b->a;
  if (a->activation == LAYEROPS_IDENTITY && !lo_present(&a->dz)) return LAYEROPS_OK;
  if (!a->dy.rows || !a->dy.cols) return LAYEROPS_OK;
  if (a->activation == LAYEROPS_IDENTITY) {
    layerops_copy_args copy = {.x = a->dy, .y = b->dz};
    return lo_cuda_copy(b->ctx, &copy);
  }
  layerops_activation_backward_args args = {
      .dy = a->dy, .saved = a->saved, .dx = b->dz, .activation = a->activation, .slope = a->slope};
  return lo_cuda_activation_backward(b->ctx, &args);
}

static layerops_status run_dx(const backward *b) {
  const layerops_bsr_linear_backward_args *a = b->a;
  lo_cuda_bsr_product p = {.w = a->w,
                           .turned = true,
                           .x = b->dz,
                           .y = a->dx,
                           .gate = a->gate,
                           .features = b->features,
                           .invariant = a->flags & LAYEROPS_BATCH_INVARIANT,
                           .what = operation};
  if (!lo_present(&a->dx)) return LAYEROPS_OK;
  p.epilogue = (lo_epilogue){.alpha = layerops_value(1),
                             .derivative = a->dx_activation,
                             .derivative_slope = (float)a->dx_slope.value};
  if (a->dx_activation != LAYEROPS_IDENTITY) p.epilogue.saved = a->dx_saved;
  return lo_cuda_bsr_multiply(b->ctx, &p);
}

/* dW, and dgate, which is a by-product of it. */
static layerops_status run_values(const backward *b, char *memory) {
  lo_cuda_bsr_gradient g = b->gradient;
  g.dz = b->dz;
  if (!lo_present(&g.dw) && !lo_present(&g.dgate)) return LAYEROPS_OK;
  if (lo_cuda_bsr_wgrad_takes(b->ctx, &g)) return lo_cuda_bsr_wgrad(b->ctx, &g);
  if (lo_cuda_bsr_features_wgrad_takes(b->ctx, &g)) return lo_cuda_bsr_features_wgrad(b->ctx, &g);
  return lo_cuda_bsr_simt_wgrad(b->ctx, &g, memory);
}

static layerops_status run_dbias(backward *b, char *memory) {
  const layerops_bsr_linear_backward_args *a = b->a;
  if (!lo_present(&a->dbias)) return LAYEROPS_OK;
  if (b->features) return lo_cuda_bsr_row_sums(b->ctx, &b->dz, &a->dbias, &a->beta, operation);
  return lo_cuda_column_sum(b->ctx, &b->column_sum, &b->dz, &a->dbias, &a->beta, memory, operation);
}

layerops_status lo_cuda_bsr_linear_backward(layerops_context *ctx,
                                            const layerops_bsr_linear_backward_args *a) {
  backward b = {.ctx = ctx, .a = a, .features = a->layout == LAYEROPS_FEATURES_BY_ROW};
  char *memory;
  plan(&b);
  LO_TRY(lo_cuda_scratch(ctx, b.bytes, &memory));
  if (b.dz_bytes) b.dz.host = memory; /* an address without a buffer of its own */
  if (memory) memory += b.dz_bytes;
  LO_TRY(make_dz(&b));
  LO_TRY(run_dx(&b));
  LO_TRY(run_values(&b, memory));
  return run_dbias(&b, memory);
}

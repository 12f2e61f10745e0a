/* Softmax and cross-entropy. */
#include <config.h>

#include "backends/opencl/opencl.h"

static int group_of(layerops_context *ctx) {
  return lo_cl_of(ctx)->device->class.group;
}

layerops_status lo_cl_softmax(layerops_context *ctx, const layerops_softmax_args *a) {
  lo_cl_rows p = {.rows = a->x.rows,
                  .cols = a->x.cols,
                  .x = lo_cl_view_of(&a->x),
                  .y = lo_cl_view_of(&a->y),
                  .log = a->log};
  ctx->kernel = "opencl_rows";
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_ROWS, NULL, "softmax");
  lo_cl_view_memory(&l, &a->x);
  lo_cl_view_memory(&l, &a->y);
  lo_cl_local(&l, group_of(ctx), sizeof(cl_float));
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run(&l, group_of(ctx), p.rows, 1, 1);
}

static layerops_status count_labels(layerops_context *ctx, const layerops_cross_entropy_args *a,
                                    const lo_cl_rows *p, const layerops_buffer *scratch) {
  if (!lo_present(&a->labels)) return LAYEROPS_OK;
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_ROWS, NULL, "count_labels");
  lo_cl_view_memory(&l, &a->labels);
  lo_cl_memory(&l, scratch);
  lo_cl_fault_memory(&l);
  lo_cl_local(&l, group_of(ctx), sizeof(cl_int));
  lo_cl_local(&l, group_of(ctx), sizeof(cl_long));
  lo_cl_bytes(&l, sizeof *p, p);
  return lo_cl_run(&l, group_of(ctx), 1, 1, 1);
}

static layerops_status each_row(layerops_context *ctx, const layerops_cross_entropy_args *a,
                                const lo_cl_rows *p, const layerops_buffer *scratch) {
  if (!p->rows) return LAYEROPS_OK;
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_ROWS, NULL, "cross_entropy");
  lo_cl_view_memory(&l, &a->logits);
  lo_cl_view_memory(&l, &a->labels);
  lo_cl_view_memory(&l, &a->probabilities);
  lo_cl_view_memory(&l, &a->losses);
  lo_cl_view_memory(&l, &a->dlogits);
  lo_cl_scalar_memory(&l, &a->grad_scale);
  lo_cl_memory(&l, scratch);
  lo_cl_local(&l, group_of(ctx), sizeof(cl_float));
  lo_cl_local(&l, group_of(ctx), sizeof(cl_long));
  lo_cl_bytes(&l, sizeof *p, p);
  return lo_cl_run(&l, group_of(ctx), p->rows, 1, 1);
}

static layerops_status summary(layerops_context *ctx, const layerops_cross_entropy_args *a,
                               const lo_cl_rows *p, const layerops_buffer *scratch) {
  if (!lo_present(&a->loss) && !lo_present(&a->correct)) return LAYEROPS_OK;
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_ROWS, NULL, "summary");
  lo_cl_memory(&l, scratch);
  lo_cl_view_memory(&l, &a->loss);
  lo_cl_view_memory(&l, &a->correct);
  lo_cl_local(&l, group_of(ctx), sizeof(cl_float));
  lo_cl_local(&l, group_of(ctx), sizeof(cl_int));
  lo_cl_bytes(&l, sizeof *p, p);
  return lo_cl_run(&l, group_of(ctx), 1, 1, 1);
}

/* The mean's divisor must be known before the first gradient: labels are counted, and judged,
 * first. */
layerops_status lo_cl_cross_entropy(layerops_context *ctx, const layerops_cross_entropy_args *a) {
  enum { HEAD = 16 }; /* words before the rows' */
  int64_t m = a->logits.rows;
  lo_cl_rows p = {.rows = m,
                  .cols = a->logits.cols,
                  .x = lo_cl_view_of(&a->logits),
                  .y = lo_cl_view_of(&a->dlogits),
                  .labels = lo_cl_view_of(&a->labels),
                  .probabilities = lo_cl_view_of(&a->probabilities),
                  .loss = lo_cl_view_of(&a->loss),
                  .losses = lo_cl_view_of(&a->losses),
                  .correct = lo_cl_view_of(&a->correct),
                  .grad_scale = lo_cl_scalar_of(&a->grad_scale),
                  .ignore = a->ignore_label.kind ? (int64_t)a->ignore_label.value : INT64_MIN,
                  .row_losses = HEAD,
                  .row_correct = HEAD + m,
                  .counted = 0,
                  .mean = a->reduction == LAYEROPS_MEAN};
  layerops_buffer *scratch;
  ctx->kernel = "opencl_rows";
  LO_TRY(lo_workspace(ctx, (HEAD + 2 * m) * (int64_t)sizeof(float), &scratch));
  LO_TRY(count_labels(ctx, a, &p, scratch));
  LO_TRY(each_row(ctx, a, &p, scratch));
  return summary(ctx, a, &p, scratch);
}

/* Softmax and the losses: grids, scratch memory, kernels by the length of a row. */
#include <config.h>

#include "backends/cuda/cuda.h"

/* How rows are shared out. */
typedef struct row_kernel {
  lo_kernel base;
  int row_threads;
} row_kernel;

static const char *refuse_long(layerops_context *ctx, const void *problem) {
  const char *reason = lo_cuda_shut_out(ctx, "row_by_warp");
  if (reason) return reason;
  return *(const int64_t *)problem > 1024 ? "rows of more than 1024 columns keep a warp too long"
                                          : NULL;
}

static const row_kernel row_kernels[] = {
    {{"row_by_warp", refuse_long}, 32},
    {{"row_by_block", NULL}, 256},
};

static int choose_row_threads(layerops_context *ctx, int64_t cols) {
  return ((const row_kernel *)LO_SELECT(ctx, row_kernels, &cols))->row_threads;
}

/* Blocks of 256 threads for the rows; few enough that one warp can sum what they leave behind. */
static int row_blocks(layerops_context *ctx, int64_t rows, int row_threads) {
  int64_t each = 256 / row_threads, blocks = (rows + each - 1) / each;
  int64_t most = 8 * (int64_t)lo_cuda(ctx)->device->sms;
  return (int)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

layerops_status lo_cuda_softmax(layerops_context *ctx, const layerops_softmax_args *a) {
  lo_cu_softmax p = {lo_cuda_view(&a->x), lo_cuda_view(&a->y), a->log};
  int threads = choose_row_threads(ctx, a->x.cols);
  lo_cu_grid grid = {row_blocks(ctx, a->x.rows, threads), 1, 1, 256, 0};
  return lo_cuda_check(ctx, lo_cu_run_softmax_rows(&p, threads, grid, lo_cuda(ctx)->stream),
                       "softmax");
}

layerops_status lo_cuda_cross_entropy(layerops_context *ctx, const layerops_cross_entropy_args *a) {
  int threads = choose_row_threads(ctx, a->logits.cols);
  lo_cu_cross_entropy p = {
      .logits = lo_cuda_view(&a->logits),
      .probabilities = lo_cuda_view(&a->probabilities),
      .dlogits = lo_cuda_view(&a->dlogits),
      .labels = lo_present(&a->labels) ? lo_address(&a->labels) : NULL,
      .m = a->logits.rows,
      .n = a->logits.cols,
      .loss = lo_present(&a->loss) ? lo_address(&a->loss) : NULL,
      .losses = lo_present(&a->losses) ? lo_address(&a->losses) : NULL,
      .correct = lo_present(&a->correct) ? lo_address(&a->correct) : NULL,
      .ignore = a->ignore_label.kind ? (int64_t)a->ignore_label.value : INT64_MIN,
      .grad_scale = lo_cuda_scalar(&a->grad_scale),
      .mean = a->reduction == LAYEROPS_MEAN,
      .count_blocks = (int)(a->logits.rows < 256 * 256 ? (a->logits.rows + 255) / 256 : 256),
      .row_blocks = row_blocks(ctx, a->logits.rows, threads),
  };
  if (p.count_blocks < 1) p.count_blocks = 1;
  layerops_buffer *scratch;
  LO_TRY(lo_workspace(ctx, 4 * ((int64_t)p.count_blocks + 2 * p.row_blocks), &scratch));
  p.counts = scratch->native;
  p.loss_parts = (float *)(p.counts + p.count_blocks);
  p.correct_parts = p.counts + p.count_blocks + p.row_blocks;
  p.fault = p.labels ? lo_cuda_label_fault(ctx, p.n) : NULL;
  return lo_cuda_check(ctx, lo_cu_run_cross_entropy_rows(&p, threads, lo_cuda(ctx)->stream),
                       "cross_entropy");
}

layerops_status lo_cuda_mse(layerops_context *ctx, const layerops_mse_args *a) {
  double elements = (double)a->y.rows * (double)a->y.cols;
  lo_cu_mse p = {.y = lo_cuda_view(&a->y),
                 .target = lo_cuda_view(&a->target),
                 .dy = lo_cuda_view(&a->dy),
                 .loss = lo_present(&a->loss) ? lo_address(&a->loss) : NULL,
                 .r = a->reduction == LAYEROPS_MEAN && elements > 0 ? 1 / elements : 1,
                 .grad_scale = lo_cuda_scalar(&a->grad_scale)};
  lo_cuda_flatten((lo_cu_view *[]){&p.y, &p.target, &p.dy}, 3);
  ctx->kernel = "mse_quads";
  p.blocks = (int)lo_cuda_quads(ctx, &p.y).x;
  if (p.loss) {
    layerops_buffer *scratch;
    LO_TRY(lo_workspace(ctx, 4 * (int64_t)p.blocks, &scratch));
    p.parts = scratch->native;
  }
  return lo_cuda_check(ctx, lo_cu_run_mse_all(&p, lo_cuda(ctx)->stream), "mse");
}

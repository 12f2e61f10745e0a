/* Softmax and the losses: grids, scratch memory, kernels by the length of a row. */
#include <config.h>

#include <string.h>

#include "backends/cuda/cuda.h"

/* ---- How a row is held, by its length alone. */
typedef struct line {
  lo_kernel base;
  int threads, quads, blocks;
} line;

static const char *refuse(layerops_context *ctx, const void *cols, const char *name, int threads,
                          int quads, int held) {
  bool forced = !strncmp(lo_cuda(ctx)->forced, "row_", 4); /* not by the name of a product's */
  if (forced && strcmp(lo_cuda(ctx)->forced, name)) return lo_cuda_shut_out(ctx, name);
  return held && *(const int64_t *)cols > 4 * threads * quads ? "rows are longer" : NULL;
}

#define NAME(THREADS, QUADS) "row_" #THREADS "x" #QUADS
#define X(THREADS, QUADS, HELD, BLOCKS)                                                            \
  static const char *refuse_##THREADS##x##QUADS(layerops_context *ctx, const void *cols) {         \
    return refuse(ctx, cols, NAME(THREADS, QUADS), THREADS, QUADS, HELD);                          \
  }
LO_CU_LINES(X)
#undef X
static const line lines[] = {
#define X(THREADS, QUADS, HELD, BLOCKS)                                                            \
  {{NAME(THREADS, QUADS), refuse_##THREADS##x##QUADS}, THREADS, QUADS, BLOCKS},
    LO_CU_LINES(X)
#undef X
};

/* The line, and a grid of blocks of 256 threads: as many as run at once, since each has much to do
 * at its end. */
static layerops_status choose(layerops_context *ctx, int64_t rows, int64_t cols, int *number,
                              lo_cu_grid *grid) {
  const line *l = LO_SELECT(ctx, lines, &cols);
  if (!l)
    return lo_fail(LAYEROPS_ERROR_UNSUPPORTED,
                   "no kernel takes rows of %lld, and LAYEROPS_CUDA_KERNEL is \"%s\"",
                   (long long)cols, lo_cuda(ctx)->forced);
  int64_t each = 256 / l->threads, blocks = (rows + each - 1) / each;
  int64_t most = l->blocks * (int64_t)lo_cuda(ctx)->device->sms;
  *number = (int)(l - lines);
  *grid = (lo_cu_grid){.x = blocks < 1      ? 1
                            : blocks < most ? blocks
                                            : most,
                       .y = 1,
                       .z = 1,
                       .threads = 256};
  return LAYEROPS_OK;
}

/* Whether rows of all these views, or absent ones, are made of quads that may be moved at once. */
static int whole(int64_t cols, const lo_cu_view *a, const lo_cu_view *b, const lo_cu_view *c) {
  return cols % 4 == 0 && (!a->p || a->vector) && (!b->p || b->vector) && (!c->p || c->vector);
}

layerops_status lo_cuda_softmax(layerops_context *ctx, const layerops_softmax_args *a) {
  lo_cu_softmax p = {.x = lo_cuda_view(&a->x), .y = lo_cuda_view(&a->y), .log = a->log};
  p.whole = whole(p.x.cols, &p.x, &p.y, &p.y);
  int number = 0;
  lo_cu_grid grid;
  LO_TRY(choose(ctx, a->x.rows, a->x.cols, &number, &grid));
  return lo_cuda_check(ctx, lo_cu_run_softmax_rows(&p, number, grid, lo_cuda(ctx)->stream),
                       "softmax");
}

/* Labels that a warp counts at a time: eight a lane at least, and enough that few blocks take two.
 */
static int64_t slice_of(int64_t rows, int64_t blocks) {
  int64_t each = (rows + blocks - 1) / blocks;
  return each < 256 ? 256 : (each + 31) / 32 * 32;
}

layerops_status lo_cuda_cross_entropy(layerops_context *ctx, const layerops_cross_entropy_args *a) {
  int number = 0;
  lo_cu_grid grid;
  LO_TRY(choose(ctx, a->logits.rows, a->logits.cols, &number, &grid));
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
      .meeting = lo_cuda(ctx)->meeting,
  };
  p.slice = slice_of(p.m, grid.x);
  p.slices = (unsigned)((p.m + p.slice - 1) / p.slice);
  p.whole = whole(p.n, &p.logits, &p.probabilities, &p.dlogits);
  char *scratch;
  LO_TRY(lo_cuda_scratch(ctx, 8 * grid.x, &scratch));
  p.loss_parts = (float *)scratch;
  p.correct_parts = (int *)(p.loss_parts + grid.x);
  p.fault = p.labels ? lo_cuda_label_fault(ctx, p.n) : NULL;
  return lo_cuda_check(ctx, lo_cu_run_cross_entropy_rows(&p, number, grid, lo_cuda(ctx)->stream),
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
  p.meeting = lo_cuda(ctx)->meeting;
  lo_cu_grid grid = lo_cuda_quads(ctx, &p.y);
  char *scratch;
  LO_TRY(lo_cuda_scratch(ctx, p.loss ? 4 * grid.x : 0, &scratch));
  p.parts = (float *)scratch;
  return lo_cuda_check(ctx, lo_cu_run_mse_all(&p, grid, lo_cuda(ctx)->stream), "mse");
}

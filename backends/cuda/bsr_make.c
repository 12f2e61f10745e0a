/* Block-sparse weights made on the device, as lo_bsr_form says. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/bsr_make.h"
#include "backends/cuda/bsr_plan.h"
#include "backends/cuda/cuda.h"

/* ---- Index arrays */

/* Numbers, zeros where asked for, within one piece of scratch memory. */
typedef struct pieces {
  int64_t verdict, next, dealt, bytes; /* where they begin; all */
} pieces;

static pieces pieces_of(const layerops_bsr *w) {
  const int64_t size = sizeof(int32_t);
  pieces p = {.next = 16};
  p.dealt = p.next + size * w->block_cols;
  p.bytes = p.dealt + size * w->count;
  return p;
}

static layerops_status create(layerops_context *ctx, int64_t count, layerops_buffer **to) {
  return layerops_buffer_create(ctx, count * (int64_t)sizeof(int32_t), to);
}

static layerops_status zeros(layerops_context *ctx, void *memory, int64_t bytes) {
  return lo_cuda_check(ctx, cudaMemsetAsync(memory, 0, (size_t)bytes, lo_cuda(ctx)->stream),
                       "bsr_create");
}

static layerops_status sort(layerops_context *ctx, const lo_cu_bsr_index *p) {
  const lo_cu_grid one = {.x = 1, .y = 1, .z = 1, .threads = 1024};
  const lo_cu_grid grids[] = {[LO_CU_BSR_CHECK] =
                                  lo_cuda_grid(ctx, (int64_t)p->block_rows + p->count),
                              [LO_CU_BSR_SUM] = one,
                              [LO_CU_BSR_DEAL] = lo_cuda_grid(ctx, p->count),
                              [LO_CU_BSR_ORDER] = lo_cuda_grid(ctx, p->count)};
  for (int which = 0; which <= LO_CU_BSR_ORDER; which++)
    LO_TRY(lo_cuda_check(ctx, lo_cu_run_bsr_index(which, p, grids[which], lo_cuda(ctx)->stream),
                         "bsr_create"));
  return LAYEROPS_OK;
}

/* Scratch memory is a buffer of its own: the context's may be the user's, and small. */
static layerops_status sort_in(layerops_context *ctx, layerops_bsr *w, layerops_buffer *scratch,
                               lo_cu_bsr_verdict *verdict) {
  const pieces at = pieces_of(w);
  char *memory = scratch->native;
  const lo_cu_bsr_index p = {.row_start = w->row_start->native,
                             .column = w->column->native,
                             .col_start = w->col_start->native,
                             .row = w->row->native,
                             .place = w->place->native,
                             .dealt = (int *)(memory + at.dealt),
                             .next = (int *)(memory + at.next),
                             .verdict = (lo_cu_bsr_verdict *)memory,
                             .block_rows = (int)w->block_rows,
                             .block_cols = (int)w->block_cols,
                             .count = (int)w->count};
  LO_TRY(zeros(ctx, memory, at.dealt));
  LO_TRY(zeros(ctx, p.col_start, (w->block_cols + 1) * (int64_t)sizeof(int32_t)));
  LO_TRY(sort(ctx, &p));
  return layerops_buffer_read_at(ctx, scratch, 0, verdict, sizeof *verdict);
}

layerops_status lo_cuda_bsr_index(layerops_context *ctx, layerops_bsr *w, bool *valid) {
  lo_cu_bsr_verdict verdict = {0};
  layerops_buffer *scratch;
  LO_TRY(create(ctx, w->block_cols + 1, &w->col_start));
  LO_TRY(create(ctx, w->count, &w->row));
  LO_TRY(create(ctx, w->count, &w->place));
  LO_TRY(layerops_buffer_create(ctx, pieces_of(w).bytes, &scratch));
  const layerops_status status = sort_in(ctx, w, scratch, &verdict);
  layerops_buffer_destroy(scratch);
  *valid = !verdict.fault;
  w->longest_row = verdict.longest_row;
  w->longest_col = verdict.longest_col;
  return status;
}

/* ---- Dense matrices */

_Static_assert((int)LAYEROPS_BSR_L1 == LO_CU_BSR_L1 && (int)LAYEROPS_BSR_L2 == LO_CU_BSR_L2 &&
                   (int)LAYEROPS_BSR_MAX == LO_CU_BSR_MAX,
               "scores are the kernels'");

static layerops_status run(layerops_context *ctx, int which, const lo_cu_bsr_dense *p,
                           int64_t items, const char *function) {
  if (!items) return LAYEROPS_OK;
  lo_cu_grid grid = lo_cuda_grid(ctx, which == LO_CU_BSR_QUANTISE ? items * 256 : items);
  return lo_cuda_check(ctx, lo_cu_run_bsr_dense(which, p, grid, lo_cuda(ctx)->stream), function);
}

layerops_status lo_cuda_bsr_scores(layerops_context *ctx, const lo_bsr_shape *shape,
                                   const layerops_matrix *dense, int32_t score, double *scores) {
  const int64_t blocks = shape->block_rows * shape->block_cols;
  const int64_t bytes = blocks * (int64_t)sizeof *scores;
  layerops_buffer *scratch;
  if (!blocks) return LAYEROPS_OK;
  LO_TRY(layerops_buffer_create(ctx, bytes, &scratch));
  const lo_cu_bsr_dense p = {.dense = lo_cuda_view(dense),
                             .scores = scratch->native,
                             .height = (int)shape->height,
                             .width = (int)shape->width,
                             .score = score};
  layerops_status status = run(ctx, LO_CU_BSR_SCORES, &p, blocks, "bsr_prune");
  if (status == LAYEROPS_OK) status = layerops_buffer_read_at(ctx, scratch, 0, scores, bytes);
  layerops_buffer_destroy(scratch);
  return status;
}

/* Without the dense matrix. */
static lo_cu_bsr_dense params_of(const layerops_bsr *w) {
  const layerops_matrix values = layerops_bsr_values(w);
  return (lo_cu_bsr_dense){.dense = {.rows = w->rows, .cols = w->cols},
                           .values = lo_cuda_view(&values),
                           .row_start = w->row_start->native,
                           .column = w->column->native,
                           .scales = w->scales ? w->scales->native : NULL,
                           .count = w->count,
                           .block_rows = (int)w->block_rows,
                           .height = (int)w->height,
                           .width = (int)w->width};
}

layerops_status lo_cuda_bsr_gather(layerops_context *ctx, layerops_bsr *w,
                                   const layerops_matrix *dense) {
  lo_cu_bsr_dense p = params_of(w);
  p.dense = lo_cuda_view(dense);
  if (p.scales) return run(ctx, LO_CU_BSR_QUANTISE, &p, w->count, "bsr_from_dense");
  return run(ctx, LO_CU_BSR_GATHER, &p, w->count * w->height * w->width, "bsr_from_dense");
}

layerops_status lo_cuda_bsr_scatter(layerops_context *ctx, const layerops_bsr *w,
                                    const layerops_matrix *dense) {
  lo_cu_bsr_dense p = params_of(w);
  p.dense = lo_cuda_view(dense);
  const layerops_fill_args fill = {.y = *dense};
  LO_TRY(lo_cuda_fill(ctx, &fill));
  return run(ctx, LO_CU_BSR_SCATTER, &p, w->count * w->height * w->width, "bsr_to_dense");
}

layerops_status lo_cuda_bsr_clear(layerops_context *ctx, const layerops_bsr *w) {
  const lo_cu_bsr_dense p = params_of(w);
  return run(ctx, LO_CU_BSR_CLEAR, &p, w->count * w->height * w->width, "bsr_create");
}

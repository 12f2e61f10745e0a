/* Transposition in square blocks, so that both sides are walked by whole cache lines. */
#include <config.h>

#include "backends/cpu/product.h"
#include "backends/cpu/span.h"

enum { BLOCK = 64 };

typedef struct job {
  const lo_isa *isa;
  lo_plane x, y;
  int64_t rows, cols, tasks; /* of X */
} job;

#define TRANSPOSE(type)                                                                            \
  static void transpose_##type(const type *x, int64_t x_row, type *y, int64_t y_row, int64_t rows, \
                               int64_t cols) {                                                     \
    for (int64_t j = 0; j < cols; j++)                                                             \
      for (int64_t i = 0; i < rows; i++) y[j * y_row + i] = x[i * x_row + j];                      \
  }
TRANSPOSE(uint8_t)
TRANSPOSE(uint16_t)

static void run_block(const job *w, int64_t i, int64_t rows, int64_t j, int64_t cols) {
  const void *x = lo_element(&w->x, i, j);
  void *y = lo_element(&w->y, j, i);
  switch (layerops_type_size(w->x.type)) {
  case 1:
    transpose_uint8_t(x, w->x.stride, y, w->y.stride, rows, cols);
    break;
  case 2:
    transpose_uint16_t(x, w->x.stride, y, w->y.stride, rows, cols);
    break;
  default:
    w->isa->transpose(x, w->x.stride, y, w->y.stride, rows, cols);
  }
}

static void run_task(void *arg, int64_t task) {
  const job *w = arg;
  const int64_t across = (w->cols + BLOCK - 1) / BLOCK, down = (w->rows + BLOCK - 1) / BLOCK;
  int64_t begin, end;
  lo_share(down * across, w->tasks, task, &begin, &end);
  for (int64_t b = begin; b < end; b++) {
    int64_t i = b / across * BLOCK, j = b % across * BLOCK;
    run_block(w, i, w->rows - i < BLOCK ? w->rows - i : BLOCK, j,
              w->cols - j < BLOCK ? w->cols - j : BLOCK);
  }
}

layerops_status lo_cpu_transpose(layerops_context *ctx, const layerops_transpose_args *a) {
  job w = {.isa = lo_cpu_of(ctx)->isa,
           .x = lo_plane_of(&a->x, 0),
           .y = lo_plane_of(&a->y, 0),
           .rows = a->x.rows,
           .cols = a->x.cols};
  ctx->kernel = w.isa->name;
  w.tasks = lo_parallel_width(ctx, 0.15 * (double)w.rows * (double)w.cols);
  lo_parallel(ctx, w.tasks, run_task, &w);
  return LAYEROPS_OK;
}

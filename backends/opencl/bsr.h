/* Products with block-sparse W. A line of blocks is a block row forward, a block column backward.
 */
#ifndef LO_OPENCL_BSR_H
#define LO_OPENCL_BSR_H

#include "backends/opencl/product.h"

enum { LO_CL_BSR_GROUPS = 32768 }; /* along y of a grid: NVIDIA's limit is 65535 */

/* Of a block's side. */
static inline int lo_cl_bsr_log2(int64_t side) {
  int log2 = 0;
  while (side >> (log2 + 1)) log2++;
  return log2;
}

/* Samples of so many features, as a row is a sample or a feature: across from one sample to the
 * next, along from one feature to the next. */
lo_cl_operand lo_cl_bsr_samples(const layerops_matrix *view, bool features_by_row);

/* Y = X W^T, or dX = dZ W: a line gives some features of `out`. */
typedef struct lo_cl_bsr_lines {
  const layerops_bsr *w;
  bool backward, features_by_row;
  layerops_matrix in, out, gate;
  lo_epilogue epilogue;
  uint32_t flags;
} lo_cl_bsr_lines;
int64_t lo_cl_bsr_lines_scratch(layerops_context *ctx, const lo_cl_bsr_lines *lines);
layerops_status lo_cl_bsr_lines_run(layerops_context *ctx, const lo_cl_bsr_lines *lines,
                                    lo_cl_region region);

/* dW and dgate, of which one may be absent. */
typedef struct lo_cl_bsr_wgrad {
  const layerops_bsr *w;
  bool features_by_row;
  layerops_matrix dz, x, gate, dw, dgate;
  layerops_scalar beta;
} lo_cl_bsr_wgrad;
int64_t lo_cl_bsr_wgrad_scratch(layerops_context *ctx, const lo_cl_bsr_wgrad *g);
layerops_status lo_cl_bsr_wgrad_run(layerops_context *ctx, const lo_cl_bsr_wgrad *g,
                                    lo_cl_region region);

/* W's values in f32, times scales and gates; dgate from dZ^T X. */
layerops_status lo_cl_bsr_widen(layerops_context *ctx, const layerops_bsr *w,
                                const layerops_matrix *gate, lo_cl_region to);
layerops_status lo_cl_bsr_gates(layerops_context *ctx, const lo_cl_bsr_wgrad *g, lo_cl_region sums);

enum { LO_CL_BSR_LOOK = 128 }; /* LOOK of bsr_gpu.cl */
/* GPUs: a tile, as in loop_gpu.cl. */
typedef struct lo_cl_bsr_tile {
  int rows, cols, item_rows, item_cols;
} lo_cl_bsr_tile;
static inline int lo_cl_bsr_items(const lo_cl_bsr_tile *t) {
  return t->rows / t->item_rows * (t->cols / t->item_cols);
}
/* Floats of local memory. It may be staged transposed. */
int64_t lo_cl_bsr_local(const lo_cl_bsr_tile *t);
/* Whether the device can have groups that compute it. */
bool lo_cl_bsr_fits(const lo_cl_device *d, const lo_cl_bsr_tile *t);
layerops_status lo_cl_bsr_none_fits(const lo_cl_device *d);

#endif

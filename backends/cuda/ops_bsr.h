/* Products with block-sparse weights, as the operations are made of them. Views are on this device,
 * checked. */
#ifndef LO_CUDA_OPS_BSR_H
#define LO_CUDA_OPS_BSR_H

#include "backends/cuda/cuda.h"
#include "common/product.h"

/* Rows begin and end on borders of 16 bytes, so that copies of so many read nothing beside them. */
static inline bool lo_cuda_bsr_whole(const layerops_matrix *m) {
  return lo_cuda_aligned(m, 8) && m->cols % 8 == 0;
}

/* Y = epilogue(X W^T), or, turned, epilogue(X W): the gradient of the layer's input with dZ as X.
 * By features, all matrices of samples are transposed. */
typedef struct lo_cuda_bsr_product {
  const layerops_bsr *w;
  bool turned;
  layerops_matrix x, y;
  lo_epilogue epilogue;
  const char *what;     /* the operation */
  layerops_matrix gate; /* absent: all blocks count once */
  bool features;
  bool invariant; /* a sample's bits depend neither on the others nor on their number */
} lo_cuda_bsr_product;
/* By the kernels that suit it best. */
layerops_status lo_cuda_bsr_multiply(layerops_context *ctx, lo_cuda_bsr_product *p);

/* dW = dZ^T X + beta dW where blocks are kept: a matrix as the values are, of their type or f32. */
typedef struct lo_cuda_bsr_gradient {
  const layerops_bsr *w;
  layerops_matrix dz, x, dw;
  layerops_scalar beta;
  const char *what;
  layerops_matrix gate, dgate; /* absent or present, as dW then */
  bool features;
} lo_cuda_bsr_gradient;

/* 16-bit types on tensor cores, where they take it. */
bool lo_cuda_bsr_takes(layerops_context *ctx, const lo_cuda_bsr_product *p);
layerops_status lo_cuda_bsr_run(layerops_context *ctx, const lo_cuda_bsr_product *p);
bool lo_cuda_bsr_wgrad_takes(layerops_context *ctx, const lo_cuda_bsr_gradient *g);
layerops_status lo_cuda_bsr_wgrad(layerops_context *ctx, const lo_cuda_bsr_gradient *g);

/* ---- ops_bsr_features.c: activations of 16 bits, by features, or of either layout where blocks
 * have factors: gates, or scales of 8-bit integers; gradients of values and gates in either. */
bool lo_cuda_bsr_features_takes(layerops_context *ctx, const lo_cuda_bsr_product *p);
layerops_status lo_cuda_bsr_features_run(layerops_context *ctx, const lo_cuda_bsr_product *p);
bool lo_cuda_bsr_features_wgrad_takes(layerops_context *ctx, const lo_cuda_bsr_gradient *g);
layerops_status lo_cuda_bsr_features_wgrad(layerops_context *ctx, const lo_cuda_bsr_gradient *g);
/* Makes columns of one sample rows, if their features are neighbours, for other kernels. */
void lo_cuda_bsr_one_sample(lo_cuda_bsr_product *p);

/* ---- ops_bsr_simt.c: all of it on ordinary cores */
layerops_status lo_cuda_bsr_simt(layerops_context *ctx, const lo_cuda_bsr_product *p);
/* `memory` holds lo_cuda_bsr_simt_scratch's bytes. */
layerops_status lo_cuda_bsr_simt_wgrad(layerops_context *ctx, const lo_cuda_bsr_gradient *g,
                                       char *memory);
int64_t lo_cuda_bsr_simt_scratch(const lo_cuda_bsr_gradient *g);
/* y[i] = the sum of row i of x + beta y[i], y being one row. */
layerops_status lo_cuda_bsr_row_sums(layerops_context *ctx, const layerops_matrix *x,
                                     const layerops_matrix *y, const layerops_scalar *beta,
                                     const char *what);

/* ---- ops_bsr_wgmma.c: NULL, or why not; tile: of LO_CU_BSR_LINE_TILES */
const char *lo_cuda_bsr_wgmma_refuses(layerops_context *ctx, int tile,
                                      const lo_cuda_bsr_product *p);
layerops_status lo_cuda_bsr_wgmma_run(layerops_context *ctx, int tile,
                                      const lo_cuda_bsr_product *p);
const char *lo_cuda_bsr_wgrad_wgmma_refuses(layerops_context *ctx, const lo_cuda_bsr_gradient *g);
layerops_status lo_cuda_bsr_wgrad_wgmma_run(layerops_context *ctx, const lo_cuda_bsr_gradient *g);

#endif

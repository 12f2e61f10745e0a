/* Products with block-sparse weights, as the operations are made of them. Views are on this device,
 * checked. */
#ifndef LO_CUDA_OPS_BSR_H
#define LO_CUDA_OPS_BSR_H

#include "common/product.h"

/* ---- ops_bsr_f32.c */
layerops_status lo_cuda_bsr_linear_f32(layerops_context *ctx,
                                       const layerops_bsr_linear_forward_args *a);

/* ---- ops_bsr.c: 16-bit types */

/* Y = epilogue(X W^T), or, turned, epilogue(X W): the gradient of the layer's input with dZ as X. */
typedef struct lo_cuda_bsr_product {
  const layerops_bsr *w;
  bool turned, by_features; /* by_features: rows of X and Y, and what is beside Y, are features */
  layerops_matrix x, y;
  layerops_matrix gate; /* of W's blocks, or absent */
  lo_epilogue epilogue;
  const char *what; /* the operation */
} lo_cuda_bsr_product;
bool lo_cuda_bsr_takes(layerops_context *ctx, const lo_cuda_bsr_product *p);
layerops_status lo_cuda_bsr_run(layerops_context *ctx, const lo_cuda_bsr_product *p);

/* dW = gate G + beta dW where blocks are kept, G = dZ^T X, a matrix as the values are, of X's type
 * or f32; dgate = sum of G W over each block + beta dgate. */
typedef struct lo_cuda_bsr_gradient {
  const layerops_bsr *w;
  bool by_features;
  layerops_matrix dz, x;
  layerops_matrix dw, gate, dgate; /* each may be absent */
  layerops_scalar beta;
  const char *what;
} lo_cuda_bsr_gradient;
bool lo_cuda_bsr_wgrad_takes(layerops_context *ctx, const lo_cuda_bsr_gradient *g);
layerops_status lo_cuda_bsr_wgrad(layerops_context *ctx, const lo_cuda_bsr_gradient *g);

/* ---- ops_bsr_ring.c: the same for activations of 16 bits, by features too, with gates, and with
 * weights of 8-bit integers; products with samples by row only where blocks have such factors. */
bool lo_cuda_bsr_ring_takes(layerops_context *ctx, const lo_cuda_bsr_product *p);
layerops_status lo_cuda_bsr_ring_run(layerops_context *ctx, const lo_cuda_bsr_product *p);
bool lo_cuda_bsr_ring_wgrad_takes(layerops_context *ctx, const lo_cuda_bsr_gradient *g);
layerops_status lo_cuda_bsr_ring_wgrad(layerops_context *ctx, const lo_cuda_bsr_gradient *g);

#endif

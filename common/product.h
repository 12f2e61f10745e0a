/* The one product that gemm, linear_forward and linear_backward all are:
 *
 *   acc = op(A) op(B)                      op(A) [m,k], op(B) [k,n]
 *   z   = alpha * acc + beta * C + bias    (bias over the columns)
 *   preact = z
 *   y   = act(z) * act2'(saved)            (act2 = derivative; 1 where IDENTITY)
 *   C   = y + residual
 *   row_sum[i] = sum_k op(A)[i,k] + beta * row_sum[i]
 *
 * Operands of 8 bits: acc = scale_a[i] scale_b[j] (sum_k (op(A)[i,k] - zero_a[i]) op(B)[k,j]), and
 * an 8-bit C is divided by scale_c. Each of these is absent, a vector of 1, or of all: scale_a only
 * where A is of 8 bits, zero_a where it is of integers, scale_b where B is of 8 bits. A and B may
 * be of two types: u8 and i8, the two 8-bit floats, or 16 bits and 8 (i8 or a float).
 *
 * C may be absent where row_sum is present: then only that sum is wanted (B may be absent too).
 *
 * A backend has main loops for op(A) op(B) and one epilogue for the rest. Lowering stands here
 * once; the reference does not use it, so that a fault here shows. */
#ifndef LO_PRODUCT_H
#define LO_PRODUCT_H

#include "common/context.h"

typedef struct lo_epilogue {
  layerops_scalar alpha, beta;
  layerops_matrix bias, preact, residual; /* absent or present */
  layerops_matrix saved;                  /* absent where derivative is IDENTITY */
  layerops_activation activation, derivative;
  float slope, derivative_slope;
} lo_epilogue;

typedef struct lo_product {
  layerops_matrix a, b, c;
  const layerops_weights *packed; /* B, whose view then has no memory; NULL: not packed */
  int trans_a, trans_b;
  int64_t m, n, k, batch;
  uint32_t flags;
  layerops_matrix row_sum; /* absent or a vector [m] */
  layerops_matrix scale_a, scale_b, zero_a, scale_c;
  lo_epilogue epilogue;
} lo_product;

void lo_product_gemm(const layerops_gemm_args *args, lo_product *p);
void lo_product_linear(const layerops_linear_forward_args *args, lo_product *p);
/* dX = dZ W and dW = dZ^T X (with dbias as its row sum where both are wanted), given dZ. */
void lo_product_dgrad(const layerops_linear_backward_args *args, const layerops_matrix *dz,
                      lo_product *p);
void lo_product_wgrad(const layerops_linear_backward_args *args, const layerops_matrix *dz,
                      lo_product *p);
/* The epilogue of the block-sparse linear layer. */
void lo_epilogue_bsr(const layerops_bsr_linear_forward_args *args, lo_epilogue *e);

#endif

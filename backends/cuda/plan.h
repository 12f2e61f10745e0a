/* Which kernel runs a product, with which tile and in how many parts of k. */
#ifndef LO_CUDA_PLAN_H
#define LO_CUDA_PLAN_H

#include "backends/cuda/cuda.h"
#include "common/product.h"

typedef struct lo_cuda_plan {
  int tile; /* of LO_CU_TILES */
  int bm, bn;
  int split;
  int64_t slice;
  int64_t partial_bytes, bytes; /* scratch memory: of the partial products; in all */
} lo_cuda_plan;

/* Chooses, sets ctx->kernel, and says how much scratch memory the run needs. */
layerops_status lo_cuda_plan_product(layerops_context *ctx, const lo_product *p,
                                     lo_cuda_plan *plan);

#endif

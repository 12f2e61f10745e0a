/* Which kernel runs a product, with which tile and in how many parts of k. */
#ifndef LO_CUDA_PLAN_H
#define LO_CUDA_PLAN_H

#include "backends/cuda/cuda.h"
#include "common/product.h"

typedef struct lo_cuda_plan {
  int mma;     /* -1: ordinary cores; else the instruction, as lo_cu_run_gemm_mma takes it */
  int tile;    /* of LO_CU_TILES or LO_CU_MMA_TILES, or LO_CU_DOT */
  int bm, bn;  /* of LO_CU_DOT: the dimension that is short has the other one's worth */
  int swapped; /* LO_CU_DOT: the long operand is A */
  int split;
  int64_t slice;
  int64_t partial_bytes, bytes; /* scratch memory: of the partial products; in all */
} lo_cuda_plan;

/* Chooses, sets ctx->kernel, and says how much scratch memory the run needs. */
layerops_status lo_cuda_plan_product(layerops_context *ctx, const lo_product *p,
                                     lo_cuda_plan *plan);

#endif

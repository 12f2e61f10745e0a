/* Block-sparse weights made on the device: what the kernels of bsr_make.cu take. */
#ifndef LO_CUDA_BSR_MAKE_H
#define LO_CUDA_BSR_MAKE_H

#include "backends/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lo_cu_bsr_verdict {
  int fault, longest_row, longest_col;
} lo_cu_bsr_verdict;

typedef struct lo_cu_bsr_index {
  const int *row_start, *column;
  int *col_start, *row, *place; /* col_start: zeros before */
  int *dealt, *next;            /* of each block; of each column, zeros before */
  lo_cu_bsr_verdict *verdict;   /* zeros before */
  int block_rows, block_cols, count;
} lo_cu_bsr_index;

enum { LO_CU_BSR_CHECK, LO_CU_BSR_SUM, LO_CU_BSR_DEAL, LO_CU_BSR_ORDER };
int lo_cu_run_bsr_index(int which, const lo_cu_bsr_index *p, lo_cu_grid grid, void *stream);

enum { LO_CU_BSR_L1, LO_CU_BSR_L2, LO_CU_BSR_MAX }; /* LAYEROPS_BSR_ */
typedef struct lo_cu_bsr_dense {
  lo_cu_view dense, values;
  const int *row_start, *column;
  float *scales;  /* of i8, else NULL */
  double *scores; /* of each block of W, kept or not */
  lo_i64 count;
  int block_rows, height, width, score; /* score: LO_CU_BSR_L1, ... */
} lo_cu_bsr_dense;

enum { LO_CU_BSR_SCORES, LO_CU_BSR_GATHER, LO_CU_BSR_QUANTISE, LO_CU_BSR_SCATTER, LO_CU_BSR_CLEAR };
int lo_cu_run_bsr_dense(int which, const lo_cu_bsr_dense *p, lo_cu_grid grid, void *stream);

#ifdef __cplusplus
}
#endif

#endif

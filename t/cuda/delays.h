/* The kernels of delays.cu. Functions return the CUDA runtime's error number. */
#ifndef T_CUDA_DELAYS_H
#define T_CUDA_DELAYS_H

#include "backends/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct late_kernel {
  const char *name;
  const void *function;
  unsigned threads, shared;
  int boxed;            /* its argument: lo_cu_boxed_gemm, or lo_cu_gemm */
  int cluster;          /* blocks below each other */
  int bm, bn, bk;       /* of a block */
  int parts;            /* of k to be tried beside 1; 0: none */
  int type;             /* of op(A), op(B) and C: LO_TYPE_ */
  int trans_a, trans_b; /* trans_a: with sums by row */
} late_kernel;
extern const late_kernel late_kernels[];
extern const int late_kernel_count;

/* From now on warps come late, otherwise for another seed; 0: none does. */
int late_seed(unsigned seed);

/* Words that should be the same. */
typedef struct late_pair {
  const unsigned *is, *wanted;
  lo_i64 words;
} late_pair;
enum { LATE_PAIRS = 8 };
typedef struct late_comparison {
  late_pair pairs[LATE_PAIRS];
  int count, round;
  lo_u64 *differing; /* and the first round that has any */
} late_comparison;
int late_compare(const late_comparison *p, void *stream);

#ifdef __cplusplus
}
#endif
#endif

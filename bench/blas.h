#ifndef BENCH_BLAS_H
#define BENCH_BLAS_H

/* What a BLAS does for bench: the products of layers (bench/peers/blas.c) and of training
   (bench/train.c). All matrices are row-major. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_blas {
  void (*choose)(void); /* what must be set before the first call, or NULL */
  void (*set_threads)(int threads);
  /* C[m,n] = op(A) op(B) */
  void (*sgemm)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float *a,
                int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc);
  /* y[rows] = A[rows,cols] x[cols] */
  void (*sgemv)(int64_t rows, int64_t cols, const float *a, const float *x, float *y);
  /* "openblas-0.3.21[SKYLAKEX]" */
  void (*label)(char *label, size_t size);

  /* Weights packed once; NULL where the library has no way. Y[m,n] = X[m,k] W[n,k]^T */
  size_t (*packed_size)(int64_t m, int64_t n, int64_t k); /* bytes */
  void (*pack)(int64_t m, int64_t n, int64_t k, const float *w, void *packed);
  void (*sgemm_packed)(int64_t m, int64_t n, int64_t k, const float *x, const void *packed,
                       float *y);
};

#endif

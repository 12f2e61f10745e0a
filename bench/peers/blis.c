/* BLIS. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>

#include "bench/peers/blas.h"
#include "bench/peers/blis_quiet.h"

/* Its arguments are not const, though it only reads them. */
static float *mutable(const float *p) {
  return (float *)(uintptr_t)p;
}

static void multiply(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                     const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                     int64_t ldc) {
  float one = 1, zero = 0;
  bli_sgemm(transpose_a ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE,
            transpose_b ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE, m, n, k, &one, mutable(a), lda, 1,
            mutable(b), ldb, 1, &zero, c, ldc, 1);
}

static void multiply_vector(int64_t rows, int64_t cols, const float *a, const float *x, float *y) {
  float one = 1, zero = 0;
  bli_sgemv(BLIS_NO_TRANSPOSE, BLIS_NO_CONJUGATE, rows, cols, &one, mutable(a), cols, 1, mutable(x),
            1, &zero, y, 1);
}

/* BLIS knows its own processors only and falls back to plain C on the others: tell it, before its
   first call, which of its kernels this one can run. */
static void choose(void) {
#if defined __x86_64__
  char skx[16];
  snprintf(skx, sizeof skx, "%d", (int)BLIS_ARCH_SKX);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    setenv("BLIS_ARCH_TYPE", skx, 0);
#endif
  bli_init(); /* the label is asked for before the first call */
}

static void set_threads(int threads) {
  bli_thread_set_num_threads(threads);
}

static void label(char *text, size_t size) {
  snprintf(text, size, "blis-%s[%s]", bli_info_get_version_str(),
           bli_arch_string(bli_arch_query_id()));
}

static const struct bench_blas blas = {.choose = choose,
                                       .set_threads = set_threads,
                                       .sgemm = multiply,
                                       .sgemv = multiply_vector,
                                       .label = label};
BENCH_BLAS_PEER("blis", BENCH_PLAIN, blas);

/* OpenBLAS. The tool sets OPENBLAS_CORETYPE before it loads this module: the library reads it while
   it is loaded. */
#include <config.h>

#include <cblas.h>
#include <stdio.h>

#include "bench/peers/blas.h"

static void multiply(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                     const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                     int64_t ldc) {
  cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
              transpose_b ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1, a,
              (blasint)lda, b, (blasint)ldb, 0, c, (blasint)ldc);
}

static void multiply_vector(int64_t rows, int64_t cols, const float *a, const float *x, float *y) {
  cblas_sgemv(CblasRowMajor, CblasNoTrans, (blasint)rows, (blasint)cols, 1, a, (blasint)cols, x, 1,
              0, y, 1);
}

/* "OpenBLAS 0.3.21 ..." of openblas_get_config */
static void label(char *text, size_t size) {
  char version[32] = "?";
  sscanf(openblas_get_config(), "OpenBLAS %31s", version);
  snprintf(text, size, "openblas-%s%s[%s]", version,
           openblas_get_parallel() == OPENBLAS_OPENMP ? "-openmp" : "", openblas_get_corename());
}

static const struct bench_blas blas = {.set_threads = openblas_set_num_threads,
                                       .sgemm = multiply,
                                       .sgemv = multiply_vector,
                                       .label = label};
BENCH_BLAS_PEER("openblas", BENCH_PLAIN, blas);

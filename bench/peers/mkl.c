/* Intel MKL on GNU OpenMP, as the other peers. */
#include <config.h>

#include <mkl.h>
#include <stdio.h>

#include "bench/peers/blas.h"

static void multiply(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                     const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                     int64_t ldc) {
  cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
              transpose_b ? CblasTrans : CblasNoTrans, (MKL_INT)m, (MKL_INT)n, (MKL_INT)k, 1, a,
              (MKL_INT)lda, b, (MKL_INT)ldb, 0, c, (MKL_INT)ldc);
}

static void multiply_vector(int64_t rows, int64_t cols, const float *a, const float *x, float *y) {
  cblas_sgemv(CblasRowMajor, CblasNoTrans, (MKL_INT)rows, (MKL_INT)cols, 1, a, (MKL_INT)cols, x, 1,
              0, y, 1);
}

static size_t packed_size(int64_t m, int64_t n, int64_t k) {
  return cblas_sgemm_pack_get_size(CblasBMatrix, (MKL_INT)m, (MKL_INT)n, (MKL_INT)k);
}

static void pack(int64_t m, int64_t n, int64_t k, const float *w, void *packed) {
  cblas_sgemm_pack(CblasRowMajor, CblasBMatrix, CblasTrans, (MKL_INT)m, (MKL_INT)n, (MKL_INT)k, 1,
                   w, (MKL_INT)k, packed);
}

static void multiply_packed(int64_t m, int64_t n, int64_t k, const float *x, const void *packed,
                            float *y) {
  cblas_sgemm_compute(CblasRowMajor, CblasNoTrans, CblasPacked, (MKL_INT)m, (MKL_INT)n, (MKL_INT)k,
                      x, (MKL_INT)k, packed, (MKL_INT)k, 0, y, (MKL_INT)n);
}

static void choose(void) {
  mkl_set_interface_layer(MKL_INTERFACE_LP64);
  mkl_set_threading_layer(MKL_THREADING_GNU);
}

static void set_threads(int threads) {
  mkl_set_num_threads(threads);
}

static void label(char *text, size_t size) {
  MKLVersion version;
  mkl_get_version(&version);
  snprintf(text, size, "mkl-%d.%d", version.MajorVersion, version.MinorVersion);
}

static const struct bench_blas blas = {.choose = choose,
                                       .set_threads = set_threads,
                                       .sgemm = multiply,
                                       .sgemv = multiply_vector,
                                       .label = label,
                                       .packed_size = packed_size,
                                       .pack = pack,
                                       .sgemm_packed = multiply_packed};
BENCH_BLAS_PEER("mkl", BENCH_PLAIN | BENCH_PACKED, blas);

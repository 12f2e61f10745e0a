/* Compiled with -ffast-math, with which gcc takes exp, tanh and erf from libmvec: a peer's bias and
   activation pass is as fast as its users could make it. */
#include <config.h>

#include <math.h>

#include "bench/peers/common.h"

enum { NONE, RELU, LEAKY_RELU, GELU, GELU_TANH, SILU, SIGMOID, TANH };

#if defined __x86_64__ && defined __GLIBC__
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

#define ROW(EXPRESSION)                                                                            \
  _Pragma("omp simd") for (int64_t j = 0; j < n; j++) {                                            \
    float z = y[j] + (bias ? bias[j] : 0);                                                         \
    y[j] = EXPRESSION;                                                                             \
  }                                                                                                \
  break

CLONES static void epilogue_row(float *restrict y, int64_t n, const float *restrict bias,
                                int activation) {
  switch (activation) {
  case NONE:
    ROW(z);
  case RELU:
    ROW(z < 0 ? 0 : z);
  case LEAKY_RELU:
    ROW(z < 0 ? 0.01f * z : z);
  case GELU:
    ROW(0.5f * z * (1 + erff(z * 0.70710678f)));
  case GELU_TANH:
    ROW(0.5f * z * (1 + tanhf(0.79788456f * (z + 0.044715f * z * z * z))));
  case SILU:
    ROW(z / (1 + expf(-z)));
  case SIGMOID:
    ROW(1 / (1 + expf(-z)));
  case TANH:
    ROW(tanhf(z));
  }
}

void bench_epilogue(float *y, int64_t rows, int64_t n, int64_t stride, const float *bias,
                    int activation) {
  if (!bias && activation == NONE) return;
  for (int64_t i = 0; i < rows; i++) epilogue_row(y + i * stride, n, bias, activation);
}

void bench_epilogue_parallel(float *y, int64_t rows, int64_t n, const float *bias, int activation,
                             int threads) {
  if (!bias && activation == NONE) return;
  if (threads == 1 || rows < threads || rows * n < 8192) {
    bench_epilogue(y, rows, n, n, bias, activation);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < rows; i++) epilogue_row(y + i * n, n, bias, activation);
}

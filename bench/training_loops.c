/* Compiled with -ffast-math and for the widest vectors of the processor, as bench/peers/epilogue.c:
   the loops beside a BLAS are as fast as its users could make them. */
#include <config.h>

#include <math.h>
#include <string.h>

#include "bench/training.h"

#define PAYS 32768 /* elements: below, starting the threads costs more than they save */

#if defined __x86_64__ && defined __GLIBC__
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

CLONES static float loss_row(float *restrict z, const float *restrict bias, int32_t label,
                             float scale) {
  float e[BENCH_OUTPUTS], most = -INFINITY, sum = 0;
  for (int j = 0; j < BENCH_OUTPUTS; j++) {
    z[j] += bias[j];
    most = z[j] > most ? z[j] : most;
  }
  float chosen = z[label] - most;
#pragma omp simd reduction(+ : sum)
  for (int j = 0; j < BENCH_OUTPUTS; j++) sum += e[j] = expf(z[j] - most);
  for (int j = 0; j < BENCH_OUTPUTS; j++) z[j] = scale * e[j] / sum;
  z[label] -= scale;
  return logf(sum) - chosen;
}

double bench_loss(float *z, const float *bias, const int32_t *labels, int64_t rows, int threads) {
  double sum = 0;
  (void)threads; /* without OpenMP */
#pragma omp parallel for num_threads(threads) reduction(+ : sum) if (rows * 64 >= PAYS)
  for (int64_t i = 0; i < rows; i++)
    sum += (double)loss_row(z + i * BENCH_OUTPUTS, bias, labels[i], 1 / (float)rows);
  return sum;
}

CLONES static void relu_backward(float *restrict dy, const float *restrict y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) dy[i] = y[i] > 0 ? dy[i] : 0;
}

CLONES static void sgd(float *restrict w, const float *restrict g, int64_t count, float lr) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) w[i] -= lr * g[i];
}

CLONES static void column_sums(const float *restrict dy, int64_t rows, int64_t n,
                               float *restrict sums) {
  memset(sums, 0, (size_t)n * sizeof *sums);
  for (int64_t i = 0; i < rows; i++) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) sums[j] += dy[i * n + j];
  }
}

/* Where part T of COUNT elements in PARTS begins. */
static int64_t part(int64_t count, int t, int parts) {
  return count * t / parts;
}

void bench_relu_backward(float *dy, const float *y, int64_t count, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (count >= PAYS)
  for (int t = 0; t < threads; t++) {
    int64_t first = part(count, t, threads), last = part(count, t + 1, threads);
    relu_backward(dy + first, y + first, last - first);
  }
}

void bench_sgd(float *w, const float *g, int64_t count, float lr, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (count >= PAYS)
  for (int t = 0; t < threads; t++) {
    int64_t first = part(count, t, threads), last = part(count, t + 1, threads);
    sgd(w + first, g + first, last - first, lr);
  }
}

void bench_column_sums(const float *dy, int64_t rows, int64_t n, float *sums) {
  column_sums(dy, rows, n, sums);
}

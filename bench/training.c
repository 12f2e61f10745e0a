#include <config.h>

#include "bench/training.h"

#include <stdlib.h>
#include <string.h>

#include "bench/operands.h"
#include "bench/peers/common.h"

enum { RELU = 1 }; /* in bench_activations */

/* ---- data ---- */

static int32_t teach(const float *x, const float *teacher) {
  int32_t best = 0;
  float most = 0;
  for (int32_t j = 0; j < BENCH_OUTPUTS; j++) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int l = 0; l < BENCH_INPUTS; l++) sum += x[l] * teacher[j * BENCH_INPUTS + l];
    if (j && sum <= most) continue;
    most = sum;
    best = j;
  }
  return best;
}

/* Uniform in [-0.5,0.5), drawn by their index so that threads can share the work. */
static float uniform(uint64_t seed, int64_t index) {
  uint64_t state = seed + (uint64_t)index * UINT64_C(0xd1342543de82ef95);
  return (float)(bench_splitmix64(&state) >> 40) * 0x1p-24f - 0.5f;
}

bool bench_samples_make(uint64_t seed, struct bench_samples *s) {
  float teacher[BENCH_OUTPUTS * BENCH_INPUTS];
  bench_normal(bench_types, teacher, BENCH_OUTPUTS * BENCH_INPUTS, 1, seed, 1);
  s->x = aligned_alloc(64, sizeof(float) * BENCH_SAMPLES * BENCH_INPUTS);
  s->labels = malloc(sizeof *s->labels * BENCH_SAMPLES);
  if (!s->x || !s->labels) {
    bench_samples_free(s);
    return false;
  }
#pragma omp parallel for
  for (int64_t i = 0; i < BENCH_SAMPLES; i++) {
    float *x = s->x + i * BENCH_INPUTS;
    for (int64_t l = 0; l < BENCH_INPUTS; l++) x[l] = uniform(seed, i * BENCH_INPUTS + l);
    s->labels[i] = teach(x, teacher);
  }
  return true;
}

void bench_samples_free(struct bench_samples *s) {
  free(s->x);
  free(s->labels);
  *s = (struct bench_samples){0};
}

/* ---- an epoch ---- */

static float *floats(int64_t count) {
  return aligned_alloc(64, ((size_t)count * sizeof(float) + 63) / 64 * 64);
}

bool bench_trainer_make(struct bench_trainer *t, const struct bench_blas *blas,
                        const struct bench_samples *samples, int64_t batch, int threads) {
  *t = (struct bench_trainer){.blas = blas, .samples = samples, .threads = threads, .batch = batch};
  if (blas->choose) blas->choose();
  t->parameters = floats(BENCH_PARAMETERS);
  t->gradients = floats(BENCH_PARAMETERS);
  t->h = floats(batch * BENCH_HIDDEN);
  t->dh = floats(batch * BENCH_HIDDEN);
  t->z = floats(batch * BENCH_OUTPUTS);
  return t->parameters && t->gradients && t->h && t->dh && t->z;
}

void bench_trainer_free(struct bench_trainer *t) {
  float *arrays[] = {t->parameters, t->gradients, t->h, t->dh, t->z};
  for (int i = 0; i < 5; i++) free(arrays[i]);
  *t = (struct bench_trainer){0};
}

static double step(const struct bench_trainer *t, int64_t first, int64_t rows) {
  const struct bench_blas *blas = t->blas;
  const float *x = t->samples->x + first * BENCH_INPUTS, *w2 = t->parameters + BENCH_W2;
  float *g = t->gradients;
  enum { IN = BENCH_INPUTS, HIDDEN = BENCH_HIDDEN, OUT = BENCH_OUTPUTS };
  blas->sgemm(false, true, rows, HIDDEN, IN, x, IN, t->parameters + BENCH_W1, IN, t->h, HIDDEN);
  bench_epilogue_parallel(t->h, rows, HIDDEN, t->parameters + BENCH_B1, RELU, t->threads);
  blas->sgemm(false, true, rows, OUT, HIDDEN, t->h, HIDDEN, w2, HIDDEN, t->z, OUT);
  double loss =
      bench_loss(t->z, t->parameters + BENCH_B2, t->samples->labels + first, rows, t->threads);
  blas->sgemm(true, false, OUT, HIDDEN, rows, t->z, OUT, t->h, HIDDEN, g + BENCH_W2, HIDDEN);
  bench_column_sums(t->z, rows, OUT, g + BENCH_B2);
  blas->sgemm(false, false, rows, HIDDEN, OUT, t->z, OUT, w2, HIDDEN, t->dh, HIDDEN);
  bench_relu_backward(t->dh, t->h, rows * HIDDEN, t->threads);
  blas->sgemm(true, false, HIDDEN, IN, rows, t->dh, HIDDEN, x, IN, g + BENCH_W1, IN);
  bench_column_sums(t->dh, rows, HIDDEN, g + BENCH_B1);
  bench_sgd(t->parameters, g, BENCH_PARAMETERS, bench_training_rate(t->batch), t->threads);
  return loss;
}

bool bench_trainer_run(void *trainer, int64_t epochs) {
  struct bench_trainer *t = trainer;
  t->blas->set_threads(t->threads);
  for (int64_t epoch = 0; epoch < epochs; epoch++) {
    double loss = 0;
    for (int64_t first = 0; first < BENCH_SAMPLES; first += t->batch) {
      int64_t left = BENCH_SAMPLES - first;
      loss += step(t, first, left < t->batch ? left : t->batch);
    }
    t->loss = loss / BENCH_SAMPLES;
  }
  return true;
}

#ifndef BENCH_TRAINING_H
#define BENCH_TRAINING_H

/* One epoch of a shallow network, 784-128-10, ReLU, softmax cross-entropy, SGD: by a BLAS and the
   loops that its users write around it, with which bench compares the network of the library. */

#include <stdbool.h>
#include <stdint.h>

#include "bench/blas.h"

#define BENCH_INPUTS  784
#define BENCH_HIDDEN  128
#define BENCH_OUTPUTS 10
#define BENCH_SAMPLES 60000

/* The learning rate: 0.1, and below a batch of 64 less in proportion, so that training stays stable
   and rounding small. */
static inline float bench_training_rate(int64_t batch) {
  return batch < 64 ? 0.1f / 64 * (float)batch : 0.1f;
}

/* Samples in [-0.5,0.5) and the labels of a linear teacher, so that there is something to learn. */
struct bench_samples {
  float *x;        /* [BENCH_SAMPLES, BENCH_INPUTS] */
  int32_t *labels; /* [BENCH_SAMPLES] */
};

/* False when memory is short. */
bool bench_samples_make(uint64_t seed, struct bench_samples *samples);
void bench_samples_free(struct bench_samples *samples);

/* The parameters of the network in one array: the weights [out, in] of a layer, then its biases. */
enum {
  BENCH_W1 = 0,
  BENCH_B1 = BENCH_W1 + BENCH_HIDDEN * BENCH_INPUTS,
  BENCH_W2 = BENCH_B1 + BENCH_HIDDEN,
  BENCH_B2 = BENCH_W2 + BENCH_OUTPUTS * BENCH_HIDDEN,
  BENCH_PARAMETERS = BENCH_B2 + BENCH_OUTPUTS
};

struct bench_trainer {
  const struct bench_blas *blas;
  const struct bench_samples *samples;
  int threads;
  int64_t batch;
  float *parameters, *gradients; /* BENCH_PARAMETERS each */
  float *h, *dh, *z;             /* of a batch; z becomes its own gradient */
  double loss;                   /* the mean over the last epoch */
};

/* False when memory is short; free it in either case. */
bool bench_trainer_make(struct bench_trainer *trainer, const struct bench_blas *blas,
                        const struct bench_samples *samples, int64_t batch, int threads);
void bench_trainer_free(struct bench_trainer *trainer);

bool bench_trainer_run(void *trainer, int64_t epochs); /* for struct bench_contender */

/* ---- the loops (bench/training_loops.c), each on so many threads where that pays ---- */

/* z[rows, BENCH_OUTPUTS] holds outputs before the bias; it receives the gradient of the mean loss.
   The answer is the sum of the losses. */
double bench_loss(float *z, const float *bias, const int32_t *labels, int64_t rows, int threads);

/* dy = 0 where y is not above 0. */
void bench_relu_backward(float *dy, const float *y, int64_t count, int threads);

/* sums[n] = sum over the rows of dy[rows,n] */
void bench_column_sums(const float *dy, int64_t rows, int64_t n, float *sums);

/* w -= lr g */
void bench_sgd(float *w, const float *g, int64_t count, float lr, int threads);

#endif

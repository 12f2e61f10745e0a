/* Philox, the permutation and the initial weights. */
#include <config.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "network/initialise.h"
#include "network/permutation.h"
#include "common/philox.h"
#include "t/npy.h"
#include "t/tap.h"

/* Random123 1.14, tests/kat_vectors, the lines "philox4x32 10": counter, key, result. */
static const uint32_t known[3][10] = {
    {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
    {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e,
     0xa20bc7c6, 0x6d5451fd},
    {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb,
     0x5001e420, 0x24126ea1},
};

static void philox_is_random123s(void) {
  for (int i = 0; i < 3; i++) {
    const uint32_t *k = known[i];
    uint32_t out[4];
    lo_philox(k[4] | (uint64_t)k[5] << 32, k[3], k[2], k[0] | (uint64_t)k[1] << 32, out);
    ok(!memcmp(out, k + 6, sizeof out), "philox4x32-10, known answer %d", i);
  }
}

static int is_bijection(uint64_t n, uint64_t seed, uint64_t epoch) {
  unsigned char *seen = calloc(n + 1, 1);
  lo_permutation p;
  int good = 1;
  lo_permutation_init(&p, n, seed, epoch);
  for (uint64_t i = 0; i < n && good; i++) {
    uint64_t at = lo_permutation_at(&p, i);
    good = at < n && !seen[at];
    if (good) seen[at] = 1;
  }
  free(seen);
  return good;
}

static void permutation_is_a_bijection(void) {
  int good = 1;
  for (uint64_t n = 0; n <= 1100 && good; n++)
    for (uint64_t key = 0; key < 5 && good; key++) {
      good = is_bijection(n, key * UINT64_C(0x9e3779b97f4a7c15), key);
      if (!good) diag("n = %llu, key %llu", (unsigned long long)n, (unsigned long long)key);
    }
  ok(good, "a bijection of [0, n) for n = 0 to 1100 under five keys");
  static const uint64_t sizes[] = {4096, 4097, 5000, 60000, 65535, 65536, 65537, 1000003};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    ok(is_bijection(sizes[i], 1, i), "a bijection for n = %llu", (unsigned long long)sizes[i]);
}

/* Too many to try all: distinct neighbours stay distinct and inside. */
static void permutation_reaches_64_bits(void) {
  static const uint64_t sizes[] = {UINT64_C(1) << 32, (UINT64_C(1) << 33) + 1, INT64_MAX,
                                   UINT64_MAX};
  for (size_t s = 0; s < 4; s++) {
    lo_permutation p;
    uint64_t high = 0, out[512];
    int good = 1;
    lo_permutation_init(&p, sizes[s], 7, 0);
    for (uint64_t i = 0; i < 512; i++) {
      out[i] = lo_permutation_at(&p, sizes[s] - 512 + i);
      high |= out[i];
      good = good && out[i] < sizes[s];
      for (uint64_t j = 0; j < i; j++) good = good && out[i] != out[j];
    }
    ok(good && high > sizes[s] / 2, "n = %llu: inside, distinct, spread",
       (unsigned long long)sizes[s]);
  }
}

/* t/pytorch/philox.py is a second implementation, in NumPy. */
static void permutation_is_numpys(void) {
  npy want = npy_load("train_order");
  const int32_t *order = npy_i32(&want);
  int good = order && want.shape[0] == 2;
  for (int64_t epoch = 0; good && epoch < 2; epoch++) {
    lo_permutation p;
    lo_permutation_init(&p, (uint64_t)want.shape[1], 1, (uint64_t)epoch);
    for (int64_t i = 0; i < want.shape[1]; i++)
      good =
          good && (int64_t)lo_permutation_at(&p, (uint64_t)i) == order[epoch * want.shape[1] + i];
  }
  ok(good, "n = %lld, seed 1, epochs 0 and 1: the order that NumPy computed",
     (long long)want.shape[1]);
  npy_free(&want);
}

static void permutation_depends_on_the_epoch(void) {
  uint64_t same = 0;
  lo_permutation p, other;
  lo_permutation_init(&p, 60000, 1, 0);
  lo_permutation_init(&other, 60000, 1, 1);
  for (uint64_t i = 0; i < 60000; i++)
    same += lo_permutation_at(&p, i) == lo_permutation_at(&other, i);
  ok(same < 12, "another epoch, another order: %llu indices agree, 1 is expected",
     (unsigned long long)same);
}

/* All 120 orders of five are equally likely over the epochs: chi-square with 119 degrees of freedom
 * exceeds 200 with probability 5e-6, and the keys are fixed, so this cannot flicker. */
static void permutation_is_uniform(void) {
  enum { EPOCHS = 24000 };
  int count[3125] = {0};
  for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
    lo_permutation p;
    int code = 0;
    lo_permutation_init(&p, 5, 42, epoch);
    for (uint64_t i = 0; i < 5; i++) code = code * 5 + (int)lo_permutation_at(&p, i);
    count[code]++;
  }
  double chi = 0;
  int orders = 0;
  for (int i = 0; i < 3125; i++) {
    if (!count[i]) continue;
    orders++;
    chi += (count[i] - EPOCHS / 120.) * (count[i] - EPOCHS / 120.) / (EPOCHS / 120.);
  }
  ok(orders == 120 && chi < 200, "orders of five: %d seen, chi-square %.1f", orders, chi);
}

/* Where an index lands says nothing of where it was: correlation and neighbours, n = 60000. */
static void permutation_mixes(void) {
  enum { N = 60000 };
  double products = 0, steps = 0;
  lo_permutation p;
  lo_permutation_init(&p, N, 3, 9);
  for (uint64_t i = 0; i < N; i++) {
    double at = (double)lo_permutation_at(&p, i);
    products += (at - (N - 1) / 2.) * ((double)i - (N - 1) / 2.);
    steps += i + 1 < N && (uint64_t)at + 1 == lo_permutation_at(&p, i + 1);
  }
  double correlation = products / ((double)N * N * N / 12);
  ok(fabs(correlation) < 5 / sqrt(N), "correlation of index and place %.4f", correlation);
  ok(steps < 8, "neighbours that stay neighbours: %.0f, 1 is expected", steps);
}

/* Rows first, middle and last of a layer's weight [outputs, inputs], and its bias. */
static void weights_are_numpys(int layer, int64_t inputs, int64_t outputs) {
  char name[64];
  float *made = malloc((size_t)inputs * sizeof *made), bias[128];
  const int64_t rows[3] = {0, outputs / 2, outputs - 1};
  snprintf(name, sizeof name, "train_weight%d_rows", layer);
  npy want = npy_load(name);
  int good = npy_f32(&want) && want.count == 3 * inputs;
  for (int64_t i = 0; good && i < 3; i++) {
    lo_initialise_uniform(made, rows[i] * inputs, inputs, 1, (uint32_t)(2 * layer),
                          lo_linear_bound(inputs));
    good = !memcmp(made, npy_f32(&want) + i * inputs, (size_t)inputs * sizeof *made);
  }
  ok(good, "layer %d: weights have the bits that NumPy computed", layer);
  npy_free(&want);
  free(made);
  snprintf(name, sizeof name, "train_bias%d", layer);
  want = npy_load(name);
  lo_initialise_uniform(bias, 0, outputs, 1, (uint32_t)(2 * layer + 1), lo_linear_bound(inputs));
  ok(npy_f32(&want) && want.count == outputs &&
         !memcmp(bias, npy_f32(&want), (size_t)outputs * sizeof *bias),
     "layer %d: biases have the bits that NumPy computed", layer);
  npy_free(&want);
}

static void bounds(void) {
  ok(lo_linear_bound(784) == 1.f / 28 && lo_linear_bound(1) == 1 && lo_linear_bound(0) == 0,
     "bounds of 784, 1 and 0 inputs");
}

static void weights_stand_alone(void) {
  enum { N = 1003 };
  static float whole[2][N], part[N];
  int good = 1;
  lo_initialise_uniform(whole[0], 0, N, 5, 3, 0.25f);
  lo_initialise_normal(whole[1], 0, N, 5, 3, 0.25f);
  for (int64_t first = 0; first < 9; first++)
    for (int64_t count = 0; count < 9; count++) {
      lo_initialise_uniform(part, first, count, 5, 3, 0.25f);
      good = good && !memcmp(part, whole[0] + first, (size_t)count * sizeof *part);
      lo_initialise_normal(part, first, count, 5, 3, 0.25f);
      good = good && !memcmp(part, whole[1] + first, (size_t)count * sizeof *part);
    }
  ok(good, "any part made alone is the part of the whole");
  lo_initialise_uniform(part, 0, N, 5, 4, 0.25f);
  ok(memcmp(part, whole[0], sizeof part) != 0, "another tensor, other values");
  lo_initialise_uniform(part, 0, N, 6, 3, 0.25f);
  ok(memcmp(part, whole[0], sizeof part) != 0, "another seed, other values");
}

/* Moments within five standard errors, keys fixed. */
static void weights_are_distributed(void) {
  enum { N = 200000 };
  float *x = malloc(N * sizeof *x);
  double sum[2] = {0}, squares[2] = {0}, most = 0;
  for (int kind = 0; kind < 2; kind++) {
    (kind ? lo_initialise_normal : lo_initialise_uniform)(x, 0, N, 11, 0, 2);
    for (int i = 0; i < N; i++) {
      sum[kind] += x[i];
      squares[kind] += (double)x[i] * x[i];
      if (!kind && fabsf(x[i]) > most) most = fabsf(x[i]);
    }
  }
  free(x);
  ok(most <= 2 && most > 1.999, "uniform: the largest of %d is %.6f of 2", N, most);
  ok(fabs(sum[0] / N) < 5 * sqrt(4. / 3 / N), "uniform: mean %.5f", sum[0] / N);
  ok(fabs(squares[0] / N - 4. / 3) < 5 * sqrt(16 * (1. / 5 - 1. / 9) / N), "uniform: variance %.5f",
     squares[0] / N);
  ok(fabs(sum[1] / N) < 5 * sqrt(4. / N), "normal: mean %.5f", sum[1] / N);
  ok(fabs(squares[1] / N - 4) < 5 * sqrt(2 * 16. / N), "normal: variance %.5f", squares[1] / N);
}

int main(void) {
  philox_is_random123s();
  permutation_is_a_bijection();
  permutation_reaches_64_bits();
  permutation_is_numpys();
  permutation_depends_on_the_epoch();
  permutation_is_uniform();
  permutation_mixes();
  weights_are_numpys(0, 784, 128);
  weights_are_numpys(1, 128, 10);
  bounds();
  weights_stand_alone();
  weights_are_distributed();
  return done();
}

#include <config.h>

#include <math.h>

#include "network/initialise.h"
#include "common/philox.h"

/* The middle of the word's interval of 2^-23 in (-1, 1): exact in f32, symmetric, never 0. */
static float centred(uint32_t word) {
  return ((float)((int32_t)(word >> 8) - (1 << 23)) + 0.5f) * 0x1p-23f;
}

static void uniform(const uint32_t words[4], float bound, float out[4]) {
  for (int i = 0; i < 4; i++) out[i] = centred(words[i]) * bound;
}

/* Box and Muller: a pair of words gives a pair of normals. */
static void normal(const uint32_t words[4], float deviation, float out[4]) {
  const double tau = 6.283185307179586;
  for (int i = 0; i < 4; i += 2) {
    double radius = sqrt(-2 * log((words[i] + 0.5) * 0x1p-32)) * deviation;
    double angle = tau * ((words[i + 1] + 0.5) * 0x1p-32);
    out[i] = (float)(radius * cos(angle));
    out[i + 1] = (float)(radius * sin(angle));
  }
}

typedef void (*distribution)(const uint32_t words[4], float scale, float out[4]);

static void fill(float *out, int64_t first, int64_t count, uint64_t seed, uint32_t purpose,
                 uint32_t tensor, float scale, distribution make) {
  for (int64_t i = first; i < first + count;) {
    uint32_t words[4];
    float values[4];
    lo_philox(seed, purpose, tensor, (uint64_t)i / 4, words);
    make(words, scale, values);
    do {
      out[i - first] = values[i % 4];
      i++;
    } while (i % 4 && i < first + count);
  }
}

void lo_initialise_uniform(float *out, int64_t first, int64_t count, uint64_t seed, uint32_t tensor,
                           float bound) {
  fill(out, first, count, seed, LO_PHILOX_UNIFORM, tensor, bound, uniform);
}

void lo_initialise_normal(float *out, int64_t first, int64_t count, uint64_t seed, uint32_t tensor,
                          float deviation) {
  fill(out, first, count, seed, LO_PHILOX_NORMAL, tensor, deviation, normal);
}

float lo_linear_bound(int64_t inputs) {
  return inputs > 0 ? (float)(1 / sqrt((double)inputs)) : 0;
}

/* Rows of softmax, losses and sums. A sum over a row runs in LO_LANES lanes by position, so that
 * its bits depend on the row's values alone. */
#include <config.h>

#include <math.h>

#include "backends/cpu/isa/mathematics.h"
#include "backends/cpu/isa/part.h"

void LO_ISA_NAME(lo_add)(const float *restrict x, float *restrict sum, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) sum[j] += x[j];
}

static inline float larger(float a, float b) {
  return b > a ? b : a;
}

float LO_ISA_NAME(lo_maximum)(const float *x, int64_t n) {
  float lanes[LO_LANES];
  for (int l = 0; l < LO_LANES; l++) lanes[l] = -INFINITY;
  int64_t j = 0;
  for (; j + LO_LANES <= n; j += LO_LANES)
    for (int l = 0; l < LO_LANES; l++) lanes[l] = larger(lanes[l], x[j + l]);
  for (int l = 0; j + l < n; l++) lanes[l] = larger(lanes[l], x[j + l]);
  float most = -INFINITY;
  for (int l = 0; l < LO_LANES; l++) most = larger(most, lanes[l]);
  return most;
}

bool LO_ISA_NAME(lo_any_nan)(const float *x, int64_t n) {
  int found = 0;
  for (int64_t j = 0; j < n; j++) found |= x[j] != x[j];
  return found;
}

/* Runs BODY for element j in lane l: whole blocks of lanes, then what is left. */
#define FOR_LANES(n, BODY)                                                                         \
  do {                                                                                             \
    int64_t base_ = 0;                                                                             \
    for (; base_ + LO_LANES <= (n); base_ += LO_LANES)                                             \
      for (int l = 0; l < LO_LANES; l++) {                                                         \
        const int64_t j = base_ + l;                                                               \
        BODY;                                                                                      \
      }                                                                                            \
    for (int l = 0; base_ + l < (n); l++) {                                                        \
      const int64_t j = base_ + l;                                                                 \
      BODY;                                                                                        \
    }                                                                                              \
  } while (0)

void LO_ISA_NAME(lo_exp_sum)(const float *x, float shift, float *y, float *lanes, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) y[j] = lo_exp(x[j] - shift);
  float sums[LO_LANES];
  memcpy(sums, lanes, sizeof sums);
  FOR_LANES(n, sums[l] += y[j]);
  memcpy(lanes, sums, sizeof sums);
}

void LO_ISA_NAME(lo_scale)(const float *x, float factor, float *y, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) y[j] = x[j] * factor;
}

void LO_ISA_NAME(lo_shift)(const float *x, float a, float b, float *y, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) y[j] = (x[j] - a) - b;
}

void LO_ISA_NAME(lo_cross)(const float *x, const float *p, float a, float b, float *lanes,
                           float *mass, int64_t n) {
  float sums[LO_LANES], masses[LO_LANES];
  memcpy(sums, lanes, sizeof sums);
  memcpy(masses, mass, sizeof masses);
  FOR_LANES(n, {
    float loss = p[j] * (b - (x[j] - a));
    sums[l] += p[j] == 0.0f ? 0.0f : loss;
    masses[l] += p[j];
  });
  memcpy(lanes, sums, sizeof sums);
  memcpy(mass, masses, sizeof masses);
}

void LO_ISA_NAME(lo_blend)(const float *y, float a, const float *p, float b, float *d, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) d[j] = a * y[j] - b * p[j];
}

void LO_ISA_NAME(lo_squares)(const float *y, const float *t, float scale, float *d, float *lanes,
                             int64_t n) {
  float sums[LO_LANES];
  memcpy(sums, lanes, sizeof sums);
  FOR_LANES(n, {
    float e = y[j] - t[j];
    sums[l] += e * e;
  });
  memcpy(lanes, sums, sizeof sums);
  if (!d) return;
  LO_EACH
  for (int64_t j = 0; j < n; j++) d[j] = scale * (y[j] - t[j]);
}

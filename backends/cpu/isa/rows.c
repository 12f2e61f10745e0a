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

/* LO_LANES floats at once, which the compiler splits where vectors are shorter: it would take an
 * array of lanes apart into scalars. */
typedef float lanes_of_float __attribute__((vector_size(LO_LANES * 4)));
typedef int32_t lanes_of_int __attribute__((vector_size(LO_LANES * 4)));

/* The next n elements, or LO_LANES of them; behind the last what changes no result. */
static inline void take(lanes_of_float *v, const float *x, int64_t n, float neutral) {
  if (n >= LO_LANES) {
    memcpy(v, x, sizeof *v);
    return;
  }
  float last[LO_LANES];
  for (int l = 0; l < LO_LANES; l++) last[l] = l < n ? x[l] : neutral;
  memcpy(v, last, sizeof *v);
}

float LO_ISA_NAME(lo_maximum)(const float *x, int64_t n) {
  lanes_of_float most, v;
  for (int l = 0; l < LO_LANES; l++) most[l] = -INFINITY;
  for (int64_t j = 0; j < n; j += LO_LANES) {
    take(&v, x + j, n - j, -INFINITY);
    lanes_of_int more = v > most; /* all bits where true: never where NaN */
    most = (lanes_of_float)(((lanes_of_int)v & more) | ((lanes_of_int)most & ~more));
  }
  float one = -INFINITY;
  for (int l = 0; l < LO_LANES; l++) one = most[l] > one ? most[l] : one;
  return one;
}

bool LO_ISA_NAME(lo_any_nan)(const float *x, int64_t n) {
  int found = 0;
  for (int64_t j = 0; j < n; j++) found |= x[j] != x[j];
  return found;
}

void LO_ISA_NAME(lo_exp_sum)(const float *x, float shift, float *y, float *lanes, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) y[j] = lo_exp(x[j] - shift);
  lanes_of_float sums, v;
  memcpy(&sums, lanes, sizeof sums);
  for (int64_t j = 0; j < n; j += LO_LANES) {
    take(&v, y + j, n - j, 0.0f);
    sums += v;
  }
  memcpy(lanes, &sums, sizeof sums);
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
  lanes_of_float sums, masses, v, weight;
  memcpy(&sums, lanes, sizeof sums);
  memcpy(&masses, mass, sizeof masses);
  for (int64_t j = 0; j < n; j += LO_LANES) {
    take(&v, x + j, n - j, 0.0f);
    take(&weight, p + j, n - j, 0.0f);
    lanes_of_float loss = weight * (b - (v - a));
    lanes_of_int counts = weight != 0.0f; /* NaN counts */
    sums += (lanes_of_float)((lanes_of_int)loss & counts);
    masses += weight;
  }
  memcpy(lanes, &sums, sizeof sums);
  memcpy(mass, &masses, sizeof masses);
}

void LO_ISA_NAME(lo_blend)(const float *y, float a, const float *p, float b, float *d, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) d[j] = a * y[j] - b * p[j];
}

void LO_ISA_NAME(lo_squares)(const float *y, const float *t, float scale, float *d, float *lanes,
                             int64_t n) {
  lanes_of_float sums, v, w;
  memcpy(&sums, lanes, sizeof sums);
  for (int64_t j = 0; j < n; j += LO_LANES) {
    take(&v, y + j, n - j, 0.0f);
    take(&w, t + j, n - j, 0.0f);
    v -= w;
    sums += v * v;
  }
  memcpy(lanes, &sums, sizeof sums);
  if (!d) return;
  LO_EACH
  for (int64_t j = 0; j < n; j++) d[j] = scale * (y[j] - t[j]);
}

/* Softmax, cross-entropy and their gradient with samples on the lanes: no sum runs across a vector,
 * and the few classes of a classifier waste no lane. */
#include <config.h>

#include <math.h>

#include "backends/cpu/isa/mathematics.h"

#define PARTS (LO_LANES / VECTOR)

/* What is known of as many samples as a vector has lanes. */
typedef struct look {
  vf largest, sum;
  vi guess, nan; /* class of the first largest logit, and of the first NaN */
} look;

LO_FN vi choose(vi mask, vi yes, vi no) {
  return (yes & mask) | (no & ~mask);
}

LO_FN look look_at(float *z, int64_t classes, const float *bias) {
  const vi none = {0};
  look s = {v_all(-INFINITY), v_all(0), none, none + INT32_MAX};
  for (int32_t j = 0; j < classes; j++, z += LO_LANES) {
    const vf v = v_load(z) + v_all(bias[j]);
    v_store(z, v);
    s.guess = choose((vi)(v > s.largest), none + j, s.guess);
    s.largest = v_max(v, s.largest);
    s.nan = choose((vi)(v != v) & (s.nan > j), none + j, s.nan);
  }
  s.guess = choose(s.nan < INT32_MAX, s.nan, s.guess);
  return s;
}

LO_FN void exponentials(look *s, float *z, int64_t classes) {
  for (int64_t j = 0; j < classes; j++, z += LO_LANES) {
    const vf e = v_exp(v_load(z) - s->largest);
    v_store(z, e);
    s->sum += e;
  }
}

LO_FN void gradients(const look *s, float *z, int64_t classes, vi label, float scale) {
  const vf each = scale / s->sum;
  for (int32_t j = 0; j < classes; j++, z += LO_LANES)
    v_store(z, v_load(z) * each - (vf)((vi)v_all(scale) & (label == j)));
}

void LO_ISA_NAME(lo_softmax_loss_of)(lo_softmax_loss *s) {
  float truth[LO_LANES] = {0}, loss[LO_LANES];
  int32_t label[LO_LANES], right[LO_LANES];
  for (int64_t l = 0; l < LO_LANES; l++) label[l] = l < s->samples ? s->labels[l] : -1;
#pragma GCC unroll 4
  for (int p = 0; p < PARTS; p++) {
    float *z = s->z + p * VECTOR;
    vi labels;
    memcpy(&labels, label + p * VECTOR, sizeof labels);
    look seen = look_at(z, s->classes, s->bias);
    for (int64_t l = p * VECTOR; l < (p + 1) * VECTOR && l < s->samples; l++)
      truth[l] = s->z[label[l] * LO_LANES + l];
    exponentials(&seen, z, s->classes);
    gradients(&seen, z, s->classes, labels, s->scale);
    v_store(loss + p * VECTOR, v_log(seen.sum) - (v_load(truth + p * VECTOR) - seen.largest));
    const vi good = seen.guess == labels;
    memcpy(right + p * VECTOR, &good, sizeof good);
  }
  s->loss = 0;
  s->correct = 0;
  for (int64_t l = 0; l < s->samples; l++) {
    s->loss += (double)loss[l];
    s->correct += right[l] & 1;
  }
}

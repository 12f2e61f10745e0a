#include <config.h>

#include "backends/cpu/isa/part.h"

static inline float decayed(const lo_sgd_step *s, float g, float w) {
  return g + s->weight_decay * w;
}

static void plain_sgd(const lo_sgd_step *s, float *restrict w, const float *restrict g, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) w[j] -= s->lr * decayed(s, g[j], w[j]);
}

static void momentum_sgd(const lo_sgd_step *s, float *restrict w, const float *restrict g,
                         float *restrict v, int64_t n) {
  const bool nesterov = s->nesterov;
  LO_EACH
  for (int64_t j = 0; j < n; j++) {
    float step = decayed(s, g[j], w[j]);
    float speed = s->momentum * v[j] + step;
    v[j] = speed;
    w[j] -= s->lr * (nesterov ? step + s->momentum * speed : speed);
  }
}

void LO_ISA_NAME(lo_sgd)(const lo_sgd_step *s, float *w, const float *g, float *v, int64_t n) {
  if (v)
    momentum_sgd(s, w, g, v, n);
  else
    plain_sgd(s, w, g, n);
}

void LO_ISA_NAME(lo_adam)(const lo_adam_step *s, float *restrict w, const float *restrict g,
                          float *restrict m, float *restrict v, int64_t n) {
  const lo_adam_step a = *s;
  LO_EACH
  for (int64_t j = 0; j < n; j++) {
    float step = a.decoupled ? g[j] : g[j] + a.decay * w[j];
    float kept = a.decoupled ? w[j] - a.shrink * w[j] : w[j];
    float mean = a.beta1 * m[j] + a.rest1 * step;
    float square = a.beta2 * v[j] + a.rest2 * (step * step);
    m[j] = mean;
    v[j] = square;
    w[j] = kept - a.lr * mean / (__builtin_sqrtf(square * a.correction) + a.epsilon);
  }
}

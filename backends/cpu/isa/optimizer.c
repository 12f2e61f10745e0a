#include <config.h>

#include "backends/cpu/isa/part.h"

static inline float decayed(const lo_sgd_step *s, float g, float w) {
  return g + s->weight_decay * w;
}

static void plain_sgd(const lo_sgd_step *s, float *restrict w, const float *restrict g, int64_t n) {
  for (int64_t j = 0; j < n; j++) w[j] -= s->lr * decayed(s, g[j], w[j]);
}

static void momentum_sgd(const lo_sgd_step *s, float *restrict w, const float *restrict g,
                         float *restrict v, int64_t n) {
  const bool nesterov = s->nesterov;
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
  const bool decoupled = s->decoupled;
  const float shrink = s->lr * s->decay;
  for (int64_t j = 0; j < n; j++) {
    float step = decoupled ? g[j] : g[j] + s->decay * w[j];
    float kept = decoupled ? w[j] - shrink * w[j] : w[j];
    float mean = s->beta1 * m[j] + s->rest1 * step;
    float square = s->beta2 * v[j] + s->rest2 * (step * step);
    m[j] = mean;
    v[j] = square;
    w[j] = kept - s->lr * (mean * s->correction1) /
                      (__builtin_sqrtf(square * s->correction2) + s->epsilon);
  }
}

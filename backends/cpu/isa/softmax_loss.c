/* Softmax, cross-entropy and their gradient with samples on the lanes: no sum runs across a vector,
 * and the few classes of a classifier waste no lane. */
#include <config.h>

#include <math.h>

#include "backends/cpu/isa/mathematics.h"
#include "backends/cpu/isa/part.h"

/* LO_LANES samples. */
typedef struct group {
  float largest[LO_LANES], sum[LO_LANES], each[LO_LANES];
  int32_t label[LO_LANES], guess[LO_LANES], nan[LO_LANES]; /* class; the first NaN's */
} group;

static void start(group *g, const int32_t *labels, int64_t count) {
  for (int l = 0; l < LO_LANES; l++) {
    g->largest[l] = -INFINITY;
    g->sum[l] = 0.0f;
    g->guess[l] = 0;
    g->nan[l] = INT32_MAX;
    g->label[l] = l < count ? labels[l] : -1;
  }
}

static void look(group *g, float *z, int64_t row, const float *bias, int64_t classes) {
  for (int32_t j = 0; j < classes; j++, z += row) {
    const float b = bias[j];
    LO_EACH
    for (int l = 0; l < LO_LANES; l++) {
      const float v = z[l] + b;
      z[l] = v;
      g->guess[l] = v > g->largest[l] ? j : g->guess[l];
      g->largest[l] = v > g->largest[l] ? v : g->largest[l];
      g->nan[l] = v != v && j < g->nan[l] ? j : g->nan[l];
    }
  }
}

static void exponentials(group *g, float *z, int64_t row, int64_t classes) {
  for (int64_t j = 0; j < classes; j++, z += row) {
    LO_EACH
    for (int l = 0; l < LO_LANES; l++) {
      const float e = lo_exp(z[l] - g->largest[l]);
      z[l] = e;
      g->sum[l] += e;
    }
  }
}

static void gradients(group *g, float *z, int64_t row, int64_t classes, float scale) {
  LO_EACH
  for (int l = 0; l < LO_LANES; l++) g->each[l] = scale / g->sum[l];
  for (int32_t j = 0; j < classes; j++, z += row) {
    LO_EACH
    for (int l = 0; l < LO_LANES; l++) z[l] = z[l] * g->each[l] - (g->label[l] == j ? scale : 0.0f);
  }
}

/* The logarithms of a group are one logarithm: sums lie between 1 and the number of classes. */
static void add_up(lo_softmax_loss *s, const group *g, const float *truth) {
  double product = 1, below = 0;
  s->correct = 0;
  for (int64_t l = 0; l < s->samples; l++) {
    product *= (double)g->sum[l];
    below += (double)g->largest[l] - (double)truth[l];
    s->correct += (g->nan[l] < INT32_MAX ? g->nan[l] : g->guess[l]) == g->label[l];
  }
  s->loss = log(product) + below;
}

void LO_ISA_NAME(lo_softmax_loss_of)(lo_softmax_loss *s) {
  float truth[LO_LANES];
  group g;
  start(&g, s->labels, s->samples);
  look(&g, s->z, s->row, s->bias, s->classes);
  for (int64_t l = 0; l < s->samples; l++) truth[l] = s->z[g.label[l] * s->row + l];
  exponentials(&g, s->z, s->row, s->classes);
  gradients(&g, s->z, s->row, s->classes, s->scale);
  add_up(s, &g, truth);
}

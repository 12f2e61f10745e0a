#include <config.h>

#include <math.h>

#include "backends/cpu/grid.h"
#include "backends/cpu/product.h"
#include "backends/cpu/span.h"

typedef struct job {
  const lo_isa *isa;
  lo_plane w, g, first, second; /* velocity, or m and v */
  lo_sgd_step sgd;
  lo_adam_step adam;
} job;

static void step(const job *t, float *w, const float *g, int64_t i, int64_t j, int64_t n) {
  float *first = t->first.base ? lo_element(&t->first, i, j) : NULL;
  if (t->second.base)
    t->isa->adam(&t->adam, w, g, first, lo_element(&t->second, i, j), n);
  else
    t->isa->sgd(&t->sgd, w, g, first, n);
}

static void update(void *arg, const lo_unit *unit) {
  const job *t = arg;
  float w_copy[LO_SPAN], g_copy[LO_SPAN];
  LO_FOR_SPANS(unit, i, j, n) {
    float *w = lo_out(&t->w, i, j, w_copy);
    if (w == w_copy) t->isa->load(t->w.type, lo_element(&t->w, i, j), w, n);
    step(t, w, lo_get(t->isa, &t->g, i, j, n, g_copy), i, j, n);
    lo_put(t->isa, &t->w, i, j, w, n);
  }
}

layerops_status lo_cpu_sgd(layerops_context *ctx, const layerops_sgd_args *a) {
  lo_grid grid = lo_grid_of((const layerops_matrix *const[]){&a->w, &a->g, &a->velocity}, 3);
  job t = {.isa = lo_cpu_of(ctx)->isa,
           .w = lo_plane_of(&a->w, 0),
           .g = lo_plane_of(&a->g, 0),
           .first = lo_plane_of(&a->velocity, 0)};
  t.sgd = (lo_sgd_step){.lr = (float)lo_scalar(&a->lr),
                        .momentum = (float)lo_scalar(&a->momentum),
                        .weight_decay = (float)lo_scalar(&a->weight_decay),
                        .nesterov = a->nesterov};
  ctx->kernel = t.isa->name;
  lo_grid_run(ctx, &grid, 0.12, update, &t);
  return LAYEROPS_OK;
}

/* What depends on the step alone is computed once, in double. */
static lo_adam_step adam_step(const layerops_adam_args *a) {
  double beta1 = lo_scalar(&a->beta1), beta2 = lo_scalar(&a->beta2), t = lo_scalar(&a->step);
  double lr = lo_scalar(&a->lr), decay = lo_scalar(&a->weight_decay);
  return (lo_adam_step){.lr = (float)(lr / (1 - pow(beta1, t))),
                        .beta1 = (float)beta1,
                        .beta2 = (float)beta2,
                        .epsilon = (float)lo_scalar(&a->epsilon),
                        .decay = (float)decay,
                        .rest1 = (float)(1 - beta1),
                        .rest2 = (float)(1 - beta2),
                        .shrink = (float)(lr * decay),
                        .correction = (float)(1 / (1 - pow(beta2, t))),
                        .decoupled = a->decoupled};
}

layerops_status lo_cpu_adam(layerops_context *ctx, const layerops_adam_args *a) {
  lo_grid grid = lo_grid_of((const layerops_matrix *const[]){&a->w, &a->g, &a->m, &a->v}, 4);
  job t = {.isa = lo_cpu_of(ctx)->isa,
           .w = lo_plane_of(&a->w, 0),
           .g = lo_plane_of(&a->g, 0),
           .first = lo_plane_of(&a->m, 0),
           .second = lo_plane_of(&a->v, 0),
           .adam = adam_step(a)};
  ctx->kernel = t.isa->name;
  lo_grid_run(ctx, &grid, 0.36, update, &t);
  return LAYEROPS_OK;
}

/* Activations by themselves. */
#include <config.h>

#include "backends/cpu/grid.h"
#include "backends/cpu/product.h"
#include "backends/cpu/span.h"

typedef struct job {
  const lo_isa *isa;
  lo_plane x, saved, y;
  layerops_activation kind;
  float slope;
} job;

static void forward(void *arg, const lo_unit *unit) {
  const job *w = arg;
  float in[LO_SPAN], out[LO_SPAN];
  LO_FOR_SPANS(unit, i, j, n) {
    float *y = lo_out(&w->y, i, j, out);
    w->isa->activate(w->kind, w->slope, lo_get(w->isa, &w->x, i, j, n, in), y, n);
    lo_put(w->isa, &w->y, i, j, y, n);
  }
}

static void backward(void *arg, const lo_unit *unit) {
  const job *w = arg;
  float in[LO_SPAN], saved[LO_SPAN], out[LO_SPAN];
  LO_FOR_SPANS(unit, i, j, n) {
    float *dx = lo_out(&w->y, i, j, out);
    w->isa->derive(w->kind, w->slope, lo_get(w->isa, &w->x, i, j, n, in),
                   lo_get(w->isa, &w->saved, i, j, n, saved), dx, n);
    lo_put(w->isa, &w->y, i, j, dx, n);
  }
}

static double cost(layerops_activation kind) {
  return kind <= LAYEROPS_LEAKY_RELU ? 0.1 : 0.5; /* ns an element */
}

layerops_status lo_cpu_activation_forward(layerops_context *ctx,
                                          const layerops_activation_forward_args *a) {
  const lo_isa *isa = lo_cpu_of(ctx)->isa;
  lo_grid grid = lo_grid_of((const layerops_matrix *const[]){&a->x, &a->y}, 2);
  job w = {.isa = isa,
           .x = lo_plane_of(&a->x, 0),
           .y = lo_plane_of(&a->y, 0),
           .kind = a->activation,
           .slope = (float)a->slope.value};
  ctx->kernel = isa->name;
  lo_grid_run(ctx, &grid, cost(a->activation), forward, &w);
  return LAYEROPS_OK;
}

void lo_derive_matrix(layerops_context *ctx, layerops_activation kind, float slope,
                      const layerops_matrix *dy, const layerops_matrix *saved,
                      const layerops_matrix *dx) {
  lo_grid grid = lo_grid_of((const layerops_matrix *const[]){dy, saved, dx}, 3);
  job w = {.isa = lo_cpu_of(ctx)->isa,
           .x = lo_plane_of(dy, 0),
           .saved = lo_plane_of(saved, 0),
           .y = lo_plane_of(dx, 0),
           .kind = kind,
           .slope = slope};
  lo_grid_run(ctx, &grid, cost(kind), backward, &w);
}

layerops_status lo_cpu_activation_backward(layerops_context *ctx,
                                           const layerops_activation_backward_args *a) {
  ctx->kernel = lo_cpu_of(ctx)->isa->name;
  lo_derive_matrix(ctx, a->activation, (float)a->slope.value, &a->dy, &a->saved, &a->dx);
  return LAYEROPS_OK;
}

#include <config.h>

#include <math.h>

#include "backends/opencl/opencl.h"

layerops_status lo_cl_sgd(layerops_context *ctx, const layerops_sgd_args *a) {
  const layerops_matrix *views[] = {&a->w, &a->g, &a->velocity};
  lo_cl_sgd_params p = {.shape = lo_cl_shape_of(ctx, views, 3),
                        .w = lo_cl_view_of(&a->w),
                        .g = lo_cl_view_of(&a->g),
                        .velocity = lo_cl_view_of(&a->velocity),
                        .lr = lo_cl_scalar_of(&a->lr),
                        .momentum = lo_cl_scalar_of(&a->momentum),
                        .weight_decay = lo_cl_scalar_of(&a->weight_decay),
                        .nesterov = a->nesterov};
  ctx->kernel = "opencl_optimizer";
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_OPTIMIZER, NULL, "sgd");
  lo_cl_view_memory(&l, &a->w);
  lo_cl_view_memory(&l, &a->g);
  lo_cl_view_memory(&l, &a->velocity);
  lo_cl_scalar_memory(&l, &a->lr);
  lo_cl_scalar_memory(&l, &a->momentum);
  lo_cl_scalar_memory(&l, &a->weight_decay);
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run_shape(&l, &p.shape);
}

layerops_status lo_cl_adam(layerops_context *ctx, const layerops_adam_args *a) {
  const layerops_matrix *views[] = {&a->w, &a->g, &a->m, &a->v};
  lo_cl_adam_params p = {.shape = lo_cl_shape_of(ctx, views, 4),
                         .w = lo_cl_view_of(&a->w),
                         .g = lo_cl_view_of(&a->g),
                         .m = lo_cl_view_of(&a->m),
                         .v = lo_cl_view_of(&a->v),
                         .lr = lo_cl_scalar_of(&a->lr),
                         .beta1 = lo_cl_scalar_of(&a->beta1),
                         .beta2 = lo_cl_scalar_of(&a->beta2),
                         .epsilon = lo_cl_scalar_of(&a->epsilon),
                         .weight_decay = lo_cl_scalar_of(&a->weight_decay),
                         .step = lo_cl_scalar_of(&a->step),
                         .rest1 = (float)(1 - a->beta1.value),
                         .rest2 = (float)(1 - a->beta2.value),
                         .log1 = (float)log(a->beta1.value),
                         .log2 = (float)log(a->beta2.value),
                         .decoupled = a->decoupled};
  const layerops_scalar *scalars[] = {&a->lr,      &a->beta1,        &a->beta2,
                                      &a->epsilon, &a->weight_decay, &a->step};
  ctx->kernel = "opencl_optimizer";
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_OPTIMIZER, NULL, "adam");
  for (int i = 0; i < 4; i++) lo_cl_view_memory(&l, views[i]);
  for (int i = 0; i < 6; i++) lo_cl_scalar_memory(&l, scalars[i]);
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run_shape(&l, &p.shape);
}

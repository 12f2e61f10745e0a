/* Activations and mean squared error. */
#include <config.h>

#include "backends/opencl/map.h"

layerops_status lo_cl_activation_forward(layerops_context *ctx,
                                         const layerops_activation_forward_args *a) {
  const layerops_matrix *views[] = {&a->y, &a->x};
  lo_cl_map p = {.shape = lo_cl_shape_of(ctx, views, 2),
                 .in = lo_cl_view_of(&a->x),
                 .out = lo_cl_view_of(&a->y),
                 .activation = a->activation,
                 .slope = (float)a->slope.value};
  ctx->kernel = "opencl_map";
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_MAP, NULL, "forward");
  lo_cl_view_memory(&l, &a->x);
  lo_cl_view_memory(&l, &a->y);
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run_shape(&l, &p.shape);
}

layerops_status lo_cl_map_backward(layerops_context *ctx, const layerops_matrix *dy,
                                   const layerops_matrix *saved, const layerops_matrix *dx,
                                   layerops_activation activation, float slope) {
  const layerops_matrix *views[] = {dx, dy, saved};
  lo_cl_map p = {.shape = lo_cl_shape_of(ctx, views, 3),
                 .in = lo_cl_view_of(dy),
                 .other = lo_cl_view_of(saved),
                 .out = lo_cl_view_of(dx),
                 .activation = activation,
                 .slope = slope};
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_MAP, NULL, "backward");
  lo_cl_view_memory(&l, dy);
  lo_cl_view_memory(&l, saved);
  lo_cl_view_memory(&l, dx);
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run_shape(&l, &p.shape);
}

layerops_status lo_cl_activation_backward(layerops_context *ctx,
                                          const layerops_activation_backward_args *a) {
  ctx->kernel = "opencl_map";
  return lo_cl_map_backward(ctx, &a->dy, &a->saved, &a->dx, a->activation, (float)a->slope.value);
}

static layerops_status mse_map(layerops_context *ctx, const layerops_mse_args *a,
                               const lo_cl_map *p, const layerops_buffer *scratch) {
  if (!p->shape.items) return LAYEROPS_OK;
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_MAP, NULL, "mse");
  lo_cl_view_memory(&l, &a->y);
  lo_cl_view_memory(&l, &a->target);
  lo_cl_view_memory(&l, &a->dy);
  lo_cl_scalar_memory(&l, &a->grad_scale);
  lo_cl_memory(&l, scratch);
  lo_cl_local(&l, lo_cl_of(ctx)->device->class.group, sizeof(cl_float));
  lo_cl_bytes(&l, sizeof *p, p);
  return lo_cl_run_shape(&l, &p->shape);
}

layerops_status lo_cl_mse(layerops_context *ctx, const layerops_mse_args *a) {
  const layerops_matrix *views[] = {&a->y, &a->target, &a->dy};
  double elements = (double)a->y.rows * (double)a->y.cols;
  double mean = a->reduction == LAYEROPS_MEAN && elements > 0 ? 1 / elements : 1;
  lo_cl_map p = {.shape = lo_cl_shape_of(ctx, views, 3),
                 .in = lo_cl_view_of(&a->y),
                 .other = lo_cl_view_of(&a->target),
                 .out = lo_cl_view_of(&a->dy),
                 .scale = lo_cl_scalar_of(&a->grad_scale),
                 .partial = lo_present(&a->loss) ? 0 : -1,
                 .factor = (float)(2 * mean)};
  lo_cl_total t = {.to = lo_cl_view_of(&a->loss),
                   .count = lo_cl_shape_groups(ctx, &p.shape),
                   .factor = (float)mean};
  layerops_buffer *scratch = NULL;
  ctx->kernel = "opencl_map";
  if (!lo_present(&a->loss)) return mse_map(ctx, a, &p, NULL);
  LO_TRY(lo_workspace(ctx, (t.count + 1) * (int64_t)sizeof(float), &scratch));
  LO_TRY(mse_map(ctx, a, &p, scratch));
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_SUM, NULL, "total");
  lo_cl_memory(&l, scratch);
  lo_cl_view_memory(&l, &a->loss);
  lo_cl_local(&l, lo_cl_of(ctx)->device->class.group, sizeof(cl_float));
  lo_cl_bytes(&l, sizeof t, &t);
  return lo_cl_run(&l, lo_cl_of(ctx)->device->class.group, 1, 1, 1);
}

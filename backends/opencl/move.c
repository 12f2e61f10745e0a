/* Fill, copy, gather, transpose. */
#include <config.h>

#include "backends/opencl/opencl.h"

enum { SQUARE = 16 }; /* as in move.cl */

static lo_cl_move params(layerops_context *ctx, const layerops_matrix *y,
                         const layerops_matrix *x) {
  const layerops_matrix *views[] = {y, x};
  lo_cl_move p = {.shape = lo_cl_shape_of(ctx, views, x ? 2 : 1), .y = lo_cl_view_of(y)};
  if (x) p.x = lo_cl_view_of(x);
  ctx->kernel = "opencl_move";
  return p;
}

layerops_status lo_cl_fill(layerops_context *ctx, const layerops_fill_args *a) {
  lo_cl_move p = params(ctx, &a->y, NULL);
  p.value = lo_cl_scalar_of(&a->value);
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_MOVE, NULL, "fill");
  lo_cl_scalar_memory(&l, &a->value);
  lo_cl_view_memory(&l, &a->y);
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run_shape(&l, &p.shape);
}

layerops_status lo_cl_copy(layerops_context *ctx, const layerops_copy_args *a) {
  lo_cl_move p = params(ctx, &a->y, &a->x);
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_MOVE, NULL, "copy");
  lo_cl_view_memory(&l, &a->x);
  lo_cl_view_memory(&l, &a->y);
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run_shape(&l, &p.shape);
}

layerops_status lo_cl_gather(layerops_context *ctx, const layerops_gather_args *a) {
  /* Rows are the unit: the shape must not be flattened. */
  layerops_matrix rows = a->y;
  if (rows.rows > 1 && rows.stride == rows.cols) rows.stride++;
  lo_cl_move p = params(ctx, &rows, NULL);
  p.x = lo_cl_view_of(&a->x);
  p.y = lo_cl_view_of(&a->y);
  p.index = lo_cl_view_of(&a->index);
  p.limit = a->x.rows;
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_MOVE, NULL, "gather");
  lo_cl_view_memory(&l, &a->x);
  lo_cl_view_memory(&l, &a->index);
  lo_cl_view_memory(&l, &a->y);
  lo_cl_fault_memory(&l);
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run_shape(&l, &p.shape);
}

layerops_status lo_cl_transpose(layerops_context *ctx, const layerops_transpose_args *a) {
  lo_cl_move p = {.shape = {.rows = a->y.rows, .cols = a->y.cols},
                  .x = lo_cl_view_of(&a->x),
                  .y = lo_cl_view_of(&a->y)};
  ctx->kernel = "opencl_move";
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_MOVE, NULL, "transpose");
  lo_cl_view_memory(&l, &a->x);
  lo_cl_view_memory(&l, &a->y);
  lo_cl_local(&l, SQUARE * (SQUARE + 1), sizeof(cl_uint));
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run(&l, lo_cl_of(ctx)->device->class.group,
                   lo_cl_ceil(a->y.rows, SQUARE) * lo_cl_ceil(a->y.cols, SQUARE), 1, 1);
}

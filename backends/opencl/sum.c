/* Sums over samples, for gradients of biases. */
#include <config.h>

#include <math.h>

#include "backends/opencl/product.h"

enum { LEAST_CHUNK = 16 };

/* Sums of about sqrt(rows) rows each, then the sum of those. */
static lo_cl_sum columns_of(const layerops_matrix *x) {
  int64_t chunk = (int64_t)ceil(sqrt((double)x->rows));
  if (chunk < LEAST_CHUNK) chunk = LEAST_CHUNK;
  return (lo_cl_sum){.x = lo_cl_view_of(x),
                     .rows = x->rows,
                     .cols = x->cols,
                     .chunk = chunk,
                     .chunks = lo_cl_ceil(x->rows, chunk)};
}

int64_t lo_cl_sum_scratch(const layerops_matrix *x) {
  lo_cl_sum p = columns_of(x);
  return p.chunks * p.cols * (int64_t)sizeof(cl_float);
}

layerops_status lo_cl_sum_columns(layerops_context *ctx, const layerops_matrix *x,
                                  const layerops_scalar *beta, const layerops_matrix *to,
                                  lo_cl_region region) {
  const lo_cl_class *c = &lo_cl_of(ctx)->device->class;
  lo_cl_sum p = columns_of(x);
  int64_t groups = lo_cl_ceil(lo_cl_ceil(p.cols, c->vector), c->group);
  p.to = lo_cl_view_of(to);
  p.beta = lo_cl_scalar_of(beta);
  p.partial = region.offset / (int64_t)sizeof(cl_float);
  if (p.chunks) {
    lo_cl_launch l = lo_cl_start(ctx, LO_CL_SUM, NULL, "columns");
    lo_cl_view_memory(&l, x);
    lo_cl_memory(&l, region.buffer);
    lo_cl_bytes(&l, sizeof p, &p);
    LO_TRY(lo_cl_run(&l, c->group, groups, p.chunks, 1));
  }
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_SUM, NULL, "chunks");
  lo_cl_memory(&l, region.buffer);
  lo_cl_view_memory(&l, to);
  lo_cl_scalar_memory(&l, beta);
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run(&l, c->group, groups, 1, 1);
}

layerops_status lo_cl_sum_rows(layerops_context *ctx, const layerops_matrix *x,
                               const layerops_scalar *beta, const layerops_matrix *to) {
  const lo_cl_class *c = &lo_cl_of(ctx)->device->class;
  lo_cl_sum p = {.x = lo_cl_view_of(x),
                 .to = lo_cl_view_of(to),
                 .beta = lo_cl_scalar_of(beta),
                 .rows = x->rows,
                 .cols = x->cols};
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_SUM, NULL, "rows");
  lo_cl_view_memory(&l, x);
  lo_cl_view_memory(&l, to);
  lo_cl_scalar_memory(&l, beta);
  lo_cl_local(&l, c->group, sizeof(cl_float));
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run(&l, c->group, p.rows, 1, 1);
}

/* How element-wise work is cut into items. */
#include <config.h>

#include "backends/opencl/opencl.h"

enum { LEAST_ITEM = 1024, ITEMS_A_UNIT = 4 }; /* CPU: a task is worth its start; balance */

static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Elements of an item: on CPUs as many as leave each core some, in whole vectors. */
static int64_t item_size(const lo_cl_device *d, int64_t elements) {
  if (d->class.item == 1) return 1;
  int64_t share = elements / ((int64_t)ITEMS_A_UNIT * d->units);
  int64_t size = least(d->class.item, most(share, LEAST_ITEM));
  return lo_cl_ceil(size, d->class.vector) * d->class.vector;
}

lo_cl_shape lo_cl_shape_of(layerops_context *ctx, const layerops_matrix *const *views, int count) {
  lo_cl_shape s = {.rows = views[0]->rows, .cols = views[0]->cols};
  bool tight = true;
  for (int i = 0; i < count; i++)
    if (lo_present(views[i])) tight = tight && (views[i]->stride == s.cols || s.rows <= 1);
  if (tight) {
    s.cols *= s.rows;
    s.rows = 1;
  }
  int64_t item = item_size(lo_cl_of(ctx)->device, s.rows * s.cols);
  s.item_cols = most(1, least(item, s.cols));
  s.item_rows = most(1, item / s.item_cols);
  s.across = lo_cl_ceil(s.cols, s.item_cols);
  s.items = s.across * lo_cl_ceil(s.rows, s.item_rows);
  return s;
}

int64_t lo_cl_shape_groups(layerops_context *ctx, const lo_cl_shape *shape) {
  return lo_cl_ceil(shape->items, lo_cl_of(ctx)->device->class.group);
}

layerops_status lo_cl_run_shape(lo_cl_launch *l, const lo_cl_shape *shape) {
  return lo_cl_run(l, lo_cl_of(l->ctx)->device->class.group, lo_cl_shape_groups(l->ctx, shape), 1,
                   1);
}

/* A dense W as f32 in host memory, some block rows at a time: whatever its device, type and size,
 * it is read and written with the copy operation and little memory. */
#include <config.h>

#include <stdlib.h>

#include "common/bsr.h"
#include "common/door.h"

enum { STRIP_ELEMENTS = 1 << 22 };

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Block rows of a strip: at least one, whatever it takes. */
static int64_t strip_rows(const lo_bsr_shape *shape) {
  const int64_t row = shape->height * (shape->cols ? shape->cols : 1);
  return row < STRIP_ELEMENTS ? STRIP_ELEMENTS / row : 1;
}

static layerops_status run(layerops_context *ctx, const lo_bsr_shape *shape,
                           const layerops_matrix *w, lo_bsr_direction direction,
                           const lo_bsr_strip *strip, lo_bsr_strip_fn use, void *arg) {
  const layerops_matrix dense = layerops_slice(*w, strip->row, strip->row_count, 0, shape->cols);
  const layerops_matrix host =
      layerops_host_matrix(strip->rows, LAYEROPS_F32, strip->row_count, shape->cols);
  const layerops_copy_args read = {.x = dense, .y = host}, write = {.x = host, .y = dense};
  if (direction == LO_BSR_READ) LO_TRY(layerops_copy(ctx, &read));
  LO_TRY(use(arg, strip));
  return direction == LO_BSR_WRITE ? layerops_copy(ctx, &write) : LAYEROPS_OK;
}

layerops_status lo_bsr_strips(const char *function, layerops_context *ctx,
                              const lo_bsr_shape *shape, const layerops_matrix *w,
                              lo_bsr_direction direction, lo_bsr_strip_fn use, void *arg) {
  const int64_t step = smaller(strip_rows(shape), shape->block_rows);
  const int64_t most = smaller(step * shape->height, shape->rows);
  float *rows = lo_bsr_memory(most, (size_t)(shape->cols ? shape->cols : 1) * sizeof *rows);
  if (!rows) return lo_bsr_no_memory(function);
  layerops_status status = LAYEROPS_OK;
  for (int64_t r = 0; r < shape->block_rows && status == LAYEROPS_OK; r += step) {
    lo_bsr_strip strip = {r, smaller(r + step, shape->block_rows), r * shape->height, 0, rows};
    strip.row_count = smaller(strip.end * shape->height, shape->rows) - strip.row;
    status = run(ctx, shape, w, direction, &strip, use, arg);
  }
  free(rows);
  return status;
}

layerops_status lo_bsr_door_dense(lo_door *door, layerops_matrix *w, int role, int64_t block,
                                  int64_t width, lo_bsr_shape *shape) {
  LO_TRY(lo_door_matrix(door, "w", w, role, LO_FLOAT | LO_F8, LO_ANY, LO_ANY));
  LO_TRY(lo_door_all_unbatched(door));
  return lo_bsr_check_shape(door->function, w->rows, w->cols, block, width, shape);
}

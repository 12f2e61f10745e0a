/* The caller's samples: checked, brought to the device, cut into batches. */
#include <config.h>

#include "network/network.h"

/* Copies a view of host memory to where the device can read it. */
static layerops_status upload(layerops_network *net, layerops_matrix *view,
                              layerops_buffer **owned) {
  if (!view->host || net->ctx->backend->host_memory) return LAYEROPS_OK;
  int64_t bytes;
  if (__builtin_mul_overflow(view->rows, view->cols, &bytes) || bytes > INT64_MAX / 16)
    return lo_fail(LAYEROPS_ERROR_OVERFLOW, "network: %lld x %lld elements are too many",
                   (long long)view->rows, (long long)view->cols);
  LO_TRY(layerops_buffer_create(net->ctx, bytes * (int64_t)layerops_type_size(view->type), owned));
  layerops_copy_args copy = {.x = *view,
                             .y = layerops_matrix_of(*owned, view->type, view->rows, view->cols)};
  *view = copy.y;
  return layerops_copy(net->ctx, &copy);
}

static layerops_status check(lo_door *door, layerops_network *net, lo_samples *s) {
  int64_t outputs = net->widths[net->layers];
  LO_TRY(lo_door_matrix(door, "x", &s->x, LO_IN, LO_BIT(LAYEROPS_F32), LO_ANY, net->widths[0]));
  LO_TRY(lo_door_optional(door, "labels", &s->labels, LO_IN, LO_BIT(LAYEROPS_I32), 1, s->x.rows));
  LO_TRY(lo_door_optional(door, "targets", &s->targets, LO_IN, LO_BIT(LAYEROPS_F32), s->x.rows,
                          outputs));
  LO_TRY(lo_door_all_unbatched(door));
  if (!s->x.rows || !lo_present(&s->labels)) return LAYEROPS_OK;
  if (!s->labels.host && !net->ctx->backend->host_memory) return LAYEROPS_OK;
  return lo_check_labels(door->function, "labels", &s->labels, outputs, LO_NOTHING_IGNORED);
}

layerops_status lo_samples_open(lo_door *door, layerops_network *net, lo_samples *s) {
  layerops_matrix *views[] = {&s->x, &s->labels, &s->targets};
  LO_TRY(check(door, net, s));
  for (int i = 0; i < 3; i++) {
    layerops_status status = upload(net, views[i], &s->owned[i]);
    if (status == LAYEROPS_OK) continue;
    lo_samples_close(s);
    return status;
  }
  return LAYEROPS_OK;
}

void lo_samples_close(lo_samples *s) {
  for (int i = 0; i < 3; i++) {
    layerops_buffer_destroy(s->owned[i]);
    s->owned[i] = NULL;
  }
}

lo_samples lo_samples_slice(const lo_samples *s, int64_t first, int64_t rows) {
  lo_samples batch = {.x = layerops_slice(s->x, first, rows, 0, s->x.cols)};
  if (lo_present(&s->labels)) batch.labels = layerops_slice(s->labels, 0, 1, first, rows);
  if (lo_present(&s->targets))
    batch.targets = layerops_slice(s->targets, first, rows, 0, s->targets.cols);
  return batch;
}

/* A vector as a matrix of one column, whose rows can be gathered. */
static layerops_matrix upright(layerops_matrix vector) {
  vector.rows = vector.cols;
  vector.cols = vector.stride = 1;
  return vector;
}

layerops_status lo_samples_gather(layerops_network *net, const lo_samples *s, int64_t first,
                                  int64_t rows, lo_samples *batch) {
  layerops_gather_args x = {.x = s->x, .index = layerops_vector_i32(net->order, rows), .y = net->x};
  x.index.offset = first;
  x.y.rows = rows;
  *batch = (lo_samples){.x = x.y};
  LO_TRY(layerops_gather(net->ctx, &x));
  if (lo_present(&s->labels)) {
    layerops_gather_args labels = {.x = upright(s->labels), .index = x.index};
    batch->labels = layerops_slice(net->labels, 0, 1, 0, rows);
    labels.y = upright(batch->labels);
    LO_TRY(layerops_gather(net->ctx, &labels));
  }
  if (lo_present(&s->targets)) {
    layerops_gather_args targets = {.x = s->targets, .index = x.index, .y = net->targets};
    targets.y.rows = rows;
    batch->targets = targets.y;
    LO_TRY(layerops_gather(net->ctx, &targets));
  }
  return LAYEROPS_OK;
}

#include <config.h>

#include <string.h>

#include "tools/samples.h"

static layerops_status upload(layerops_context *ctx, const void *host, layerops_type type,
                              int64_t rows, int64_t cols, layerops_buffer **buffer,
                              layerops_matrix *view) {
  layerops_status status = layerops_buffer_from(ctx, host, rows * cols * 4, buffer);
  *view = layerops_matrix_of(*buffer, type, rows, cols);
  return status;
}

/* A row of the identity for each label. */
static layerops_status encode(layerops_context *ctx, int64_t classes, struct samples *s) {
  int64_t count = s->labels.cols;
  layerops_buffer *identity = NULL;
  layerops_status status = layerops_buffer_create(ctx, classes * classes * 4, &identity);
  if (!status) status = layerops_buffer_create(ctx, count * classes * 4, &s->owned[2]);
  layerops_matrix square = layerops_matrix_f32(identity, classes, classes), diagonal = square;
  diagonal.cols = 1;
  diagonal.stride = classes + 1;
  layerops_fill_args zeros = {.y = square}, ones = {.y = diagonal, .value = layerops_value(1)};
  s->targets = layerops_matrix_f32(s->owned[2], count, classes);
  layerops_gather_args gather = {.x = square, .index = s->labels, .y = s->targets};
  if (!status) status = layerops_fill(ctx, &zeros);
  if (!status) status = layerops_fill(ctx, &ones);
  if (!status) status = layerops_gather(ctx, &gather);
  layerops_buffer_destroy(identity);
  return status;
}

layerops_status samples_upload(layerops_context *ctx, const struct dataset_part *part,
                               int64_t features, int64_t classes, bool one_hot, struct samples *s) {
  *s = (struct samples){0};
  layerops_status status =
      upload(ctx, part->x, LAYEROPS_F32, part->count, features, &s->owned[0], &s->x);
  if (!status && part->labels)
    status = upload(ctx, part->labels, LAYEROPS_I32, 1, part->count, &s->owned[1], &s->labels);
  if (!status && one_hot) status = encode(ctx, classes, s);
  if (status) samples_free(s);
  return status;
}

void samples_free(struct samples *s) {
  for (int i = 0; i < 3; i++) layerops_buffer_destroy(s->owned[i]);
  *s = (struct samples){0};
}

const char *samples_subset(const struct dataset *data) {
  return data->subset && !strstr(data->name, "subset") ? " (subset)" : "";
}

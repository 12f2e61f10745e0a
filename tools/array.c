/* Arrays of numbers behind a header: what IDX and .npy files are once the header is read. */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"

static const struct {
  int64_t size;
  double scale; /* 8-bit pixels become [0, 1] */
} types[] = {
    [ARRAY_U1] = {1, 255}, [ARRAY_I1] = {1, 1}, [ARRAY_I2] = {2, 1}, [ARRAY_I4] = {4, 1},
    [ARRAY_I8] = {8, 1},   [ARRAY_F4] = {4, 1}, [ARRAY_F8] = {8, 1},
};

static void shape_text(const struct array_header *h, char *out, size_t size) {
  size_t used = 0;
  out[0] = 0;
  for (int i = 0; i < h->rank && used < size; i++)
    used +=
        (size_t)snprintf(out + used, size - used, "%s%lld", i ? " x " : "", (long long)h->shape[i]);
}

static double decode(const unsigned char *p, enum array_type type, bool big_endian) {
  int n = (int)types[type].size;
  uint64_t bits = 0;
  for (int i = 0; i < n; i++) bits |= (uint64_t)p[i] << 8 * (big_endian ? n - 1 - i : i);
  uint32_t low = (uint32_t)bits;
  float f;
  double d;
  switch (type) {
  case ARRAY_U1:
    return (double)bits;
  case ARRAY_I1:
    return (int8_t)bits;
  case ARRAY_I2:
    return (int16_t)bits;
  case ARRAY_I4:
    return (int32_t)low;
  case ARRAY_I8:
    return (double)(int64_t)bits;
  case ARRAY_F4:
    memcpy(&f, &low, sizeof f);
    return f;
  case ARRAY_F8:
    memcpy(&d, &bits, sizeof d);
    return d;
  }
  return 0;
}

/* Compares what the header promises with the largest that the file can hold, before any memory is
 * asked for. *features is the product of all dimensions but the first. */
static enum dataset_status check_shape(struct source *s, const struct array_header *h,
                                       int64_t *features) {
  char shape[256];
  shape_text(h, shape, sizeof shape);
  int64_t width = 1, bytes = 0;
  bool overflow = false;
  for (int i = 1; i < h->rank; i++) overflow |= __builtin_mul_overflow(width, h->shape[i], &width);
  overflow |= __builtin_mul_overflow(width, h->shape[0], &bytes);
  overflow |= __builtin_mul_overflow(bytes, types[h->type].size, &bytes);
  if (!overflow && (h->shape[0] == 0 || width == 0))
    return dataset_fail(source_dataset(s), DATASET_ERROR_FORMAT,
                        "%s: holds no rows: its shape is "
                        "%s",
                        source_path(s), shape);
  if (overflow || bytes > source_largest(s))
    return dataset_fail(source_dataset(s), DATASET_ERROR_FORMAT,
                        "%s: truncated or lying: the "
                        "header promises %s elements of %d bytes, the file can hold at most %lld "
                        "bytes",
                        source_path(s), shape, (int)types[h->type].size,
                        (long long)source_largest(s));
  *features = width;
  return DATASET_OK;
}

static enum dataset_status expect_end(struct source *s, const struct array_header *h) {
  char shape[256];
  unsigned char extra;
  size_t got;
  enum dataset_status status = source_read(s, &extra, 1, &got);
  if (status || got == 0) return status;
  shape_text(h, shape, sizeof shape);
  return dataset_fail(source_dataset(s), DATASET_ERROR_FORMAT,
                      "%s: goes on after the %s elements "
                      "that its header promises",
                      source_path(s), shape);
}

typedef enum dataset_status (*element_store)(struct reading *r, const char *path, int64_t index,
                                             double value);

static enum dataset_status store_value(struct reading *r, const char *path, int64_t index,
                                       double value) {
  /* A float64 that rounds to infinity would poison the training as much as an infinity. */
  if (!isfinite((float)value))
    return dataset_fail(r->d, DATASET_ERROR_FORMAT,
                        "%s: row %lld, column %lld (from 0): %g is not "
                        "a finite float32",
                        path, (long long)(index / r->features), (long long)(index % r->features),
                        value);
  r->part->x[index] = (float)value;
  return DATASET_OK;
}

static enum dataset_status store_label(struct reading *r, const char *path, int64_t index,
                                       double value) {
  char where[512];
  snprintf(where, sizeof where, "%.400s: row %lld (from 0)", path, (long long)index);
  enum dataset_status status = dataset_check_label(r, where, value);
  if (!status) r->part->labels[index] = (int32_t)value;
  return status;
}

static enum dataset_status read_elements(struct reading *r, struct source *s,
                                         const struct array_header *h, int64_t count, double scale,
                                         element_store store) {
  unsigned char chunk[1 << 13];
  int64_t size = types[h->type].size, done = 0;
  char shape[256];
  while (done < count) {
    int64_t n =
        count - done < (int64_t)sizeof chunk / size ? count - done : (int64_t)sizeof chunk / size;
    size_t got;
    enum dataset_status status = source_read(s, chunk, (size_t)(n * size), &got);
    for (int64_t i = 0; !status && i < (int64_t)got / size; i++)
      status = store(r, source_path(s), done + i,
                     decode(chunk + i * size, h->type, h->big_endian) / scale);
    if (status) return status;
    done += (int64_t)got / size;
    if (got < (size_t)(n * size)) break;
  }
  if (done == count) return expect_end(s, h);
  shape_text(h, shape, sizeof shape);
  return dataset_fail(r->d, DATASET_ERROR_FORMAT,
                      "%s: truncated: the header promises %s elements, "
                      "the data ends after %lld",
                      source_path(s), shape, (long long)done);
}

static enum dataset_status read_values(struct reading *r, struct source *s,
                                       array_header_reader header) {
  struct array_header h = {0};
  enum dataset_status status = header(s, &h);
  if (!status && h.rank < 2)
    return dataset_fail(r->d, DATASET_ERROR_FORMAT,
                        "%s: has %d dimension%s: labels, perhaps; data "
                        "has rows and columns",
                        source_path(s), h.rank, h.rank == 1 ? "" : "s");
  if (!status) status = check_shape(s, &h, &r->features);
  if (status) return status;
  r->part->count = h.shape[0];
  r->part->x = dataset_allocate(r, source_path(s), h.shape[0], r->features, sizeof(float));
  if (!r->part->x) return DATASET_ERROR_MEMORY;
  double scale = r->options->scale > 0 ? r->options->scale : types[h.type].scale;
  return read_elements(r, s, &h, h.shape[0] * r->features, scale, store_value);
}

static enum dataset_status read_labels(struct reading *r, struct source *s, const char *data,
                                       array_header_reader header) {
  struct array_header h = {0};
  int64_t width;
  enum dataset_status status = header(s, &h);
  if (!status && h.rank < 1)
    status = dataset_fail(r->d, DATASET_ERROR_FORMAT, "%s: holds one number, not a list of labels",
                          source_path(s));
  if (!status) status = check_shape(s, &h, &width);
  if (status) return status;
  if (width != 1) {
    char shape[256];
    shape_text(&h, shape, sizeof shape);
    return dataset_fail(r->d, DATASET_ERROR_FORMAT,
                        "%s: its shape is %s; labels are one integer "
                        "a row",
                        source_path(s), shape);
  }
  if (h.shape[0] != r->part->count)
    return dataset_fail(r->d, DATASET_ERROR_FORMAT, "%s: %lld labels, but %s has %lld rows",
                        source_path(s), (long long)h.shape[0], data, (long long)r->part->count);
  r->part->labels = dataset_allocate(r, source_path(s), h.shape[0], 1, sizeof(int32_t));
  if (!r->part->labels) return DATASET_ERROR_MEMORY;
  return read_elements(r, s, &h, h.shape[0], 1, store_label);
}

enum dataset_status array_read(struct reading *r, const char *path, const char *labels,
                               array_header_reader header) {
  struct source *s;
  enum dataset_status status = source_open(r->d, path, &s);
  if (status) return status;
  status = read_values(r, s, header);
  source_close(s);
  if (status || !labels) return status;
  status = source_open(r->d, labels, &s);
  if (status) return status;
  status = read_labels(r, s, path, header);
  source_close(s);
  return status;
}

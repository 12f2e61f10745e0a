/* IDX, the format of MNIST and Fashion-MNIST: 0, 0, type, rank, then big-endian sizes and data. */
#include <config.h>

#include <string.h>

#include "format.h"

static const struct {
  unsigned char code;
  enum array_type type;
} codes[] = {{0x08, ARRAY_U1}, {0x09, ARRAY_I1}, {0x0b, ARRAY_I2},
             {0x0c, ARRAY_I4}, {0x0d, ARRAY_F4}, {0x0e, ARRAY_F8}};

static enum dataset_status find_type(struct source *s, unsigned char code, enum array_type *type) {
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    *type = codes[i].type;
    if (codes[i].code == code) return DATASET_OK;
  }
  return dataset_fail(source_dataset(s), DATASET_ERROR_FORMAT, "%s: unknown IDX data type 0x%02x",
                      source_path(s), code);
}

static enum dataset_status read_exactly(struct source *s, unsigned char *out, size_t size) {
  size_t got;
  enum dataset_status status = source_read(s, out, size, &got);
  if (status || got == size) return status;
  return dataset_fail(source_dataset(s), DATASET_ERROR_FORMAT,
                      "%s: truncated: the file ends in its "
                      "IDX header",
                      source_path(s));
}

static enum dataset_status read_header(struct source *s, struct array_header *h) {
  const int most = sizeof h->shape / sizeof *h->shape;
  unsigned char b[4];
  enum dataset_status status = read_exactly(s, b, 4);
  if (status) return status;
  if (b[0] || b[1])
    return dataset_fail(source_dataset(s), DATASET_ERROR_FORMAT,
                        "%s: not an IDX file: it begins "
                        "with %02x %02x, not 00 00",
                        source_path(s), b[0], b[1]);
  status = find_type(s, b[2], &h->type);
  if (status) return status;
  if (b[3] < 1 || b[3] > most)
    return dataset_fail(source_dataset(s), DATASET_ERROR_FORMAT,
                        "%s: %d dimensions; IDX files of 1 "
                        "to %d are read",
                        source_path(s), b[3], most);
  h->rank = b[3];
  h->big_endian = true;
  for (int i = 0; i < h->rank; i++) {
    status = read_exactly(s, b, 4);
    if (status) return status;
    h->shape[i] = (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
  }
  return DATASET_OK;
}

static enum dataset_status read_part(struct reading *r, const char *path, const char *labels) {
  return array_read(r, path, labels, read_header);
}

static bool recognises(const char *path, const unsigned char head[FORMAT_HEAD], size_t size) {
  if (strstr(path, "-ubyte") || strstr(path, ".idx")) return true;
  return size >= 4 && !head[0] && !head[1] && head[2] >= 0x08 && head[2] <= 0x0e;
}

static bool labels_beside(const char *path, char *out, size_t size) {
  return dataset_replace(path, "images-idx3", "labels-idx1", out, size) ||
         dataset_replace(path, "images.idx3", "labels.idx1", out, size);
}

/* Some mirrors write a dot for the first dash. */
static const char *const train[] = {"train-images-idx3-ubyte", "train-images.idx3-ubyte", NULL};
static const char *const train_labels[] = {"train-labels-idx1-ubyte", "train-labels.idx1-ubyte",
                                           NULL};
static const char *const test[] = {"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte", NULL};
static const char *const test_labels[] = {"t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte", NULL};

const struct dataset_format dataset_idx = {
    .name = "IDX",
    .files = {train, test},
    .labels = {train_labels, test_labels},
    .recognises = recognises,
    .labels_beside = labels_beside,
    .read = read_part,
};

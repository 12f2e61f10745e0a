/* What the data-set formats share: the table's row, and arrays of numbers. */
#ifndef LAYEROPS_TOOLS_FORMAT_H
#define LAYEROPS_TOOLS_FORMAT_H

#include "dataset.h"
#include "source.h"

#define FORMAT_HEAD 8 /* bytes at the start of a file that a format may judge it by */

/* One part's destination. max_bytes is never 0 here. */
struct reading {
  struct dataset *d;
  const struct dataset_options *options;
  int64_t max_bytes;
  struct dataset_part *part;
  int64_t features; /* set by the reader */
};

struct dataset_format {
  const char *name;
  const char *const *files[2];  /* names of the train and test file in a directory; NULL-ended */
  const char *const *labels[2]; /* of their labels; NULL where the file itself has them */
  bool (*recognises)(const char *path, const unsigned char head[FORMAT_HEAD], size_t size);
  /* Where the labels of a lone file should lie; false where its name tells nothing. */
  bool (*labels_beside)(const char *path, char *out, size_t size);
  /* labels may be NULL. Allocates part->x and part->labels; the caller frees them. */
  enum dataset_status (*read)(struct reading *r, const char *path, const char *labels);
};

extern const struct dataset_format dataset_idx, dataset_csv, dataset_npy;

/* Writes d->error and returns the status. */
enum dataset_status dataset_fail(struct dataset *d, enum dataset_status status, const char *format,
                                 ...) __attribute__((format(printf, 3, 4)));

/* NULL, with d->error set, where count * size exceeds max_bytes or malloc fails. */
void *dataset_allocate(struct reading *r, const char *path, int64_t count, int64_t width,
                       int64_t size);

/* The range check that every format's labels pass. `where` names the place in the message. */
enum dataset_status dataset_check_label(struct reading *r, const char *where, double value);

/* True if path ends with suffix, with or without .gz behind. */
bool dataset_has_suffix(const char *path, const char *suffix);

/* out = path with its last occurrence of `from` in the file name replaced; false without one. */
bool dataset_replace(const char *path, const char *from, const char *to, char *out, size_t size);

enum array_type { ARRAY_U1, ARRAY_I1, ARRAY_I2, ARRAY_I4, ARRAY_I8, ARRAY_F4, ARRAY_F8 };

struct array_header {
  enum array_type type;
  bool big_endian;
  int rank;
  int64_t shape[8];
};

typedef enum dataset_status (*array_header_reader)(struct source *s, struct array_header *header);

/* Reads a file of values and one of labels, whose headers `header` understands. */
enum dataset_status array_read(struct reading *r, const char *path, const char *labels,
                               array_header_reader header);

#endif

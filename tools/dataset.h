/* Data sets for the command `layerops`: images or rows of numbers with one integer label each. */
#ifndef LAYEROPS_TOOLS_DATASET_H
#define LAYEROPS_TOOLS_DATASET_H

#include <stdbool.h>
#include <stdint.h>

/* A label above this is an identifier or a measured value rather than a class. */
#define DATASET_MAX_CLASSES (1 << 20)

enum dataset_status {
  DATASET_OK,
  DATASET_ERROR_FILE,   /* missing, unreadable, not a regular file */
  DATASET_ERROR_FORMAT, /* what it holds is damaged, contradictory or of an unknown kind */
  DATASET_ERROR_MEMORY  /* larger than the limit, or malloc failed */
};

enum dataset_use {
  DATASET_TRAIN,  /* both parts, with labels; a set without a test part is split */
  DATASET_PREDICT /* only `test`: the test part, or all rows where there is one part; labels may
                     be absent */
};

enum dataset_label_column {
  DATASET_LABEL_AUTO, /* the first or last CSV column if the header calls it label, class, target
                         or y; else the last */
  DATASET_LABEL_FIRST,
  DATASET_LABEL_LAST,
  DATASET_LABEL_NONE /* every CSV column is a feature; for prediction only */
};

struct dataset_options {
  enum dataset_use use;
  enum dataset_label_column label_column;
  int32_t classes; /* labels must be below this; 0: one more than the largest label */
  double scale;    /* values are divided by it; 0: 255 for 8-bit unsigned sources, 1 for others */
  int64_t
      max_bytes; /* upper limit of the memory for one part; 0: three quarters of the machine's */
};

struct dataset_part {
  int64_t count;
  float *x;        /* [count, features] */
  int32_t *labels; /* [count], NULL where there are none */
};

struct dataset {
  struct dataset_part train, test;
  int64_t features;
  int32_t classes; /* 0 where there are no labels */
  bool subset;     /* the bundled extract, not the whole set: accuracies do not compare */
  char name[128];
  char note[512];   /* what the user should know, e.g. that a test part was split off; or "" */
  char error[1024]; /* of the last failure: file, line where there is one, what is wrong */
  void *owned[4];   /* the allocations behind the parts */
};

/* Reads a directory (Fashion-MNIST's layout; train.csv, test.csv; train_x.npy, train_y.npy,
 * test_x.npy, test_y.npy; each also .gz) or a file (IDX, CSV, .npy; each also .gz). A single IDX or
 * .npy file takes its labels from the file beside it whose name says labels-idx1 for images-idx3,
 * or y for x. options may be NULL. After a failure d holds no memory, and the reason in d->error.
 */
enum dataset_status dataset_load(struct dataset *d, const char *path,
                                 const struct dataset_options *options);

/* Safe to call after any outcome of dataset_load, and twice. Keeps d->error. */
void dataset_free(struct dataset *d);

/* Where to look when the user names no data: $LAYEROPS_DATA, else the full Fashion-MNIST where the
 * system has it, else the subset that was installed, or that lies in the source tree. Returns
 * static or environment memory, NULL where there is none. */
const char *dataset_default_path(void);

#endif

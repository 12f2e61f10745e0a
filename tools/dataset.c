#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format.h"

enum { TRAIN, TEST };

/* Tried in this order; a format is one file and one line here. */
static const struct dataset_format *const formats[] = {&dataset_npy, &dataset_idx, &dataset_csv};
#define FORMATS (sizeof formats / sizeof *formats)

/* What a hostile file says may reach a terminal. */
static void clean(char *text) {
  for (; *text; text++)
    if (iscntrl((unsigned char)*text)) *text = '?';
}

enum dataset_status dataset_fail(struct dataset *d, enum dataset_status status, const char *format,
                                 ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(d->error, sizeof d->error, format, list);
  va_end(list);
  clean(d->error);
  return status;
}

void *dataset_allocate(struct reading *r, const char *path, int64_t count, int64_t width,
                       int64_t size) {
  int64_t bytes;
  if (__builtin_mul_overflow(count, width, &bytes) || __builtin_mul_overflow(bytes, size, &bytes) ||
      bytes > r->max_bytes) {
    dataset_fail(r->d, DATASET_ERROR_MEMORY,
                 "%s: %lld x %lld values of %d bytes are more than the "
                 "limit of %lld bytes",
                 path, (long long)count, (long long)width, (int)size, (long long)r->max_bytes);
    return NULL;
  }
  void *memory = malloc((size_t)bytes);
  if (!memory)
    dataset_fail(r->d, DATASET_ERROR_MEMORY, "%s: out of memory for %lld bytes", path,
                 (long long)bytes);
  return memory;
}

enum dataset_status dataset_check_label(struct reading *r, const char *where, double value) {
  int32_t classes = r->options->classes;
  const char *what = value < 0                        ? "is negative"
                     : value != trunc(value)          ? "is not an integer"
                     : !(value < DATASET_MAX_CLASSES) ? "is too large to be a class"
                     : classes && value >= classes    ? "is not below the number of classes"
                                                      : NULL;
  if (what)
    return dataset_fail(r->d, DATASET_ERROR_FORMAT,
                        "%s: label %.15g %s; labels are integers from 0 to %d", where, value, what,
                        (classes ? classes : DATASET_MAX_CLASSES) - 1);
  if (value >= r->d->classes) r->d->classes = (int32_t)value + 1;
  return DATASET_OK;
}

bool dataset_has_suffix(const char *path, const char *suffix) {
  size_t n = strlen(path), m = strlen(suffix);
  if (n >= 3 && !strcmp(path + n - 3, ".gz")) n -= 3;
  return n >= m && !strncmp(path + n - m, suffix, m);
}

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

bool dataset_replace(const char *path, const char *from, const char *to, char *out, size_t size) {
  const char *at = NULL;
  for (const char *p = file_name(path); (p = strstr(p, from)); p++) at = p;
  if (!at) return false;
  int n = snprintf(out, size, "%.*s%s%s", (int)(at - path), path, to, at + strlen(from));
  return n > 0 && (size_t)n < size;
}

/* out = directory/name, or with .gz behind, whichever is there. */
static bool find_file(const char *directory, const char *const *names, char *out, size_t size) {
  for (; names && *names; names++)
    for (int packed = 0; packed < 2; packed++) {
      int n = snprintf(out, size, "%s/%s%s", directory, *names, packed ? ".gz" : "");
      if (n > 0 && (size_t)n < size && access(out, F_OK) == 0) return true;
    }
  return false;
}

static int64_t default_limit(void) {
  int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), bytes;
  if (pages <= 0 || page <= 0 || __builtin_mul_overflow(pages, page, &bytes)) return INT64_MAX / 2;
  return bytes / 4 * 3;
}

/* Reads one file with its labels into the part; checks the widths against what was read before. */
static enum dataset_status read_file(struct dataset *d, const struct dataset_options *options,
                                     const struct dataset_format *format, int which,
                                     const char *path, const char *labels) {
  struct dataset_part *part = which == TRAIN ? &d->train : &d->test;
  struct reading r = {.d = d, .options = options, .part = part};
  r.max_bytes = options->max_bytes > 0 ? options->max_bytes : default_limit();
  enum dataset_status status = format->read(&r, path, labels);
  d->owned[2 * which] = part->x;
  d->owned[2 * which + 1] = part->labels;
  if (status) return status;
  if (d->features && r.features != d->features)
    return dataset_fail(d, DATASET_ERROR_FORMAT,
                        "%s: rows of %lld values; the training part has "
                        "%lld",
                        path, (long long)r.features, (long long)d->features);
  d->features = r.features;
  if (part->labels || options->use == DATASET_PREDICT) return DATASET_OK;
  return dataset_fail(d, DATASET_ERROR_FORMAT, "%s: has no labels, which training needs", path);
}

static enum dataset_status read_directory_part(struct dataset *d,
                                               const struct dataset_options *options,
                                               const struct dataset_format *format, int which,
                                               const char *directory, bool found[2]) {
  char path[PATH_MAX], labels[PATH_MAX];
  bool here = found[which] = find_file(directory, format->files[which], path, sizeof path);
  if (!format->labels[which])
    return here ? read_file(d, options, format, which, path, NULL) : DATASET_OK;
  bool labelled = find_file(directory, format->labels[which], labels, sizeof labels);
  const char *missing = here && !labelled && options->use == DATASET_TRAIN
                            ? format->labels[which][0]
                        : labelled && !here ? format->files[which][0]
                                            : NULL;
  if (missing)
    return dataset_fail(d, DATASET_ERROR_FILE, "%s: %s (or %s.gz) is missing beside %s", directory,
                        missing, missing, file_name(here ? path : labels));
  if (!here) return DATASET_OK;
  return read_file(d, options, format, which, path, labelled ? labels : NULL);
}

/* The bundled extract is told by a file SUBSET, whose first line is its name. */
static enum dataset_status look_for_subset(struct dataset *d, const char *directory) {
  char path[PATH_MAX];
  struct source *s;
  size_t got = 0;
  if (snprintf(path, sizeof path, "%s/SUBSET", directory) >= (int)sizeof path ||
      access(path, F_OK) != 0)
    return DATASET_OK;
  enum dataset_status status = source_open(d, path, &s);
  if (!status) status = source_read(s, d->name, sizeof d->name - 1, &got);
  source_close(s);
  d->name[got] = 0;
  d->name[strcspn(d->name, "\r\n")] = 0;
  clean(d->name);
  d->subset = true;
  return status;
}

/* Training needs the training part; prediction takes the test part, or the training part where
 * there is no other. */
static enum dataset_status load_directory(struct dataset *d, const char *directory,
                                          const struct dataset_options *options) {
  bool found[2] = {false, false}, predict = options->use == DATASET_PREDICT;
  enum dataset_status status = look_for_subset(d, directory);
  for (size_t i = 0; i < FORMATS && !found[TRAIN] && !found[TEST]; i++)
    for (int which = 0; which < 2 && !status && !(predict && found[TEST]); which++)
      status = read_directory_part(d, options, formats[i], predict ? TEST - which : which,
                                   directory, found);
  if (status || found[TRAIN] || (predict && found[TEST])) return status;
  if (found[TEST])
    return dataset_fail(d, DATASET_ERROR_FILE, "%s: holds a test part, but no training part",
                        directory);
  return dataset_fail(d, DATASET_ERROR_FILE,
                      "%s: no data set here: %s, %s or %s, each also with "
                      ".gz, is expected",
                      directory, formats[0]->files[TRAIN][0], formats[1]->files[TRAIN][0],
                      formats[2]->files[TRAIN][0]);
}

static enum dataset_status find_format(struct dataset *d, const char *path,
                                       const struct dataset_format **format) {
  unsigned char head[FORMAT_HEAD] = {0};
  struct source *s;
  size_t got = 0;
  enum dataset_status status = source_open(d, path, &s);
  if (!status) status = source_read(s, head, sizeof head, &got);
  source_close(s);
  if (status) return status;
  if (got == 0) return dataset_fail(d, DATASET_ERROR_FORMAT, "%s: is empty", path);
  for (size_t i = 0; i < FORMATS; i++) {
    *format = formats[i];
    if (formats[i]->recognises(path, head, got)) return DATASET_OK;
  }
  return dataset_fail(d, DATASET_ERROR_FORMAT,
                      "%s: of no known format: neither %s, %s nor %s (name "
                      "ending in .csv, .tsv or .txt)",
                      path, formats[0]->name, formats[1]->name, formats[2]->name);
}

static enum dataset_status load_file(struct dataset *d, const char *path,
                                     const struct dataset_options *options) {
  const struct dataset_format *format;
  char labels[PATH_MAX];
  enum dataset_status status = find_format(d, path, &format);
  if (status) return status;
  bool labelled = format->labels_beside(path, labels, sizeof labels) && access(labels, F_OK) == 0;
  return read_file(d, options, format, TRAIN, path, labelled ? labels : NULL);
}

/* The test part becomes the last sixth of the rows: Fashion-MNIST's own proportion. */
static enum dataset_status split(struct dataset *d, const char *path) {
  int64_t all = d->train.count, count = all / 6 > 0 ? all / 6 : 1;
  if (all < 2)
    return dataset_fail(d, DATASET_ERROR_FORMAT, "%s: one row; training needs a second to test on",
                        path);
  d->train.count = all - count;
  d->test = (struct dataset_part){count, d->train.x + d->train.count * d->features,
                                  d->train.labels + d->train.count};
  snprintf(d->note, sizeof d->note,
           "%s has no test part: its last %lld of %lld rows are kept for "
           "the test",
           d->name, (long long)count, (long long)all);
  return DATASET_OK;
}

static void set_name(struct dataset *d, const char *path) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  size_t from = n;
  while (from > 0 && path[from - 1] != '/') from--;
  snprintf(d->name, sizeof d->name, "%.*s", (int)(n - from < 120 ? n - from : 120), path + from);
}

static enum dataset_status load(struct dataset *d, const char *path,
                                const struct dataset_options *options) {
  struct stat st;
  if (options->use == DATASET_TRAIN && options->label_column == DATASET_LABEL_NONE)
    return dataset_fail(d, DATASET_ERROR_FORMAT, "%s: training needs a label column", path);
  if (stat(path, &st))
    return dataset_fail(d, DATASET_ERROR_FILE, "%s: cannot open: %s", path, strerror(errno));
  enum dataset_status status =
      S_ISDIR(st.st_mode) ? load_directory(d, path, options) : load_file(d, path, options);
  if (status) return status;
  if (options->use == DATASET_PREDICT && d->test.count == 0) {
    d->test = d->train;
    d->train = (struct dataset_part){0};
  }
  return options->use == DATASET_TRAIN && d->test.count == 0 ? split(d, path) : DATASET_OK;
}

enum dataset_status dataset_load(struct dataset *d, const char *path,
                                 const struct dataset_options *options) {
  static const struct dataset_options defaults;
  *d = (struct dataset){0};
  set_name(d, path);
  enum dataset_status status = load(d, path, options ? options : &defaults);
  if (status) dataset_free(d);
  return status;
}

void dataset_free(struct dataset *d) {
  for (int i = 0; i < 4; i++) free(d->owned[i]);
  memset(d->owned, 0, sizeof d->owned);
  d->train = d->test = (struct dataset_part){0};
  d->features = d->classes = 0;
}

const char *dataset_default_path(void) {
  static const char *const places[] = {"/usr/share/datasets/fashion-mnist", /* Debian's package */
                                       PKGDATADIR "/fashion-mnist-subset",
                                       SOURCE_DATADIR "/fashion-mnist-subset"};
  const char *named = getenv("LAYEROPS_DATA");
  if (named && *named) return named;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (access(places[i], R_OK) == 0) return places[i];
  return NULL;
}

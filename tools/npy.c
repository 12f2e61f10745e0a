/* NumPy's .npy, versions 1 to 3: magic, version, header length, a Python dictionary, the data. */
#include <config.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"

#define MAX_HEADER (1 << 16) /* NumPy writes 118 bytes for any plain array */

static const char magic[6] = "\x93NUMPY";

static const struct {
  char name[3];
  enum array_type type;
} types[] = {{"u1", ARRAY_U1}, {"i1", ARRAY_I1}, {"i2", ARRAY_I2}, {"i4", ARRAY_I4},
             {"i8", ARRAY_I8}, {"f4", ARRAY_F4}, {"f8", ARRAY_F8}};

/* The dictionary's text, read from left to right. */
struct text {
  struct source *s;
  const char *p;
};

static enum dataset_status bad(struct text *t, const char *what) {
  return dataset_fail(source_dataset(t->s), DATASET_ERROR_FORMAT,
                      "%s: .npy header: %s at \"%.20s\"", source_path(t->s), what, t->p);
}

static bool take(struct text *t, const char *word) {
  while (*t->p == ' ' || *t->p == '\n') t->p++;
  size_t n = strlen(word);
  if (strncmp(t->p, word, n)) return false;
  t->p += n;
  return true;
}

static bool ahead(struct text *t, char c) {
  take(t, "");
  return *t->p == c;
}

static enum dataset_status take_string(struct text *t, char *out, size_t size) {
  char quote[2] = {take(t, "'") ? '\'' : take(t, "\"") ? '"' : 0, 0};
  size_t n = quote[0] ? strcspn(t->p, quote) : 0;
  if (!quote[0] || !t->p[n] || n >= size) return bad(t, "a short string expected");
  memcpy(out, t->p, n);
  out[n] = 0;
  t->p += n + 1;
  return DATASET_OK;
}

static enum dataset_status take_shape(struct text *t, struct array_header *h) {
  if (!take(t, "(")) return bad(t, "a shape expected");
  while (!take(t, ")")) {
    if (h->rank == (int)(sizeof h->shape / sizeof *h->shape))
      return bad(t, "more than 8 dimensions");
    take(t, "");
    if (!isdigit((unsigned char)*t->p)) return bad(t, "a dimension expected");
    int64_t value = 0;
    for (; isdigit((unsigned char)*t->p); t->p++)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, *t->p - '0', &value))
        return bad(t, "a dimension above 2^63");
    h->shape[h->rank++] = value;
    if (!take(t, ",") && !ahead(t, ')')) return bad(t, "',' or ')' expected");
  }
  return DATASET_OK;
}

static enum dataset_status take_descr(struct text *t, struct array_header *h) {
  char descr[16];
  if (take(t, "[")) return bad(t, "structured data types are not read;");
  enum dataset_status status = take_string(t, descr, sizeof descr);
  if (status) return status;
  for (size_t i = 0; strlen(descr) == 3 && i < sizeof types / sizeof *types; i++)
    if (strchr("<>|", descr[0]) && !strcmp(descr + 1, types[i].name)) {
      h->type = types[i].type;
      h->big_endian = descr[0] == '>';
      return DATASET_OK;
    }
  return dataset_fail(source_dataset(t->s), DATASET_ERROR_FORMAT,
                      "%s: .npy data type '%s'; u1, i1, "
                      "i2, i4, i8, f4 and f8 are read",
                      source_path(t->s), descr);
}

static enum dataset_status take_order(struct text *t) {
  if (take(t, "False")) return DATASET_OK;
  if (!take(t, "True")) return bad(t, "True or False expected");
  return dataset_fail(source_dataset(t->s), DATASET_ERROR_FORMAT,
                      "%s: is in Fortran order; save "
                      "numpy.ascontiguousarray(a)",
                      source_path(t->s));
}

static enum dataset_status parse(struct text *t, struct array_header *h) {
  enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
  int seen = 0;
  if (!take(t, "{")) return bad(t, "'{' expected");
  while (!take(t, "}")) {
    char key[16];
    enum dataset_status status = take_string(t, key, sizeof key);
    if (status) return status;
    int which = !strcmp(key, "descr")           ? DESCR
                : !strcmp(key, "fortran_order") ? ORDER
                : !strcmp(key, "shape")         ? SHAPE
                                                : 0;
    if (!which || seen & which) return bad(t, which ? "a key twice" : "an unknown key");
    if (!take(t, ":")) return bad(t, "':' expected");
    seen |= which;
    status = which == DESCR ? take_descr(t, h) : which == ORDER ? take_order(t) : take_shape(t, h);
    if (status) return status;
    if (!take(t, ",") && !ahead(t, '}')) return bad(t, "',' or '}' expected");
  }
  if (seen != (DESCR | ORDER | SHAPE)) return bad(t, "descr, fortran_order or shape is missing");
  take(t, "");
  return *t->p ? bad(t, "text after '}'") : DATASET_OK;
}

static enum dataset_status read_exactly(struct source *s, void *out, size_t size) {
  size_t got;
  enum dataset_status status = source_read(s, out, size, &got);
  if (status || got == size) return status;
  return dataset_fail(source_dataset(s), DATASET_ERROR_FORMAT,
                      "%s: truncated: the file ends in its "
                      ".npy header",
                      source_path(s));
}

static enum dataset_status read_preamble(struct source *s, size_t *length) {
  unsigned char b[8], n[4] = {0};
  enum dataset_status status = read_exactly(s, b, sizeof b);
  if (status) return status;
  if (memcmp(b, magic, sizeof magic))
    return dataset_fail(source_dataset(s), DATASET_ERROR_FORMAT,
                        "%s: not a .npy file: the magic "
                        "string is missing",
                        source_path(s));
  if (b[6] < 1 || b[6] > 3)
    return dataset_fail(source_dataset(s), DATASET_ERROR_FORMAT,
                        "%s: .npy version %d.%d; 1 to 3 "
                        "are read",
                        source_path(s), b[6], b[7]);
  status = read_exactly(s, n, b[6] == 1 ? 2 : 4);
  *length = (size_t)n[0] | (size_t)n[1] << 8 | (size_t)n[2] << 16 | (size_t)n[3] << 24;
  if (!status && *length > MAX_HEADER)
    status = dataset_fail(source_dataset(s), DATASET_ERROR_FORMAT,
                          "%s: .npy header of %zu bytes; "
                          "at most %d are read",
                          source_path(s), *length, MAX_HEADER);
  return status;
}

static enum dataset_status read_header(struct source *s, struct array_header *h) {
  size_t length = 0;
  enum dataset_status status = read_preamble(s, &length);
  if (status) return status;
  char *header = malloc(length + 1);
  if (!header)
    return dataset_fail(source_dataset(s), DATASET_ERROR_MEMORY, "%s: out of memory",
                        source_path(s));
  status = read_exactly(s, header, length);
  if (!status) {
    header[length] = 0;
    struct text t = {s, header};
    status = strlen(header) == length ? parse(&t, h) : bad(&t, "a zero byte");
  }
  free(header);
  return status;
}

static enum dataset_status read_part(struct reading *r, const char *path, const char *labels) {
  return array_read(r, path, labels, read_header);
}

static bool recognises(const char *path, const unsigned char head[FORMAT_HEAD], size_t size) {
  return dataset_has_suffix(path, ".npy") ||
         (size >= sizeof magic && !memcmp(head, magic, sizeof magic));
}

static bool labels_beside(const char *path, char *out, size_t size) {
  return dataset_replace(path, "x.npy", "y.npy", out, size);
}

static const char *const train[] = {"train_x.npy", NULL}, *const test[] = {"test_x.npy", NULL};
static const char *const train_labels[] = {"train_y.npy", NULL};
static const char *const test_labels[] = {"test_y.npy", NULL};

const struct dataset_format dataset_npy = {
    .name = ".npy",
    .files = {train, test},
    .labels = {train_labels, test_labels},
    .recognises = recognises,
    .labels_beside = labels_beside,
    .read = read_part,
};

/* Reads the .npy files of t/data that t/pytorch made: <f4, <f8 or <i4, in C order. */
#ifndef LO_TEST_NPY_H
#define LO_TEST_NPY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct npy {
  char type[4]; /* "<f4", "<f8" or "<i4" */
  int rank;
  int64_t shape[4];
  int64_t count;
  void *data; /* of that type; NULL where the file could not be read */
} npy;

static inline const float *npy_f32(const npy *a) {
  return strcmp(a->type, "<f4") ? NULL : a->data;
}
static inline const double *npy_f64(const npy *a) {
  return strcmp(a->type, "<f8") ? NULL : a->data;
}
static inline const int32_t *npy_i32(const npy *a) {
  return strcmp(a->type, "<i4") ? NULL : a->data;
}

static inline void npy_free(npy *a) {
  free(a->data);
  *a = (npy){0};
}

static inline int npy_parse(npy *a, const char *header) {
  const char *descr = strstr(header, "'descr': '"), *shape = strstr(header, "'shape': (");
  if (!descr || !shape || !strstr(header, "'fortran_order': False")) return 0;
  memcpy(a->type, descr + 10, 3);
  a->count = 1;
  for (const char *p = shape + 10; *p != ')' && a->rank < 4; p += strspn(p, ", ")) {
    char *end;
    a->shape[a->rank] = strtoll(p, &end, 10);
    a->count *= a->shape[a->rank++];
    if (end == p) return 0;
    p = end;
  }
  return !strcmp(a->type, "<f4") || !strcmp(a->type, "<f8") || !strcmp(a->type, "<i4");
}

/* t/data/NAME.npy of the source tree. */
static inline npy npy_load(const char *name) {
  const char *source = getenv("top_srcdir");
  unsigned char head[10];
  char path[4096], header[4096];
  npy a = {0};
  snprintf(path, sizeof path, "%s/t/data/%s.npy", source ? source : ".", name);
  FILE *file = fopen(path, "rb");
  size_t n = file && fread(head, 10, 1, file) == 1 ? head[8] | (size_t)head[9] << 8 : 0;
  if (n > 0 && n < sizeof header && fread(header, n, 1, file) == 1) {
    header[n] = 0;
    size_t size = npy_parse(&a, header) ? (a.type[2] == '8' ? 8 : 4) : 0;
    if (size) a.data = malloc(a.count > 0 ? (size_t)a.count * size : 1);
    if (a.data && a.count > 0 && fread(a.data, (size_t)a.count * size, 1, file) != 1) npy_free(&a);
  }
  if (file) fclose(file);
  if (!a.data) printf("# %s: cannot be read\n", path);
  return a;
}

#endif

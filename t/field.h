/* What the two programs of field cases share: inputs that broke other libraries. Each test is named
 * after where its input comes from. Views are of host memory, so that one text serves all devices.
 */
#ifndef LO_TEST_FIELD_H
#define LO_TEST_FIELD_H

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "t/devices.h"

static const char *device;
static layerops_context *ctx;

static inline layerops_matrix mat(const void *data, int64_t rows, int64_t cols) {
  return layerops_host_matrix(data, LAYEROPS_F32, rows, cols);
}
static inline layerops_matrix strided(const void *data, int64_t rows, int64_t cols,
                                      int64_t stride) {
  layerops_matrix m = mat(data, rows, cols);
  m.stride = stride;
  return m;
}

static inline float *numbers(int64_t count) {
  float *p = malloc((size_t)(count > 0 ? count : 1) * sizeof *p);
  if (!p) abort();
  return p;
}

/* Small integers, whose products and sums are exact. */
static inline float *integers(int64_t count, unsigned seed) {
  float *p = numbers(count);
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    p[i] = (float)(int)(seed >> 29) - 3;
  }
  return p;
}

static inline float *constant(int64_t count, float value) {
  float *p = numbers(count);
  for (int64_t i = 0; i < count; i++) p[i] = value;
  return p;
}

/* Room for `count` floats that ends where a page without access begins. */
static inline float *fenced(int64_t count, void **pages, size_t *bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (size_t)count * sizeof(float);
  size_t room = (size + page - 1) / page * page;
  char *p = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || mprotect(p + room, page, PROT_NONE)) abort();
  *pages = p;
  *bytes = room + page;
  return (float *)(p + room - size);
}

/* C = op(A) op(B) of tight matrices, in plain loops; exact for integers. */
static inline int product_is(const float *a, int ta, const float *b, int tb, const float *c,
                             int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb,
                             int64_t ldc) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t p = 0; p < k; p++)
        sum +=
            (double)a[ta ? p * lda + i : i * lda + p] * (double)b[tb ? j * ldb + p : p * ldb + j];
      if (sum != (double)c[i * ldc + j]) {
        diag("m=%lld n=%lld k=%lld trans=%d%d: c[%lld,%lld] is %g, not %g", (long long)m,
             (long long)n, (long long)k, ta, tb, (long long)i, (long long)j, (double)c[i * ldc + j],
             sum);
        return 0;
      }
    }
  return 1;
}

static inline layerops_status gemm(layerops_context *on, const float *a, int ta, const float *b,
                                   int tb, float *c, int64_t m, int64_t n, int64_t k) {
  layerops_gemm_args args = {.a = ta ? mat(a, k, m) : mat(a, m, k),
                             .b = tb ? mat(b, n, k) : mat(b, k, n),
                             .c = mat(c, m, n),
                             .trans_a = ta,
                             .trans_b = tb};
  return layerops_gemm(on, &args);
}

/* A product of small integers, checked. */
static inline int product(layerops_context *on, int64_t m, int64_t n, int64_t k, int trans) {
  float *a = integers(m * k, 1), *b = integers(k * n, 2), *c = constant(m * n, NAN);
  int ta = trans & 1, tb = trans >> 1;
  int good = !gemm(on, a, ta, b, tb, c, m, n, k) &&
             product_is(a, ta, b, tb, c, m, n, k, ta ? m : k, tb ? k : n, n);
  free(a);
  free(b);
  free(c);
  return good;
}

/* One test: the device's name and what broke whom. */
#define CASE(good, ...) field_case(good, __VA_ARGS__)
__attribute__((format(printf, 2, 3))) static inline void field_case(int good, const char *format,
                                                                    ...) {
  char text[256];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  ok(good, "%s: %s", device, text);
}

static inline int on_host(void) {
  return !strcmp(device, "cpu") || !strcmp(device, "reference");
}

#endif

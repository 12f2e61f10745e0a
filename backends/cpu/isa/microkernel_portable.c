/* 4 x 8 in the compiler's own vectors of 4 floats, which every processor has in some form: 8 sums,
 * 2 vectors of W, 1 broadcast: 11 of SSE2's 16 registers. */
#include <config.h>

#include <stdint.h>
#include <string.h>

typedef float vec __attribute__((vector_size(16)));
#define LANES 4

static inline vec vec_zero(void) {
  return (vec){0, 0, 0, 0};
}
static inline vec vec_load(const float *p) {
  vec v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline vec vec_load_part(const float *p, int n) {
  vec v = vec_zero();
  for (int i = 0; i < n; i++) v[i] = p[i];
  return v;
}
static inline void vec_store(float *p, vec v) {
  memcpy(p, &v, sizeof v);
}
static inline void vec_store_part(float *p, vec v, int n) {
  for (int i = 0; i < n; i++) p[i] = v[i];
}
static inline vec vec_broadcast(const float *p) {
  return (vec){*p, *p, *p, *p};
}
static inline vec vec_fma(vec a, vec b, vec c) {
  return a * b + c;
}
static inline vec vec_add(vec a, vec b) {
  return a + b;
}
static inline vec vec_max(vec a, vec b) {
  typedef int32_t mask __attribute__((vector_size(16)));
  const mask greater = a > b;
  return (vec)(((mask)a & greater) | ((mask)b & ~greater));
}
static inline void vec_store_sums(float *p, vec a, vec b, vec c, vec d) {
  const vec v[4] = {a, b, c, d};
  for (int i = 0; i < 4; i++) p[i] = (v[i][0] + v[i][2]) + (v[i][1] + v[i][3]);
}

static inline vec vec_join(const float *const *x, int parts) {
  (void)parts; /* a slice is no narrower than a vector */
  return vec_load(x[0]);
}

#define RESIDENT  0
#define MOST_ROWS 4
#define VECTORS   2
#define TILES(X)  UPTO_4(X, 1) UPTO_4(X, 2)
#define TILE_ROWS                                                                                  \
  { 4, 4 }
#define DOT_COLUMNS 2
#define DOTS(X)     UPTO_4(X, 1) UPTO_4(X, 2)
#define DOT_ROWS                                                                                   \
  { 4, 4 }
#define SLICE_ROWS    4
#define SLICE_VECTORS 2
#define SLICES(X)     X(4, 1, 1) X(4, 2, 1)
#define SHAPE         "4x8"
#define FLOPS_PER_NS  20
#include "backends/cpu/isa/microkernel.h"

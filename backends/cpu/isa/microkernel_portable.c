/* 4 x 8 in the compiler's own vectors of 4 floats, which every processor has in some form: 8 sums,
 * 2 vectors of W, 1 broadcast: 11 of SSE2's 16 registers. */
#include <config.h>

#include <string.h>

typedef float vec __attribute__((vector_size(16)));
#define LANES    4
#define MAX_ROWS 4

static inline vec vec_zero(void) {
  return (vec){0, 0, 0, 0};
}
static inline vec vec_load(const float *p) {
  vec v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline void vec_store(float *p, vec v) {
  memcpy(p, &v, sizeof v);
}
static inline vec vec_broadcast(const float *p) {
  return (vec){*p, *p, *p, *p};
}
static inline vec vec_fma(vec a, vec b, vec c) {
  return a * b + c;
}
#define ROWS(X)      X(1) X(2) X(3) X(4)
#define PANEL        "8"
#define FLOPS_PER_NS 20
#include "backends/cpu/isa/microkernel.h"

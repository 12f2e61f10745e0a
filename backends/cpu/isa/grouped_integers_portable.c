/* 4 x 8 in the compiler's own vectors of 4 words. The products of a pair's halves are made by
 * shifts, which every vector unit has. */
#include <config.h>

#include <stdint.h>
#include <string.h>

typedef int32_t vec __attribute__((vector_size(16)));
typedef uint32_t unsigned_vec __attribute__((vector_size(16)));
#define LANES    4
#define MAX_ROWS 4

static inline vec vec_zero(void) {
  return (vec){0, 0, 0, 0};
}
static inline vec vec_load(const void *p) {
  vec v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline void vec_store(void *p, vec v) {
  memcpy(p, &v, sizeof v);
}
static inline vec vec_word(uint32_t x) {
  const int32_t word = (int32_t)x;
  return (vec){word, word, word, word};
}
static inline vec lower(vec v) {
  return (vec)((unsigned_vec)v << 16) >> 16;
}
static inline vec upper(vec v) {
  return v >> 16;
}
static inline vec vec_dot(vec x, vec w, vec sums) {
  return (vec)((unsigned_vec)sums + (unsigned_vec)(lower(x) * lower(w)) +
               (unsigned_vec)(upper(x) * upper(w)));
}
#define ROWS(X)      X(1) X(2) X(3) X(4)
#define FLOPS_PER_NS 5
#include "backends/cpu/isa/grouped_integers.h"

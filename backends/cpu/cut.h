/* Arithmetic of sizes, for plans that cut work. Small products feel each division. */
#ifndef LO_CPU_CUT_H
#define LO_CPU_CUT_H

#include <stdint.h>

static inline int64_t lo_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline int64_t lo_most(int64_t a, int64_t b) {
  return a > b ? a : b;
}
/* How many pieces of `by` cover x. */
static inline int64_t lo_cuts(int64_t x, int64_t by) {
  return by == 1 ? x : x <= by ? x > 0 : (x + by - 1) / by;
}
static inline int64_t lo_round_up(int64_t x, int64_t to) {
  return lo_cuts(x, to) * to;
}
/* `total` in equal blocks of at most `size`, multiples of `unit`. */
static inline int64_t lo_even(int64_t total, int64_t size, int64_t unit) {
  if (total <= size) return lo_most(total, 1);
  size = lo_most(size / unit * unit, unit);
  return lo_round_up(lo_cuts(total, lo_cuts(total, size)), unit);
}

#endif

/* A permutation of [0, n) by a key, index by index and without memory: the order of an epoch. */
#ifndef LO_PERMUTATION_H
#define LO_PERMUTATION_H

#include <stdint.h>

#define LO_PERMUTATION_ROUNDS 24

typedef struct lo_permutation {
  uint64_t n;
  uint32_t left_bits, right_bits;
  uint32_t keys[LO_PERMUTATION_ROUNDS];
} lo_permutation;

/* The same (n, seed, epoch) gives the same permutation on every platform. n may be 0. */
void lo_permutation_init(lo_permutation *p, uint64_t n, uint64_t seed, uint64_t epoch);

/* Where sample i of the epoch lies in the data; i < n. */
uint64_t lo_permutation_at(const lo_permutation *p, uint64_t i);

#endif

/* VariablePhilox of Mitchell, Stokes, Frank and Holmes, "Bandwidth-Optimal Random Shuffling for
 * GPUs" (ACM Transactions on Parallel Computing 9, 2022; arXiv 2106.06161): a Feistel network of 24
 * rounds whose round function is Philox's multiplication, on the smallest power of two that holds
 * n. An index that leaves [0, n) is sent through again until it is back (cycle walking): under two
 * rounds on average. The round keys come from Philox4x32-10 keyed by the seed. */
#include <config.h>

#include "network/permutation.h"
#include "common/philox.h"

#define MULTIPLIER                                                                                 \
  0xD2B74407B1CE6E93u /* Philox2x64's; odd, so that the low half is a bijection                    \
                       */

/* With 4, as published, orders of five fail the chi-square test in t/random.c. */
#define LEAST_BITS 8

static uint32_t bits_of(uint64_t n) {
  uint32_t bits = LEAST_BITS;
  while (bits < 64 && (n - 1) >> bits) bits++;
  return bits;
}

static uint32_t mask(uint32_t bits) {
  return bits >= 32 ? UINT32_MAX : (UINT32_C(1) << bits) - 1;
}

void lo_permutation_init(lo_permutation *p, uint64_t n, uint64_t seed, uint64_t epoch) {
  uint32_t bits = n > 1 ? bits_of(n) : LEAST_BITS;
  p->n = n;
  p->left_bits = bits / 2;
  p->right_bits = bits - p->left_bits;
  for (uint32_t i = 0; i < LO_PERMUTATION_ROUNDS; i += 4)
    lo_philox(seed, LO_PHILOX_PERMUTATION, i / 4, epoch, p->keys + i);
}

/* One pass over [0, 2^bits). */
static uint64_t pass(const lo_permutation *p, uint64_t i) {
  uint32_t odd_bits = p->right_bits - p->left_bits;
  uint32_t left = (uint32_t)(i >> p->right_bits), right = (uint32_t)i & mask(p->right_bits);
  for (int round = 0; round < LO_PERMUTATION_ROUNDS; round++) {
    uint64_t product = (uint64_t)left * MULTIPLIER;
    uint32_t high = (uint32_t)(product >> 32), low = (uint32_t)product;
    left = (high ^ p->keys[round] ^ right) & mask(p->left_bits);
    right = (low << odd_bits | (uint32_t)((uint64_t)right >> p->left_bits)) & mask(p->right_bits);
  }
  return (uint64_t)left << p->right_bits | right;
}

uint64_t lo_permutation_at(const lo_permutation *p, uint64_t i) {
  if (i >= p->n) return i; /* outside, walking might never come back */
  do {
    i = pass(p, i);
  } while (i >= p->n);
  return i;
}

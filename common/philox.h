/* Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011), as Random123 has it: numbers as a function of a key and a counter, without a state. */
#ifndef LO_PHILOX_H
#define LO_PHILOX_H

#include <stdint.h>

/* What a number is for, so that no two uses of one seed share numbers. Stored networks and
 * masks depend on the values. */
enum { LO_PHILOX_UNIFORM = 0, LO_PHILOX_NORMAL = 1, LO_PHILOX_PERMUTATION = 2, LO_PHILOX_MASK = 3 };

/* Four words for (seed, purpose, a, b): the key is the seed, low word first, the counter is
 * {low b, high b, a, purpose}. */
void lo_philox(uint64_t seed, uint32_t purpose, uint32_t a, uint64_t b, uint32_t out[4]);

#endif

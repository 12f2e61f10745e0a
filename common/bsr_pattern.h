/* What the published patterns share. */
#ifndef LO_BSR_PATTERN_H
#define LO_BSR_PATTERN_H

#include "common/bsr.h"

/* Numbers of a pattern and a seed, one after the other: number i is word i % 4 of counter i / 4. */
typedef struct lo_draws {
  uint64_t seed, next;
  uint32_t pattern, words[4];
} lo_draws;

lo_draws lo_draws_of(const layerops_bsr_pattern_args *a);
/* True with a probability. */
bool lo_draw(lo_draws *draws, double probability);
/* In [0, n), n in [1, 2^31): a number's frequency is off by less than n / 2^32 of itself. */
int64_t lo_draw_below(lo_draws *draws, int64_t n);

/* Write the mask, of a grid that has blocks. */
layerops_status lo_bsr_barabasi_albert(const layerops_bsr_pattern_args *a);
layerops_status lo_bsr_watts_strogatz(const layerops_bsr_pattern_args *a);

#endif

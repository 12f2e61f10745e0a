#ifndef BENCH_VARY_H
#define BENCH_VARY_H

/* Rows beside a suite's, so that it can be seen whether speed on the suite is speed elsewhere. */

#include <stdbool.h>

#include "bench/suite.h"

/* Multiplies each size by a factor from 0.7 to 1.4 (uniform in its logarithm), and makes half of
   them odd; blocks keep their size, so n and k count in blocks. The factors depend on the seed and
   the row's id alone. The shape is appended to the id, as in sq512:419x633x580. False when memory
   is short. */
bool bench_vary(struct bench_row *row, uint64_t seed);

/* Give a block-sparse row this density, or another pattern of the same kind and density, which the
   id shows too, as in sq2048_b32_d10:density=0.3 and sq2048_b32_d10:pattern=7. It is the id that a
   pattern is drawn from. False when memory is short. */
bool bench_vary_density(struct bench_row *row, double density);
bool bench_vary_pattern(struct bench_row *row, uint64_t seed);

#endif

#ifndef BENCH_PEERS_COMMON_H
#define BENCH_PEERS_COMMON_H

/* What several adapters share. */

#include <stdint.h>

#include "bench/peer.h"

#define BENCH_PEER_EXPORT __attribute__((visibility("default")))

/* For peers whose product has no epilogue: y = act(y + bias) over rows of n floats, STRIDE floats
   apart, on the calling thread; bias may be NULL. Vectorised. */
void bench_epilogue(float *y, int64_t rows, int64_t n, int64_t stride, const float *bias,
                    int activation);

/* The same over a tight matrix, on so many threads. Does nothing where there is nothing to do. */
void bench_epilogue_parallel(float *y, int64_t rows, int64_t n, const float *bias, int activation,
                             int threads);

/* The index of the fastest of COUNT ways, each tried for some milliseconds; -1 if all failed. */
int bench_pick(void *state, bool (*run)(void *state, int way, int64_t calls), int count);

#endif

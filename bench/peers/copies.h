#ifndef BENCH_PEERS_COPIES_H
#define BENCH_PEERS_COPIES_H

/* Weights in a form of a peer's own, on a CUDA device: as many copies as the recorded calls have
   weights, so that the peer's come from memory as often as the others'. */

#include <stddef.h>

#include "bench/peer.h"

struct bench_copies {
  char *first;
  size_t bytes; /* of each, rounded up */
  int64_t count;
};

/* Of what is in host memory (NULL: undefined). False: the device refused. */
bool bench_copies_make(const struct bench_steps_list *list, const void *host, size_t bytes,
                       struct bench_copies *copies);

/* The copy for a step of the list. */
static inline void *bench_copies_at(const struct bench_copies *copies,
                                    const struct bench_steps_list *list,
                                    const struct bench_step *step) {
  return copies->first + (size_t)((step - list->steps) % copies->count) * copies->bytes;
}

void bench_copies_free(struct bench_copies *copies);

#endif

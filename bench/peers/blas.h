#ifndef BENCH_PEERS_BLAS_H
#define BENCH_PEERS_BLAS_H

/* A peer that is a BLAS: its adapter is a table (bench/blas.h) and BENCH_BLAS_PEER. */

#include "bench/blas.h"
#include "bench/peers/common.h"

bool bench_blas_setup(const struct bench_blas *blas, const struct bench_layer *layer, void **state,
                      char *label, size_t label_size, char *why, size_t why_size);
bool bench_blas_run(void *state, int64_t calls);
bool bench_blas_fetch(void *state);
bool bench_blas_pack(void *state);
void bench_blas_close(void *state);

#define BENCH_BLAS_PEER(name_, weights_, blas_)                                                    \
  static bool setup(const struct bench_layer *layer, void **state, char *label, size_t label_size, \
                    char *why, size_t why_size) {                                                  \
    return bench_blas_setup(&(blas_), layer, state, label, label_size, why, why_size);             \
  }                                                                                                \
  BENCH_PEER_EXPORT extern const struct bench_peer layerops_bench_peer;                            \
  const struct bench_peer layerops_bench_peer = {.abi = BENCH_PEER_ABI,                            \
                                                 .name = name_,                                    \
                                                 .weights = weights_,                              \
                                                 .setup = setup,                                   \
                                                 .run = bench_blas_run,                            \
                                                 .fetch = bench_blas_fetch,                        \
                                                 .pack = bench_blas_pack,                          \
                                                 .close = bench_blas_close,                        \
                                                 .blas = &(blas_)}

#endif

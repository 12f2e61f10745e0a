#ifndef BENCH_PEERS_LIBXSMM_SPARSE_H
#define BENCH_PEERS_LIBXSMM_SPARSE_H

/* Block-sparse products as loops over libxsmm's batch-reduce kernels, what its users write: each in
   several ways, of which the fastest is kept. f32. */

#include "bench/peer.h"

struct bench_xsmm_sparse;

/* NULL: memory is short, or the generator has no kernel. */
struct bench_xsmm_sparse *bench_xsmm_sparse_make(const struct bench_layer *layer);
void bench_xsmm_sparse_run(struct bench_xsmm_sparse *sparse);
void bench_xsmm_sparse_pack(struct bench_xsmm_sparse *sparse);
void bench_xsmm_sparse_label(const struct bench_xsmm_sparse *sparse, char *label, size_t size);
void bench_xsmm_sparse_free(struct bench_xsmm_sparse *sparse);

#endif

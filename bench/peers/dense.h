#ifndef BENCH_PEERS_DENSE_H
#define BENCH_PEERS_DENSE_H

/* A layer's product as one dense product, for peers that have no other. W of a block-sparse row is
   expanded beforehand, with zeros where no block is kept; wgrad makes all of it. */

#include "bench/peers/common.h"

/* C [rows, cols] = A' [rows, depth] B' [depth, cols], row-major; the transposed ones lie as
   [depth, rows] and [cols, depth]. */
struct bench_dense {
  int64_t rows, cols, depth;
  bool transpose_a, transpose_b;
  int64_t lda, ldb, ldc;
  void *a, *b, *c;
  void *expanded; /* W of a block-sparse row, which is one of these; else NULL */
};

/* The same without operands. */
struct bench_dense bench_dense_shape(enum bench_product product, int64_t m, int64_t n, int64_t k);

/* Elements are of so many bytes. False: memory is short. */
bool bench_dense_make(const struct bench_layer *layer, size_t size, struct bench_dense *dense);

/* What wgrad made, of the kept blocks, into the layer's w; else nothing is to be done. */
void bench_dense_gather(const struct bench_layer *layer, size_t size,
                        const struct bench_dense *dense);

/* W again from the layer's kept blocks. */
void bench_dense_expand(const struct bench_layer *layer, size_t size, void *w);

void bench_dense_free(struct bench_dense *dense);

#endif

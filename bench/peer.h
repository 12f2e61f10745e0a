#ifndef BENCH_PEER_H
#define BENCH_PEER_H

/* A peer is a library that does what layerops does. Its adapter (bench/peers/NAME.c) is a loadable
   module of its own: the tool needs none of them, two peers that define the same symbols do not
   meet, and one that is missing when the tool runs is listed with the loader's reason. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/blas.h"
#include "bench/pattern.h"
#include "bench/suite.h"

#define BENCH_PEER_ABI    3
#define BENCH_PEER_SYMBOL "layerops_bench_peer"

/* How weights come to a call: as they are stored, or in a layout of the library's own, made
   beforehand. */
enum { BENCH_PLAIN = 1, BENCH_PACKED = 2 };

/* What to compute: Y = act(X W^T + bias), all matrices tight and row-major, in host memory, of one
   data type; bias too. int8: X is u8, W i8, bias and Y are f32, and Y = act(scale_x scale_w[j] X
   W^T
   + bias). A block-sparse row has a pattern, its kept blocks one after the other in w,
   and no bias. */
struct bench_layer {
  const struct bench_row *row;
  const struct bench_pattern *pattern; /* NULL: dense */
  const char *device;                  /* "cpu", "opencl:P.D", "cuda:N" */
  const char *dtype;                   /* "f32", "f16", "bf16", "int8" */
  int threads;
  bool packed; /* the weights are packed by setup, else each call takes w itself */
  const void *x, *w, *bias;
  void *y;
  float scale_x;
  const float *scale_w; /* [n]; NULL: not int8 */
};

struct bench_peer {
  int abi; /* BENCH_PEER_ABI */
  const char *name;
  int weights; /* BENCH_PLAIN, BENCH_PACKED or both: each is a contender */
  /* Prepares the layer in the fastest of the ways that the peer has: label names it and its
     version. False: why says what the peer lacks. */
  bool (*setup)(const struct bench_layer *layer, void **state, char *label, size_t label_size,
                char *why, size_t why_size);
  bool (*run)(void *state, int64_t calls); /* as in struct bench_contender */
  bool (*fetch)(void *state);              /* after run: puts the result into the layer's y */
  bool (*pack)(void *state); /* packs the weights once more, to be timed; needed by BENCH_PACKED */
  void (*close)(void *state);
  const struct bench_blas *blas; /* NULL: not a BLAS */
};

#endif

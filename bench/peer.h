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

#define BENCH_PEER_ABI    5
#define BENCH_PEER_SYMBOL "layerops_bench_peer"

/* How weights come to a call: as they are stored, or in a layout of the library's own, made
   beforehand. */
enum { BENCH_PLAIN = 1, BENCH_PACKED = 2 };

/* One call of a graph: where its operands lie on the device. */
struct bench_step {
  int layer; /* 1: the way back of a chain, from [m,n] to [m,k]; else 0, from [m,k] to [m,n] */
  void *x, *w, *y; /* the product makes one of the others */
  const void *bias;
  const float *scale_w;
};

/* Calls that follow each other on a GPU. A peer records them as one graph, in the stream, and the
   tool times it, as it does its own. */
struct bench_steps_list {
  const struct bench_step *steps;
  int64_t count;
  void *stream; /* a CUstream: everything happens in its order */
  /* Replays once, behind what makes the operands as warm or cold as they are to be, and answers the
     seconds by the device's clock; negative: it failed. */
  double (*time)(void *clock, bool (*replay)(void *state), void *state);
  void *clock;
};

/* What to compute: Y = act(X W^T + bias), all matrices tight and row-major, in host memory, of one
   data type; bias too. int8: X is u8, W i8, bias and Y are f32, and Y = act(scale_x scale_w[j] X
   W^T + bias); on a GPU X, W and Y are i8, the bias f32, and Y = act(...) / scale_y, rounded. A
   block-sparse row has a pattern, its kept blocks one after the other in w, and no bias; of it the
   product may also be X = Y W or W = Y^T X. Its i8 W has a scale a block. */
struct bench_layer {
  const struct bench_row *row;
  enum bench_product product;
  const struct bench_pattern *pattern; /* NULL: dense */
  const char *device;                  /* "cpu", "opencl:P.D", "cuda:N" */
  const char *dtype;                   /* "f32", "f16", "bf16", "int8", "tf32" */
  int threads;
  bool packed;     /* the weights are packed by setup, else each call takes w itself */
  void *x, *w, *y; /* the product makes one of the others */
  const void *bias;
  float scale_x;
  const float *scale_w; /* [n], or of each kept block; NULL: not of integers */
  float scale_y;
  const struct bench_steps_list *list; /* NULL: x, w, bias and y are what there is */
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
  /* After run: puts the result where the layer has it. After replay: where the last step has it;
     NULL: it is there. */
  bool (*fetch)(void *state);
  /* In place of both where the layer has a list: enqueues the recorded steps. NULL: the peer takes
     no list. */
  bool (*replay)(void *state);
  bool (*pack)(void *state); /* packs the weights once more, to be timed; needed by BENCH_PACKED */
  void (*close)(void *state);
  const struct bench_blas *blas; /* NULL: not a BLAS */
};

#endif

#ifndef BENCH_STEPS_H
#define BENCH_STEPS_H

/* The calls of a graph: which operands each takes, and how warm these are. Both the library and the
   peers record the same list. */

#include <layerops/layerops.h>

#include "bench/operands.h"
#include "bench/peer.h"

/* Before each repetition: its operands were just used; or they come from memory, since calls take
   turns on many sets of them and the caches were filled with something else. */
enum bench_residency { BENCH_WARM, BENCH_COLD, BENCH_RESIDENCIES };

/* Calls that do not depend on each other; each call's X is the Y of the one before; one call. */
enum bench_way { BENCH_GRAPH, BENCH_CHAIN, BENCH_ALONE };

/* Their names, by index; end with NULL. */
extern const char *const bench_residencies[], *const bench_ways[];

#define BENCH_FEW_CALLS  20  /* of a graph, */
#define BENCH_MANY_CALLS 100 /* where one takes less than */
#define BENCH_SHORT_CALL 40e-6

/* X and Y are absent in a chain, whose calls hand them on. Where bsr is not NULL, w are its values;
   of wgrad w is a matrix of its own, and bsr has the pattern alone. */
struct bench_set {
  layerops_matrix x, w, bias, scale_w, y;
  layerops_bsr *bsr;
};

struct bench_call_operands {
  struct bench_set views;
  const struct bench_operands *host;
  int64_t set; /* whose weights they are */
};

#define BENCH_RING 4

struct bench_steps {
  layerops_context *ctx;
  enum bench_way way;
  int64_t count; /* calls of the graph */
  const struct bench_operands *layers[2];
  int layer_count; /* 2: the second leads back, from n to k */
  struct bench_row back_row;
  struct bench_operands back;
  struct bench_set *sets;
  int64_t set_count;                /* set i holds the weights of layer i % layer_count */
  layerops_matrix ring[BENCH_RING]; /* of a chain: Y and X */
  layerops_matrix scale_x, scale_y;
  layerops_buffer *buffer;
  int64_t used;    /* bytes of it */
  const char *why; /* what a refusal means; NULL: the library's last error says it */
};

/* Bytes of one set. */
double bench_steps_bytes(const struct bench_operands *operands);

/* Puts the operands on the device, in as many sets as the residency asks for; count is
   BENCH_FEW_CALLS, or 1. Free them in either case. `operands` must outlive them, and is shared.
   UNSUPPORTED where the row makes no chain: with Y of another type than X, with block-sparse
   weights that are not square, of backward products; and where the row has none of these: it is
   dense, or of different types. */
layerops_status bench_steps_make(layerops_context *ctx, const struct bench_operands *operands,
                                 enum bench_residency residency, enum bench_way way,
                                 struct bench_steps *steps);

void bench_steps_free(struct bench_steps *steps);

/* The operands of a call of the graph. */
struct bench_call_operands bench_steps_at(const struct bench_steps *steps, int64_t call);

/* The whole list as peers take it, to be freed; NULL: memory is short. */
struct bench_step *bench_steps_list(const struct bench_steps *steps);

/* Fills the outputs to be checked with NaN, or the first X of a chain with its data. */
layerops_status bench_steps_poison(const struct bench_steps *steps);

/* Waits, and checks the last call of each layer, with what was its X. */
layerops_status bench_steps_check(const struct bench_steps *steps, struct bench_latitude latitude,
                                  struct bench_check *check);

/* The element type of the library of that name. */
layerops_type bench_element(const struct bench_type *type);

#endif

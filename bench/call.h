#ifndef BENCH_CALL_H
#define BENCH_CALL_H

/* One call of the library with its operands on the device, to be repeated. */

#include <layerops/layerops.h>
#include <stdbool.h>

#include "bench/steps.h"

#define BENCH_CALL_BUFFERS 16

struct bench_call {
  layerops_context *ctx;
  layerops_op op;
  union {
#define BENCH_CALL_ARGS(name, number) layerops_##name##_args name;
    LAYEROPS_OP_LIST(BENCH_CALL_ARGS)
#undef BENCH_CALL_ARGS
  } args;
  layerops_buffer *buffers[BENCH_CALL_BUFFERS];
  int buffer_count;
  layerops_bsr *bsr;
  layerops_weights **weights; /* packed, */
  int64_t weights_count;
  layerops_matrix w;               /* the first of them from w */
  const struct bench_steps *steps; /* what it repeats; NULL: its arguments, which stay */
  bool packed;
  layerops_graph *graph;  /* many calls at once, so that the host does not show */
  layerops_status failed; /* the first failure of bench_call_run; its sentence is the last error */
};

/* The calls of a list, with the weights as they are or, dense ones, packed; its arguments are those
   of the first. */
layerops_status bench_call_steps(const struct bench_steps *steps, bool packed,
                                 struct bench_call *call);

/* Packs W for the call, with which it goes. */
layerops_status bench_call_weights(struct bench_call *call, layerops_matrix w, bool backward,
                                   const layerops_weights **packed);

/* Packs the first weights once more, and waits. */
layerops_status bench_call_pack(struct bench_call *call);

/* Creates a buffer with this content (NULL: undefined) that goes with the call, and its view. */
layerops_status bench_call_matrix(struct bench_call *call, const void *host, layerops_type type,
                                  int64_t batch, int64_t rows, int64_t cols,
                                  layerops_matrix *matrix);

/* Does the call once and waits; on a GPU, records it for bench_call_run. */
layerops_status bench_call_prepare(struct bench_call *call);

/* Does the first call of the list and waits; records the whole list for bench_call_replay. */
layerops_status bench_call_record(struct bench_call *call);

bool bench_call_run(void *call, int64_t calls); /* for struct bench_contender */
bool bench_call_replay(void *call);             /* enqueues what was recorded, once */
bool bench_call_issue(void *call);              /* enqueues one call */

void bench_call_free(struct bench_call *call);

#endif

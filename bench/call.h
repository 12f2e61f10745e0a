#ifndef BENCH_CALL_H
#define BENCH_CALL_H

/* One call of the library with its operands on the device, to be repeated. */

#include <layerops/layerops.h>
#include <stdbool.h>

#include "bench/operands.h"

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
  layerops_weights *weights; /* packed from w */
  layerops_matrix w;
  layerops_graph *graph;  /* on a GPU: many calls at once, so that the host does not show */
  layerops_status failed; /* the first failure of bench_call_run; its sentence is the last error */
};

/* The layer of a suite's row, with its weights as they are or, dense ones, packed. */
layerops_status bench_call_row(layerops_context *ctx, const struct bench_operands *operands,
                               bool packed, struct bench_call *call);

/* Packs the weights of such a call once more, and waits. */
layerops_status bench_call_pack(struct bench_call *call);

/* Waits, and copies the result of a row's call into operands->y. */
layerops_status bench_call_fetch(struct bench_call *call, const struct bench_operands *operands);

/* Creates a buffer with this content (NULL: undefined) that goes with the call, and its view. */
layerops_status bench_call_matrix(struct bench_call *call, const void *host, layerops_type type,
                                  int64_t batch, int64_t rows, int64_t cols,
                                  layerops_matrix *matrix);

/* Does the call once and waits; on a GPU, records it for bench_call_run. */
layerops_status bench_call_prepare(struct bench_call *call);

bool bench_call_run(void *call, int64_t calls); /* for struct bench_contender */

void bench_call_free(struct bench_call *call);

#endif

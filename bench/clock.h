#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

/* Times what is enqueued in a context's queue, by marks in the queue itself. */

#include <layerops/layerops.h>

#include "bench/gate.h"

struct bench_clock {
  layerops_context *ctx;
  struct bench_gate *gate; /* NULL: the host's time may show */
  layerops_event *start, *stop;
  layerops_buffer *filler; /* read before a cold repetition, in place of what the caches held */
  layerops_mse_args flush;
  bool cold; /* the next repetitions */
};

/* For a context whose queue, where there is a gate, is its stream. Free it in either case. */
layerops_status bench_clock_make(layerops_context *ctx, struct bench_gate *gate,
                                 struct bench_clock *clock);

/* Sets how the operands of the next repetitions are found. */
layerops_status bench_clock_set(struct bench_clock *clock, bool cold);

/* The seconds of what `enqueue` puts into the queue; negative: it failed. */
double bench_clock_time(void *clock, bool (*enqueue)(void *state), void *state);

void bench_clock_free(struct bench_clock *clock);

#endif

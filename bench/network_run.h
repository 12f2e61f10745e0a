#ifndef BENCH_NETWORK_RUN_H
#define BENCH_NETWORK_RUN_H

/* The library's network in a run of bench: an epoch of training, and the latency of a forward pass.
   784-128-10, ReLU. */

#include "bench/session.h"

/* Measures an epoch in batches of BATCH on target T, on the CPU beside the peers that are a BLAS,
   each from the same weights. max_rel_err is how far a peer's loss of the first epoch is from ours;
   too far counts as a fault. False where memory or writing failed. */
bool bench_session_train(struct bench_session *session, int64_t batch, int t);

/* Times each of CALLS forward passes of one sample on target T, and prints the percentiles. */
bool bench_session_latency(struct bench_session *session, int64_t calls, int t);

#endif

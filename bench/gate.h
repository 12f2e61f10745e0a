#ifndef BENCH_GATE_H
#define BENCH_GATE_H

/* A stream of a CUDA device that can be held: what is enqueued behind a closed gate waits until the
   host has enqueued it all, so that the host's time does not show between marks of the device. */

#include <stdbool.h>
#include <stddef.h>

struct bench_gate;

#ifdef HAVE_CUDA
#ifdef __cplusplus
extern "C" {
#endif

/* On the device of that number; NULL: it has none, or memory is short. */
struct bench_gate *bench_gate_make(int device);

void *bench_gate_stream(const struct bench_gate *gate); /* a CUstream */

/* Enqueues a kernel that spins until the gate is opened, or for a fifth of a second. */
bool bench_gate_close(struct bench_gate *gate);

void bench_gate_open(struct bench_gate *gate);

void bench_gate_free(struct bench_gate *gate); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#else
static inline struct bench_gate *bench_gate_make(int device) {
  (void)device;
  return NULL;
}
static inline void *bench_gate_stream(const struct bench_gate *gate) {
  (void)gate;
  return NULL;
}
static inline bool bench_gate_close(struct bench_gate *gate) {
  return !gate;
}
static inline void bench_gate_open(struct bench_gate *gate) {
  (void)gate;
}
static inline void bench_gate_free(struct bench_gate *gate) {
  (void)gate;
}
#endif

#endif

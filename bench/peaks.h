#ifndef BENCH_PEAKS_H
#define BENCH_PEAKS_H

/* What a device reaches: multiply-adds and dot products of each data type, and the bandwidth of
   each cache and of memory. */

#include <stdbool.h>
#include <stdint.h>

#include "bench/bound.h"
#include "bench/ceilings_kernels.h"

#define BENCH_PEAKS 64

/* One figure. */
struct bench_measured {
  const char *what;              /* a data type, or "L1", "L2", "L3", "memory" */
  const char *how;               /* "AVX-512 FMA", "mma.m16n8k16", ...; "read", "copy", "triad" */
  const char *unit;              /* "FLOP/s" (a multiply-add is two), "OP/s", "B/s" */
  const struct ceiling_fma *fma; /* of a data type, */
  const struct ceiling_stream *stream; /* or of a memory */
  int cuda, cuda_device; /* or, with threads 0, an entry of peaks_cuda.h and its device */
  int threads;
  uint64_t bytes;    /* that a thread works on; 0 for a data type */
  uint64_t capacity; /* of the level, for so many threads; 0: memory */
  double value;
};

struct bench_peaks {
  int count;
  struct bench_measured list[BENCH_PEAKS];
};

/* Lists what there is to measure, with one thread and with THREADS; value is 0. False where hwloc
   finds no topology. */
bool bench_peaks_plan(struct bench_peaks *peaks, int threads);

/* The same for a CUDA device, with the instructions of the architecture LAYEROPS_CUDA_ARCH at most.
   False where there is no such device. */
bool bench_peaks_plan_cuda(struct bench_peaks *peaks, int device);

/* Measures one. The best of several repetitions counts: whatever else runs on the machine only
   slows a ceiling down. False where memory or threads are short. */
bool bench_peaks_measure(struct bench_measured *measured);

/* Steps a second of all threads together, the best of several repetitions. */
double bench_best_rate(void (*run)(int64_t), int64_t count, int threads);

/* The measured peaks as a device file would have them, for bench_bound. */
void bench_peaks_device(const struct bench_peaks *peaks, int threads, struct bench_device *device);

#endif

#ifndef BENCH_BOUND_H
#define BENCH_BOUND_H

/* The speed of light of one product on one device: the unfused bound
   max(flops / peak, bytes / bandwidth), from a device file (data/devices/, see its README). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/operands.h"

#define BENCH_BOUND_ENTRIES 16

struct bench_peak {
  char dtype[8];
  double units, lanes, clock; /* clock in Hz */
  double flops;               /* a second, all units together; a multiply-add counts two */
};

struct bench_memory {
  char level[16];
  double capacity;  /* bytes */
  double bandwidth; /* bytes a second */
  int threads;      /* of the measurement; 0 where threads play no part (GPUs) */
};

struct bench_device {
  char name[64];
  int threads; /* units that threads can fill one by one (a CPU's cores); 0 on a GPU */
  int peak_count, memory_count;
  struct bench_peak peaks[BENCH_BOUND_ENTRIES];
  struct bench_memory memory[BENCH_BOUND_ENTRIES];
};

/* The work of a row, of whichever product: flops (kept blocks only), and bytes with every operand
   moved once. */
void bench_work(const struct bench_row *row, const struct bench_pattern *pattern,
                const struct bench_type *type, double *flops, double *bytes);

/* The bound in seconds, with so many threads (those of a CPU; a GPU ignores them), for a repetition
   with warm caches: what the inner levels cannot hold crosses the outer ones. 0 if the device file
   has no peak for the data type. */
double bench_bound(const struct bench_device *device, const char *dtype, int threads, double flops,
                   double bytes);

/* The same where no cache holds anything before: all bytes cross every level. */
double bench_bound_cold(const struct bench_device *device, const char *dtype, int threads,
                        double flops, double bytes);

/* Reads one device file; false puts one sentence that names the file and the place into why. */
bool bench_device_read(const char *path, struct bench_device *device, char *why, size_t why_size);

/* Finds in the folder the file whose "match" strings fit a device: kind ("cpu", "cuda",
   "opencl") must be equal and one name must be contained in the device's name. False with an
   empty why: there is none. */
bool bench_device_find(const char *folder, const char *kind, const char *name,
                       struct bench_device *device, char *why, size_t why_size);

#endif

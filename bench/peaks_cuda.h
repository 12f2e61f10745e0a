#ifndef BENCH_PEAKS_CUDA_H
#define BENCH_PEAKS_CUDA_H

/* What a CUDA device reaches: multiply-adds of its cores, of mma.sync out of registers and of wgmma
   out of shared memory, copying and reading of memory, reading of the L2. */

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_peak {
  const char *what; /* as in struct bench_measured; NULL ends the list */
  const char *how, *unit;
  int from, to; /* the architectures that have the instruction; from 0: a memory */
};

extern const struct cuda_peak cuda_peaks[];

/* Of such a device: its architecture (90), or that of the code where the driver compiled it for an
   older one; 0: there is no such device. And the size of its L2. */
int cuda_peak_architecture(int device, uint64_t *l2);

/* Measures entry `index`: the best of several repetitions. bytes receives how many it moved over;
   0: of none. False where memory is short or the device failed. */
bool cuda_peak_measure(int device, int index, double *value, uint64_t *bytes);

#ifdef __cplusplus
}
#endif

#endif

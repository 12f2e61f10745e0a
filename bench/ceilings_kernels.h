#ifndef BENCH_CEILINGS_KERNELS_H
#define BENCH_CEILINGS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One way to compute: run does COUNT steps of MACS multiply-adds each. */
struct ceiling_fma {
  const char *dtype, *name;
  bool (*supported)(void);
  void (*run)(int64_t count);
  double macs;  /* of one step */
  double lanes; /* of one unit of the processor: multiply-adds a clock */
};

/* Per data type the widest first; ends with a NULL dtype. */
extern const struct ceiling_fma ceiling_fmas[];

/* COUNT dependent additions, one a clock; NULL where this is not known. */
extern void (*const ceiling_chain)(int64_t count);

/* Reads BYTES (a multiple of 512) at DATA (64-byte aligned) COUNT times. */
void ceiling_read(const void *data, size_t bytes, int64_t count);

#endif

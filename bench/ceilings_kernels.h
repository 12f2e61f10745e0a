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

/* One way to use memory, on float arrays of BYTES each (a multiple of 512, 64-byte aligned), COUNT
   times over: read a; copy a = b; triad a = b + 0.5 c. */
struct ceiling_stream {
  const char *name;
  int arrays; /* a, b, c: those it touches */
  void (*run)(void *a, const void *b, const void *c, size_t bytes, int64_t count);
};

/* The widest that the processor has; ends with a NULL name. */
const struct ceiling_stream *ceiling_streams(void);

#endif

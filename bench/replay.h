#ifndef BENCH_REPLAY_H
#define BENCH_REPLAY_H

/* A line that LAYEROPS_VERBOSE=1 printed, and the call that it tells of. The line knows shapes and
   types; the data are random, tight in memory. */

#include "bench/call.h"

struct bench_line {
  layerops_op op;
  char device[32], kernel[64];
  int64_t m, n, k, batch;
  layerops_type type, out, w; /* w: 0 where it follows from type */
  char trans[4];              /* "nt": A as it is, B transposed */
  char wants[8];              /* of backward passes: any of x, w, b, g */
  char layout[16];            /* "features" by row; else samples */
  char truth[16];
  layerops_activation activation;
  int64_t block, width, blocks, gate, log, packed, fast_accum; /* width: 0 where it is block */
  bool momentum;                                               /* no line tells it */
};

/* False: the first thing in the line that is not understood, in why. */
bool bench_line_read(const char *text, struct bench_line *line, char *why, size_t why_size);

/* The call; as ever, the last error says what failed. */
layerops_status bench_line_call(layerops_context *ctx, const struct bench_line *line,
                                struct bench_call *call);

/* Floating-point operations and bytes of one call, each operand moved once. */
void bench_line_work(const struct bench_line *line, double *flops, double *bytes);

#endif

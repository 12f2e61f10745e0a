#ifndef BENCH_SESSION_H
#define BENCH_SESSION_H

/* A run of bench: devices, peers, and one row after the other measured on all of them. */

#include <layerops/layerops.h>

#include "bench/bound.h"
#include "bench/clock.h"
#include "bench/operands.h"
#include "bench/peers.h"
#include "bench/replay.h"
#include "bench/report.h"

#define BENCH_MAX_DEVICES 16

enum { BENCH_BEST_SUMMARY, BENCH_PLAIN_SUMMARY, BENCH_SUMMARIES };

struct bench_target {
  layerops_context *ctx;
  layerops_device_info info;
  char kind[32];           /* "cpu", "cuda", "opencl" */
  int threads;             /* 0: not a matter of threads */
  struct bench_gate *gate; /* CUDA's alone */
  struct bench_clock clock;
  bool has_bound;
  struct bench_device bound;
  struct bench_summary summaries[BENCH_PRODUCTS][BENCH_RESIDENCIES][BENCH_SUMMARIES];
};

struct bench_session {
  struct bench_plan plan, timed_plan; /* by the host's clock, by the device's */
  struct bench_report report;
  const struct bench_type *type;
  uint64_t seed;
  int weights;          /* BENCH_PLAIN, BENCH_PACKED or both; 0: as the device suits */
  unsigned residencies; /* a bit for each; 0: as the device suits */
  enum bench_way way;
  const char *bound_file;         /* NULL: look for one; "measure" */
  struct bench_peer_entry *peers; /* NULL: none wanted */
  struct bench_target targets[BENCH_MAX_DEVICES];
  int target_count;
  int faults; /* wrong results and failed calls of the library */
};

/* Opens a device (NULL: auto) with so many threads at most (0: all). Tells on stderr what fails. */
bool bench_session_open(struct bench_session *session, const char *device, int threads);

/* Loads the peers and tells on stderr which are missing, and why. */
bool bench_session_load_peers(struct bench_session *session);

/* Measures a row on target T and reports it. CUDA devices time graphs by their own clock; so do
   others what is not warm and independent. False where memory or writing failed; a row that a
   device cannot do is told and left out. */
bool bench_session_row(struct bench_session *session, const struct bench_operands *operands, int t);

/* One call, warm, again and again: a contender that a CUDA device times as a graph; and its plan.
 */
struct bench_repeated {
  struct bench_call *call;
  struct bench_clock *clock;
};
struct bench_contender bench_session_repeat(struct bench_session *session, int t,
                                            struct bench_call *call,
                                            struct bench_repeated *repeated,
                                            const struct bench_plan **plan);

/* The same as bench_session_row for a line of LAYEROPS_VERBOSE. */
bool bench_session_replay(struct bench_session *session, const struct bench_line *line, int t);

/* Ends the report. */
bool bench_session_end(struct bench_session *session);

void bench_session_close(struct bench_session *session);

#endif

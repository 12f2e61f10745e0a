#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

/* What bench prints: a table, or a run file (JSON, schema layerops-run/1). */

#include <jansson.h>
#include <layerops/layerops.h>
#include <stdbool.h>
#include <stdio.h>

#include "bench/timing.h"

/* One measured contender at one row. */
struct bench_result {
  const char *id, *op, *device, *dtype, *contender; /* "layerops" or a peer's name */
  const char *kernel;                               /* or the peer's version and way */
  const char *activation, *pattern;                 /* NULL: none */
  int threads;                                      /* 0: not a matter of threads (GPUs) */
  int64_t m, n, k, block, blocks;
  double flops, bytes, elements; /* elements: with the report's rates */
  double bound;                  /* seconds; 0: no device file describes the device */
  double max_rel_err;            /* NAN: not checked */
  double ratio;                  /* time / the time of layerops; 0: not measured beside it */
  const struct bench_stats *stats;
};

enum bench_format { BENCH_TABLE, BENCH_TSV, BENCH_JSON };

struct bench_report {
  enum bench_format format;
  bool peers; /* the column `ratio` */
  bool rates; /* the columns of bytes a second and of time an element */
  FILE *file;
  json_t *results, *skipped, *peer_list; /* BENCH_JSON: what came so far */
};

bool bench_report_begin(struct bench_report *report, enum bench_format format, bool peers,
                        FILE *file);
/* With rates as well. */
bool bench_report_begin_rates(struct bench_report *report, enum bench_format format, FILE *file);
bool bench_report_row(struct bench_report *report, const struct bench_result *result);

/* A row that a contender could not do, and why. Only the run file keeps it: the caller tells the
   user. */
bool bench_report_skip(struct bench_report *report, const char *id, const char *device,
                       const char *contender, const char *reason);

/* A peer, and why it is not there (NULL: it is). Only the run file keeps it. */
bool bench_report_peer(struct bench_report *report, const char *name, const char *reason);

/* Ends the report: the run file with the machine, the devices and the plan. False where writing or
   memory failed. */
bool bench_report_end(struct bench_report *report, const layerops_device_info *devices,
                      size_t device_count, const struct bench_plan *plan);

void bench_report_free(struct bench_report *report);

#endif

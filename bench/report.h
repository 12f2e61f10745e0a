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
  const char *product;                              /* of a block-sparse layer; else NULL */
  const char *activation, *pattern;                 /* NULL: none */
  int threads;                                      /* 0: not a matter of threads (GPUs) */
  int64_t m, n, k, block, blocks;
  double flops, bytes;
  double elements;    /* BENCH_RATES alone asks for them */
  double bound;       /* seconds; 0: no device file describes the device */
  double max_rel_err; /* NAN: not checked */
  bool packed;        /* the weights, beforehand */
  double repay; /* so many calls win back what packing took, against the same contender's plain
                   weights; INFINITY: none do, NAN: not known */
  double ratio; /* a peer's: its time over ours; ours: that of the best peer over ours. NAN: none */
  const char *residency, *way; /* names of bench/steps.h */
  const struct bench_stats *stats;
};

/* Single calls, one after the other; seconds. */
struct bench_latency {
  const char *id, *device;
  int threads;
  int64_t calls;
  double p50, p90, p99, max;
};

/* The best peer's time over ours, over the rows of one device. */
struct bench_summary {
  const char *device, *dtype, *residency, *way;
  const char *product; /* as in a result */
  int threads;
  bool plain; /* ours and the peers' with plain weights alone; else the fastest of each */
  int rows;
  double log_sum; /* of the ratios; their geometric mean is exp(log_sum / rows) */
  double worst;
  char worst_id[64], worst_peer[128];
};

enum bench_format { BENCH_TABLE, BENCH_TSV, BENCH_JSON };

enum bench_kind {
  BENCH_LAYERS,       /* rows with the columns of weights */
  BENCH_BESIDE_PEERS, /* and with `ratio` */
  BENCH_RATES,        /* rows with bytes a second, time an element and `ratio` */
  BENCH_LATENCIES
};

struct bench_report {
  enum bench_format format;
  enum bench_kind kind;
  FILE *file;
  json_t *results, *skipped, *peer_list, *summaries; /* BENCH_JSON: what came so far */
};

bool bench_report_begin(struct bench_report *report, enum bench_format format, enum bench_kind kind,
                        FILE *file);
bool bench_report_latency(struct bench_report *report, const struct bench_latency *latency);

bool bench_report_row(struct bench_report *report, const struct bench_result *result);

/* A row that a contender could not do, and why. Only the run file keeps it: the caller tells the
   user. */
bool bench_report_skip(struct bench_report *report, const char *id, const char *device,
                       const char *contender, const char *reason);

/* A peer, and why it is not there (NULL: it is). Only the run file keeps it. */
bool bench_report_peer(struct bench_report *report, const char *name, const char *reason);

void bench_summary_add(struct bench_summary *summary, double ratio, const char *id,
                       const char *peer);

/* A line behind the rows; in --tsv it begins with #. */
bool bench_report_summary(struct bench_report *report, const struct bench_summary *summary);

/* Ends the report: the run file with the machine, the devices and both plans. False where writing
   or memory failed. */
bool bench_report_end(struct bench_report *report, const layerops_device_info *devices,
                      size_t device_count, const struct bench_plan *plan,
                      const struct bench_plan *timed_plan);

void bench_report_free(struct bench_report *report);

#endif

#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

/* How bench measures: contenders take turns (rounds), each turn begins when the threads of the one
   before have come to rest, with an untimed call, and
   takes samples; a sample is as many calls as fill a stated time. What other work on the machine
   does to one contender it does to all. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One thing to measure. run does CALLS calls one after the other and returns when the last is
   complete; false says it failed. */
struct bench_contender {
  bool (*run)(void *state, int64_t calls);
  void *state;
  /* In place of run, where a device has a clock: repeats a graph of so many calls once, and answers
     how many seconds that took; negative: it failed. Then a sample is one repetition; the first one
     counts as any. */
  double (*timed)(void *state);
  int64_t calls;
};

struct bench_plan {
  int rounds;
  int samples;            /* at least so many a round, */
  double round_seconds;   /* and at least so long, */
  double longest_seconds; /* but no new sample once a round has taken so long */
  double sample_seconds;  /* a sample lasts at least so long */
};

#define BENCH_PLAN_DEFAULT                                                                         \
  {                                                                                                \
    .rounds = 5, .samples = 5, .round_seconds = 0.03, .longest_seconds = 2,                        \
    .sample_seconds = 0.0005                                                                       \
  }

/* For what a device times: contenders take turns repetition by repetition, seven times at least. */
#define BENCH_PLAN_TIMED                                                                           \
  { .rounds = 7, .samples = 1, .round_seconds = 0.01, .longest_seconds = 2 }

struct bench_stats {
  int samples;   /* those that count */
  int set_aside; /* samples during which the scheduler took a core away, not counted where a few
                    others are left */
  int64_t calls; /* a sample */
  double median; /* seconds a call, as all below */
  double p50, p95, p99, max, min;
  double *round_median; /* one per round */
  int rounds;
  bool failed; /* run said so; the figures mean nothing */
};

double bench_now(void); /* seconds, monotonic */

/* The least time between two readings of the clock. */
double bench_clock_overhead(void);

/* How often the scheduler has taken a core from a running thread of this process; 0 where the
   system does not say. */
int64_t bench_preemptions(void);

void bench_sort(double *values, size_t count); /* ascending */

/* The value below which the share P of the ascending values lies, interpolated; count > 0. */
double bench_percentile(const double *ascending, size_t count, double p);

/* Measures all contenders by the plan; false when memory is short. Free each with
   bench_stats_free. */
bool bench_measure(const struct bench_contender *contenders, size_t count,
                   const struct bench_plan *plan, struct bench_stats *stats);

void bench_stats_free(struct bench_stats *stats, size_t count);

/* The median over the rounds of other's time / base's time: above 1, base is the faster one. */
double bench_ratio(const struct bench_stats *base, const struct bench_stats *other);

#endif

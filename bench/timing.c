#include <config.h>

#include "bench/timing.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define MAX_CALLS 1000000
#define MIN_CALM  3  /* so many undisturbed samples stand for all */
#define PATIENCE  10 /* a turn waits so many times its length for undisturbed samples */

struct sample {
  double seconds; /* a call */
  int64_t preemptions;
};

/* The samples of one contender: round by round in one growing array. */
struct recorder {
  struct sample *samples;
  int count, capacity;
  int *round_start; /* rounds + 1 entries */
};

double bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* CPU time of all threads of this process. */
static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_clock_overhead(void) {
  double least = 1;
  for (int i = 0; i < 1000; i++) {
    double before = bench_now(), between = bench_now() - before;
    if (between > 0 && between < least) least = between;
  }
  return least;
}

int64_t bench_preemptions(void) {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) ? 0 : usage.ru_nivcsw;
}

double bench_percentile(const double *ascending, size_t count, double p) {
  double at = p * (double)(count - 1);
  size_t below = (size_t)at;
  if (below + 1 >= count) return ascending[count - 1];
  return ascending[below] + (at - (double)below) * (ascending[below + 1] - ascending[below]);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void bench_sort(double *values, size_t count) {
  qsort(values, count, sizeof *values, compare);
}

static bool record(struct recorder *r, struct sample sample) {
  if (r->count == r->capacity) {
    int capacity = r->capacity ? 2 * r->capacity : 64;
    struct sample *samples = realloc(r->samples, (size_t)capacity * sizeof *samples);
    if (!samples) return false;
    r->samples = samples;
    r->capacity = capacity;
  }
  r->samples[r->count++] = sample;
  return true;
}

/* Finds how many calls make a sample of the wanted length, and how many rounds a contender plays:
   one, where a call takes a whole turn. The calls tried on the way warm up. */
static void calibrate(const struct bench_contender *c, const struct bench_plan *plan,
                      struct bench_stats *s) {
  double sample_seconds = plan->sample_seconds;
  s->rounds = plan->rounds;
  if (c->timed) {
    s->calls = c->calls;
    return;
  }
  for (int64_t calls = 1;;) {
    double start = bench_now();
    s->calls = calls;
    s->failed = !c->run(c->state, calls);
    double took = bench_now() - start;
    if (calls == 1 && took >= plan->longest_seconds) s->rounds = 1;
    if (s->failed || took >= sample_seconds || calls >= MAX_CALLS) return;
    double wanted = took > 0 ? 1.2 * (double)calls * sample_seconds / took : 16.0 * (double)calls;
    double next = wanted > 16.0 * (double)calls ? 16.0 * (double)calls : wanted;
    calls = next > (double)calls + 1 ? (int64_t)next : calls + 1;
    if (calls > MAX_CALLS) calls = MAX_CALLS;
  }
}

/* Until no thread of the one before spins any more (GNU OpenMP's do so for milliseconds behind a
   call): each contender finds the cores free. */
static void wait_for_calm(void) {
  const struct timespec pause = {0, 1000000};
  for (int i = 0; i < 100; i++) {
    const double start = bench_now(), used = cpu_seconds();
    nanosleep(&pause, NULL);
    if (cpu_seconds() - used < 0.25 * (bench_now() - start)) return;
  }
}

/* False: it failed. */
static bool take_sample(const struct bench_contender *c, int64_t calls, struct sample *sample) {
  if (c->timed) {
    double took = c->timed(c->state);
    *sample = (struct sample){took / (double)calls, 0};
    return took >= 0;
  }
  int64_t preemptions = bench_preemptions();
  double start = bench_now();
  bool good = c->run(c->state, calls);
  sample->seconds = (bench_now() - start) / (double)calls;
  sample->preemptions = bench_preemptions() - preemptions;
  return good;
}

static bool take_turn(const struct bench_contender *c, const struct bench_plan *plan,
                      struct recorder *r, struct bench_stats *s) {
  if (!c->timed) wait_for_calm();
  double begin = bench_now();
  int calm = 0;
  if (s->rounds > 1 && !c->timed) s->failed = s->failed || !c->run(c->state, 1);
  for (int i = 0; !s->failed; i++) {
    double spent = bench_now() - begin;
    bool enough = calm >= plan->samples || spent >= PATIENCE * plan->round_seconds;
    if (i > 0 && spent >= plan->longest_seconds) break;
    if (i >= plan->samples && spent >= plan->round_seconds && enough) break;
    struct sample sample;
    s->failed = !take_sample(c, s->calls, &sample);
    calm += !sample.preemptions;
    if (!record(r, sample)) return false;
  }
  return true;
}

/* Copies the samples [from, to) that count into values, ascending, and returns their number: the
   undisturbed ones if there are a few, else all. */
static size_t select_samples(const struct recorder *r, int from, int to, double *values) {
  int calm = 0;
  for (int i = from; i < to; i++) calm += !r->samples[i].preemptions;
  bool all = calm < MIN_CALM;
  size_t count = 0;
  for (int i = from; i < to; i++)
    if (all || !r->samples[i].preemptions) values[count++] = r->samples[i].seconds;
  qsort(values, count, sizeof *values, compare);
  return count;
}

static bool summarise(const struct recorder *r, struct bench_stats *s) {
  if (s->failed) return true;
  double *values = malloc((size_t)r->count * sizeof *values);
  s->round_median = calloc((size_t)s->rounds, sizeof *s->round_median);
  if (!values || !s->round_median) {
    free(values);
    return false;
  }
  for (int round = 0; round < s->rounds; round++) {
    size_t n = select_samples(r, r->round_start[round], r->round_start[round + 1], values);
    s->round_median[round] = bench_percentile(values, n, 0.5);
  }
  size_t n = select_samples(r, 0, r->count, values);
  s->samples = (int)n;
  s->set_aside = r->count - (int)n;
  s->median = s->p50 = bench_percentile(values, n, 0.5);
  s->p95 = bench_percentile(values, n, 0.95);
  s->p99 = bench_percentile(values, n, 0.99);
  s->min = values[0];
  s->max = values[n - 1];
  free(values);
  return true;
}

static bool run_rounds(const struct bench_contender *contenders, size_t count,
                       const struct bench_plan *plan, struct recorder *recorders,
                       struct bench_stats *stats) {
  for (size_t i = 0; i < count; i++) calibrate(&contenders[i], plan, &stats[i]);
  for (int round = 0; round < plan->rounds; round++)
    for (size_t turn = 0; turn < count; turn++) {
      size_t i = (turn + (size_t)round) % count; /* nobody is always first */
      if (round >= stats[i].rounds) continue;
      if (!take_turn(&contenders[i], plan, &recorders[i], &stats[i])) return false;
      recorders[i].round_start[round + 1] = recorders[i].count;
    }
  return true;
}

bool bench_measure(const struct bench_contender *contenders, size_t count,
                   const struct bench_plan *plan, struct bench_stats *stats) {
  struct recorder *recorders = calloc(count, sizeof *recorders);
  bool good = recorders != NULL;
  for (size_t i = 0; i < count; i++) {
    stats[i] = (struct bench_stats){0};
    if (!good) continue;
    recorders[i].round_start = calloc((size_t)plan->rounds + 1, sizeof(int));
    good = recorders[i].round_start != NULL;
  }
  good = good && run_rounds(contenders, count, plan, recorders, stats);
  for (size_t i = 0; good && i < count; i++) good = summarise(&recorders[i], &stats[i]);
  for (size_t i = 0; recorders && i < count; i++) {
    free(recorders[i].samples);
    free(recorders[i].round_start);
  }
  free(recorders);
  if (!good) bench_stats_free(stats, count);
  return good;
}

void bench_stats_free(struct bench_stats *stats, size_t count) {
  for (size_t i = 0; i < count; i++) {
    free(stats[i].round_median);
    stats[i].round_median = NULL;
  }
}

double bench_ratio(const struct bench_stats *base, const struct bench_stats *other) {
  int rounds = base->rounds < other->rounds ? base->rounds : other->rounds;
  double *ratios = rounds > 0 ? malloc((size_t)rounds * sizeof *ratios) : NULL;
  if (!ratios) return 0;
  for (int i = 0; i < rounds; i++) ratios[i] = other->round_median[i] / base->round_median[i];
  qsort(ratios, (size_t)rounds, sizeof *ratios, compare);
  double median = bench_percentile(ratios, (size_t)rounds, 0.5);
  free(ratios);
  return median;
}

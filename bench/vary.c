#include <config.h>

#include "bench/vary.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/pattern.h"

static double uniform(uint64_t *state) {
  return (double)(bench_splitmix64(state) >> 11) * 0x1p-53;
}

static int64_t vary(int64_t size, int64_t unit, uint64_t *state) {
  double factor = 0.7 * pow(2, uniform(state));
  bool odd = bench_splitmix64(state) & 1;
  int64_t count = llround((double)(size / unit) * factor);
  if (count < 1) count = 1;
  return (odd ? count | 1 : count) * unit;
}

/* Adds to the id what was changed. */
__attribute__((format(printf, 2, 3))) static bool append(struct bench_row *row, const char *format,
                                                         ...) {
  char what[128], *id = NULL;
  va_list values;
  va_start(values, format);
  vsnprintf(what, sizeof what, format, values);
  va_end(values);
  if (asprintf(&id, "%s%s", row->id, what) < 0) return false;
  free(row->id);
  row->id = id;
  return true;
}

bool bench_vary(struct bench_row *row, uint64_t seed) {
  uint64_t state = seed ^ bench_fnv1a(row->id);
  int64_t unit = row->block ? row->block : 1;
  row->m = vary(row->m, 1, &state);
  row->n = vary(row->n, unit, &state);
  row->k = vary(row->k, unit, &state);
  return append(row, ":%" PRId64 "x%" PRId64 "x%" PRId64, row->m, row->n, row->k);
}

bool bench_vary_density(struct bench_row *row, double density) {
  row->density = density;
  return append(row, ":density=%g", density);
}

bool bench_vary_pattern(struct bench_row *row, uint64_t seed) {
  return append(row, ":pattern=%" PRIu64, seed);
}

#include <config.h>

#include "bench/vary.h"

#include <inttypes.h>
#include <math.h>
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

bool bench_vary(struct bench_row *row, uint64_t seed) {
  uint64_t state = seed ^ bench_fnv1a(row->id);
  int64_t unit = row->block ? row->block : 1;
  char *id = NULL;
  row->m = vary(row->m, 1, &state);
  row->n = vary(row->n, unit, &state);
  row->k = vary(row->k, unit, &state);
  if (asprintf(&id, "%s:%" PRId64 "x%" PRId64 "x%" PRId64, row->id, row->m, row->n, row->k) < 0)
    return false;
  free(row->id);
  row->id = id;
  return true;
}

#ifndef BENCH_PATTERN_H
#define BENCH_PATTERN_H

/* The block patterns of block-sparse suites, exactly as bench/suite/patterns.md defines them. */

#include <stdbool.h>
#include <stdint.h>

#include "bench/suite.h"

struct bench_pattern {
  int64_t rows, cols; /* in blocks */
  int32_t *row_start; /* rows + 1 entries; row r keeps col[row_start[r]] .. col[row_start[r+1]-1] */
  int32_t *col;       /* ascending within a row */
};

uint64_t bench_fnv1a(const char *text);
uint64_t bench_splitmix64(uint64_t *state);

/* False when memory is short or the grid has more blocks than int32_t counts. */
bool bench_pattern_make(const char *id, enum bench_pattern_kind kind, int64_t rows, int64_t cols,
                        double density, struct bench_pattern *pattern);

static inline int64_t bench_pattern_kept(const struct bench_pattern *pattern) {
  return pattern->row_start[pattern->rows];
}

void bench_pattern_free(struct bench_pattern *pattern);

#endif

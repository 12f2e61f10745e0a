#include <config.h>

#include "bench/pattern.h"

#include <math.h>
#include <stdlib.h>

uint64_t bench_fnv1a(const char *text) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
  return hash;
}

uint64_t bench_splitmix64(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static double uniform01(uint64_t *state) {
  return (double)(bench_splitmix64(state) >> 11) * 0x1p-53;
}

static void add(struct bench_pattern *p, int64_t row, int64_t col) {
  p->col[p->row_start[row + 1]++] = (int32_t)col;
}

static void fill_random(struct bench_pattern *p, int64_t row, double probability, uint64_t *state) {
  for (int64_t c = 0; c < p->cols; c++)
    if (uniform01(state) < probability) add(p, row, c);
}

static void fill_band(struct bench_pattern *p, int64_t row, double density) {
  int64_t width = (int64_t)floor(density * (double)p->cols + 0.5);
  if (width < 1) width = 1;
  double centre = ((double)row + 0.5) * (double)p->cols / (double)p->rows;
  int64_t first = (int64_t)floor(centre - (double)width / 2.0 + 0.5);
  if (first > p->cols - width) first = p->cols - width;
  if (first < 0) first = 0;
  for (int64_t c = first; c < first + width; c++) add(p, row, c);
}

/* The s for which the sum over r of min(C, s/(r+1)) is density*R*C. */
static double skew_scale(const struct bench_pattern *p, double density) {
  double rows = (double)p->rows, cols = (double)p->cols, lo = 0, hi = cols * rows;
  for (int step = 0; step < 60; step++) {
    double s = (lo + hi) / 2, sum = 0;
    for (int64_t r = 0; r < p->rows; r++) sum += fmin(cols, s / (double)(r + 1));
    *(sum < density * rows * cols ? &lo : &hi) = s;
  }
  return (lo + hi) / 2;
}

static void fill_row(struct bench_pattern *p, enum bench_pattern_kind kind, int64_t row,
                     double density, double scale, uint64_t *state) {
  switch (kind) {
  case BENCH_UNIFORM:
    fill_random(p, row, density, state);
    break;
  case BENCH_BANDED:
    fill_band(p, row, density);
    break;
  case BENCH_ROWSKEW:
    fill_random(p, row, fmin(1, scale / ((double)(row + 1) * (double)p->cols)), state);
    break;
  }
}

bool bench_pattern_make(const char *id, enum bench_pattern_kind kind, int64_t rows, int64_t cols,
                        double density, struct bench_pattern *pattern) {
  struct bench_pattern p = {.rows = rows, .cols = cols};
  *pattern = (struct bench_pattern){0};
  if (rows < 1 || cols < 1 || rows > INT32_MAX / cols) return false;
  p.row_start = calloc((size_t)rows + 1, sizeof *p.row_start);
  p.col = malloc((size_t)(rows * cols) * sizeof *p.col);
  if (!p.row_start || !p.col) {
    bench_pattern_free(&p);
    return false;
  }
  uint64_t state = bench_fnv1a(id);
  double scale = kind == BENCH_ROWSKEW ? skew_scale(&p, density) : 0;
  for (int64_t r = 0; r < rows; r++) {
    p.row_start[r + 1] = p.row_start[r];
    fill_row(&p, kind, r, density, scale, &state);
  }
  *pattern = p;
  return true;
}

void bench_pattern_free(struct bench_pattern *pattern) {
  free(pattern->row_start);
  free(pattern->col);
  *pattern = (struct bench_pattern){0};
}

/* Published patterns as block masks. layerops/bsr.h has their definitions and sources. */
#include <config.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/bsr_pattern.h"
#include "common/door.h"
#include "common/philox.h"

typedef layerops_bsr_pattern_args args;

/* ---- Random numbers ---- */

lo_draws lo_draws_of(const args *a) {
  return (lo_draws){.seed = a->seed, .pattern = (uint32_t)a->pattern};
}

static uint32_t next_word(lo_draws *d) {
  const uint64_t i = d->next++;
  if (i % 4 == 0) lo_philox(d->seed, LO_PHILOX_MASK, d->pattern, i / 4, d->words);
  return d->words[i % 4];
}

bool lo_draw(lo_draws *draws, double probability) {
  return next_word(draws) * 0x1p-32 < probability;
}

int64_t lo_draw_below(lo_draws *draws, int64_t n) {
  return (int64_t)(next_word(draws) * (uint64_t)n >> 32);
}

/* ---- Patterns that tell of each block by itself ---- */

/* How far block (r, c) is from the diagonal. */
static int64_t distance(const args *a, int64_t r, int64_t c) {
  return llabs(c - (2 * r + 1) * a->block_cols / (2 * a->block_rows));
}

static bool banded(const args *a, int64_t r, int64_t c) {
  const double cols = (double)a->block_cols, share = floor(a->density * cols + 0.5);
  const double count = fmax(1, share);
  const double first = floor(((double)r + 0.5) * cols / (double)a->block_rows - count / 2 + 0.5);
  const double begin = fmax(0, fmin(first, cols - count));
  return (double)c >= begin && (double)c < begin + count;
}

static bool block_diagonal(const args *a, int64_t r, int64_t c) {
  return r * a->groups / a->block_rows == c * a->groups / a->block_cols;
}

static bool local(const args *a, int64_t r, int64_t c) {
  return distance(a, r, c) <= a->window || r < a->global || c < a->global;
}

static bool strided(const args *a, int64_t r, int64_t c) {
  const int64_t away = distance(a, r, c);
  return away < a->stride || away % a->stride == 0;
}

static bool longformer(const args *a, int64_t r, int64_t c) {
  const int64_t away = distance(a, r, c);
  return (away % a->dilation == 0 && away / a->dilation <= a->window) || r < a->global ||
         c < a->global;
}

static bool butterfly(const args *a, int64_t r, int64_t c) {
  const int64_t smaller = a->block_rows < a->block_cols ? a->block_rows : a->block_cols;
  int64_t n = 1;
  while (2 * n <= smaller) n *= 2;
  const int64_t differ = r * n / a->block_rows ^ c * n / a->block_cols;
  return !(differ & (differ - 1)) && (!a->levels || differ < (int64_t)1 << a->levels);
}

/* ---- Patterns that are drawn ---- */

static layerops_status uniform(const args *a) {
  lo_draws draws = lo_draws_of(a);
  for (int64_t i = 0; i < a->block_rows * a->block_cols; i++)
    a->mask[i] = lo_draw(&draws, a->density);
  return LAYEROPS_OK;
}

/* Moves `a->random` of the row's other blocks to the front of a list, one by one, and keeps them.
 */
static void add_random(const args *a, uint8_t *row, int32_t *others, lo_draws *draws) {
  int64_t count = 0;
  for (int64_t c = 0; c < a->block_cols; c++)
    if (!row[c]) others[count++] = (int32_t)c;
  for (int64_t i = 0; i < count && i < a->random; i++) {
    const int64_t at = i + lo_draw_below(draws, count - i);
    const int32_t drawn = others[at];
    others[at] = others[i];
    row[drawn] = 1;
  }
}

static layerops_status bigbird(const args *a) {
  lo_draws draws = lo_draws_of(a);
  int32_t *others = lo_bsr_memory(a->block_cols, sizeof *others);
  if (!others) return lo_bsr_no_memory("bsr_pattern");
  for (int64_t r = 0; r < a->block_rows; r++) {
    uint8_t *row = a->mask + r * a->block_cols;
    for (int64_t c = 0; c < a->block_cols; c++) row[c] = local(a, r, c);
    add_random(a, row, others, &draws);
  }
  free(others);
  return LAYEROPS_OK;
}

/* ---- The table ---- */

enum {
  DENSITY = 1,
  REWIRE = 2,
  WINDOW = 4,
  GLOBAL = 8,
  RANDOM = 16,
  STRIDE = 32,
  DILATION = 64,
  GROUPS = 128,
  LINKS = 256,
  LEVELS = 512,
  SEED = 1024
};

static const struct kind {
  const char *name;
  unsigned uses;
  bool (*keeps)(const args *a, int64_t r, int64_t c);
  layerops_status (*draw)(const args *a); /* in place of keeps */
} kinds[LAYEROPS_BSR_PATTERN_COUNT] = {
    [LAYEROPS_BSR_UNIFORM] = {"uniform", DENSITY | SEED, NULL, uniform},
    [LAYEROPS_BSR_BANDED] = {"banded", DENSITY, banded, NULL},
    [LAYEROPS_BSR_BLOCK_DIAGONAL] = {"block_diagonal", GROUPS, block_diagonal, NULL},
    [LAYEROPS_BSR_LOCAL] = {"local", WINDOW | GLOBAL, local, NULL},
    [LAYEROPS_BSR_STRIDED] = {"strided", STRIDE, strided, NULL},
    [LAYEROPS_BSR_LONGFORMER] = {"longformer", WINDOW | DILATION | GLOBAL, longformer, NULL},
    [LAYEROPS_BSR_BIGBIRD] = {"bigbird", WINDOW | GLOBAL | RANDOM | SEED, NULL, bigbird},
    [LAYEROPS_BSR_BUTTERFLY] = {"butterfly", LEVELS, butterfly, NULL},
    [LAYEROPS_BSR_BARABASI_ALBERT] = {"barabasi_albert", LINKS | SEED, NULL,
                                      lo_bsr_barabasi_albert},
    [LAYEROPS_BSR_WATTS_STROGATZ] = {"watts_strogatz", WINDOW | REWIRE | SEED, NULL,
                                     lo_bsr_watts_strogatz},
};

const char *layerops_bsr_pattern_name(int32_t pattern) {
  return pattern >= 0 && pattern < LAYEROPS_BSR_PATTERN_COUNT ? kinds[pattern].name : "?";
}

/* ---- The public function ---- */

static const char name[] = "bsr_pattern";

static layerops_status check_numbers(const args *a) {
  const struct kind *k = &kinds[a->pattern];
  const double most = INT32_MAX;
  const lo_bsr_number numbers[] = {
      {"density", k->uses & DENSITY, a->density, 0, 1},
      {"rewire", k->uses & REWIRE, a->rewire, 0, 1},
      {"window", k->uses & WINDOW, (double)a->window, 0, most},
      {"global", k->uses & GLOBAL, (double)a->global, 0, most},
      {"random", k->uses & RANDOM, (double)a->random, 0, most},
      {"stride", k->uses & STRIDE, (double)a->stride, 1, most},
      {"dilation", k->uses & DILATION, (double)a->dilation, 1, most},
      {"groups", k->uses & GROUPS, (double)a->groups, 1, most},
      {"links", k->uses & LINKS, (double)a->links, 1, most},
      {"levels", k->uses & LEVELS, (double)a->levels, 0, 31},
      {"seed", k->uses & SEED, (double)a->seed, 0, INFINITY},
  };
  return lo_bsr_check_numbers(name, k->name, numbers, sizeof numbers / sizeof *numbers);
}

static layerops_status check(const args *a) {
  if (a->pattern < 0 || a->pattern >= LAYEROPS_BSR_PATTERN_COUNT)
    return lo_fail(LAYEROPS_ERROR_INVALID, "%s: pattern is %d, but must be 0 to %d", name,
                   (int)a->pattern, LAYEROPS_BSR_PATTERN_COUNT - 1);
  LO_TRY(lo_bsr_check_reserved(name, a->reserved));
  if (a->block_rows < 0 || a->block_cols < 0)
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "%s: block_rows is %lld and block_cols %lld, but none may be negative", name,
                   (long long)a->block_rows, (long long)a->block_cols);
  if (a->block_rows >= INT32_MAX || a->block_cols >= INT32_MAX)
    return lo_fail(LAYEROPS_ERROR_OVERFLOW,
                   "%s: block_rows %lld, block_cols %lld: indices are 32 bits wide", name,
                   (long long)a->block_rows, (long long)a->block_cols);
  LO_TRY(check_numbers(a));
  if (!a->mask && a->block_rows && a->block_cols)
    return lo_fail(LAYEROPS_ERROR_INVALID, "%s: mask is NULL", name);
  return LAYEROPS_OK;
}

layerops_status layerops_bsr_pattern_(const layerops_bsr_pattern_args *user, size_t size) {
  args a;
  LO_TRY(lo_copy_args(name, &a, sizeof a, user, size));
  LO_TRY(check(&a));
  const struct kind *k = &kinds[a.pattern];
  if (!a.block_rows || !a.block_cols) return LAYEROPS_OK;
  if (k->draw) return k->draw(&a);
  for (int64_t r = 0; r < a.block_rows; r++)
    for (int64_t c = 0; c < a.block_cols; c++) a.mask[r * a.block_cols + c] = k->keeps(&a, r, c);
  return LAYEROPS_OK;
}

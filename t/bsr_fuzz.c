/* Valid index arrays are damaged at random: what is still valid must become an object that holds
 * just that, and the rest an error. Arrays end where their numbers do, so that a sanitizer sees
 * each wild access. LAYEROPS_TEST_SEED repeats a run. */
#include <config.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <layerops/layerops.h>

#include "common/philox.h"
#include "t/tap.h"

enum { ROUNDS = 4000, LARGEST = 40 };

static uint64_t seed;
static layerops_context *ctx;
static uint32_t test, round_number, drawn;

static uint32_t draw(void) {
  uint32_t words[4];
  lo_philox(seed, test, round_number, drawn++, words);
  return words[0];
}

static int64_t below(int64_t n) {
  return (int64_t)(draw() % (uint32_t)n);
}

enum { BLOCKS, DEVICE, CSR, COO }; /* ways to give a pattern */

/* ---- Lists of columns, as rows of CSR and block rows are ---- */

typedef struct lists {
  int64_t count, width, numbers; /* lists; columns; numbers in all lists */
  int64_t start[LARGEST + 1], column[LARGEST * LARGEST];
  int64_t row[LARGEST * LARGEST]; /* COO: in place of start */
} lists;

static bool of_blocks(int way) {
  return way == BLOCKS || way == DEVICE;
}

static void make(int way, lists *l) {
  l->count = below(LARGEST);
  l->width = below(LARGEST);
  l->numbers = l->start[0] = 0;
  for (int64_t r = 0; r < l->count; r++) {
    for (int64_t c = 0; c < l->width; c++) {
      if (below(4)) continue;
      l->row[l->numbers] = r;
      l->column[l->numbers++] = of_blocks(way) ? c : below(l->width);
    }
    l->start[r + 1] = l->numbers;
  }
}

static int64_t telling(int64_t old) {
  static const int64_t values[] = {0, 1, -1, INT32_MAX, INT32_MIN, LARGEST, 65536};
  switch (below(4)) {
  case 0:
    return old + 1;
  case 1:
    return old - 1;
  case 2:
    return below(2 * LARGEST);
  default:
    return values[below(7)];
  }
}

static void damage(int way, lists *l) {
  const int64_t at = below(l->count + 1), place = l->numbers ? below(l->numbers) : 0;
  int64_t *number = way == COO ? &l->row[place] : &l->start[at];
  switch (below(5)) {
  case 0:
    if (way != COO || l->numbers) *number = telling(*number);
    break;
  case 1:
    if (l->numbers) l->column[place] = telling(l->column[place]);
    break;
  case 2: /* two columns change places */
    if (l->numbers) {
      const int64_t other = below(l->numbers), value = l->column[place];
      l->column[place] = l->column[other];
      l->column[other] = value;
    }
    break;
  case 3: /* fewer numbers than the starts say */
    if (l->numbers) l->numbers -= 1 + below(l->numbers);
    break;
  default: /* fewer columns */
    if (l->width) l->width -= 1 + below(l->width);
  }
}

static bool within(const int64_t *numbers, int64_t count, int64_t limit) {
  for (int64_t i = 0; i < count; i++)
    if (numbers[i] < 0 || numbers[i] >= limit) return false;
  return true;
}

static bool valid(int way, const lists *l) {
  if (!within(l->column, l->numbers, l->width)) return false;
  if (way == COO) return within(l->row, l->numbers, l->count);
  if (l->start[0] != 0 || l->start[l->count] != l->numbers) return false;
  for (int64_t r = 0; r < l->count; r++)
    if (l->start[r] > l->start[r + 1]) return false;
  for (int64_t r = 0; of_blocks(way) && r < l->count; r++)
    for (int64_t i = l->start[r] + 1; i < l->start[r + 1]; i++)
      if (l->column[i] <= l->column[i - 1]) return false;
  return true;
}

/* A copy that ends where its last number does, of 32 or 64 bits each. */
static void *exact(const int64_t *from, int64_t count, size_t size) {
  int32_t *words = malloc((size_t)count * size);
  int64_t *wide = (int64_t *)(void *)words;
  for (int64_t i = 0; i < count; i++)
    if (size == sizeof *wide)
      wide[i] = from[i];
    else
      words[i] = (int32_t)from[i];
  return words;
}

/* ---- What is made of them ---- */

static layerops_bsr *from_host(const lists *l, layerops_status *status) {
  layerops_bsr *w = NULL;
  int32_t *start = exact(l->start, l->count + 1, 4), *column = exact(l->column, l->numbers, 4);
  layerops_bsr_args args = {.rows = l->count * 4 - (l->count && below(2) ? 3 : 0),
                            .cols = l->width * 8 - (l->width && below(2) ? 7 : 0),
                            .block = 4,
                            .width = 8,
                            .count = l->numbers,
                            .row_start = start,
                            .column = column ? column : start, /* malloc(0) may be NULL */
                            .type = LAYEROPS_F32};
  *status = layerops_bsr_create(ctx, &args, &w);
  free(start);
  free(column);
  return w;
}

static layerops_bsr *from_device(const lists *l, layerops_status *status) {
  layerops_bsr *w = NULL;
  layerops_buffer *start = NULL, *column = NULL;
  int32_t *host_start = exact(l->start, l->count + 1, 4), *host = exact(l->column, l->numbers, 4);
  layerops_buffer_from(ctx, host_start, (l->count + 1) * 4, &start);
  layerops_buffer_from(ctx, host, l->numbers * 4, &column);
  layerops_bsr_args args = {.rows = l->count * 16,
                            .cols = l->width * 8,
                            .block = 16,
                            .width = 8,
                            .count = l->numbers,
                            .device_row_start = layerops_vector_i32(start, l->count + 1),
                            .device_column = layerops_vector_i32(column, l->numbers),
                            .type = LAYEROPS_I8};
  *status = layerops_bsr_create(ctx, &args, &w);
  layerops_buffer_destroy(start);
  layerops_buffer_destroy(column);
  free(host_start);
  free(host);
  return w;
}

/* Elements, in blocks of 4 x 8. */
static layerops_bsr *from_elements(const lists *l, bool coo, layerops_status *status) {
  layerops_bsr *w = NULL;
  int64_t *start = exact(l->start, l->count + 1, 8), *row = exact(l->row, l->numbers, 8);
  int64_t *column = exact(l->column, l->numbers, 8);
  float *values = calloc((size_t)l->numbers + 1, sizeof *values);
  layerops_bsr_elements_args args = {.rows = l->count,
                                     .cols = l->width,
                                     .block = 4,
                                     .width = 8,
                                     .count = l->numbers,
                                     .row_start = coo ? NULL : start,
                                     .row = coo && l->numbers ? row : NULL,
                                     .column = l->numbers ? column : NULL,
                                     .values = values,
                                     .type = LAYEROPS_F16};
  *status = layerops_bsr_from_elements(ctx, &args, &w);
  free(start);
  free(row);
  free(column);
  free(values);
  return w;
}

static layerops_bsr *from(int way, const lists *l, layerops_status *status) {
  switch (way) {
  case BLOCKS:
    return from_host(l, status);
  case DEVICE:
    return from_device(l, status);
  default:
    return from_elements(l, way == COO, status);
  }
}

/* The mask of what valid lists say. */
static bool same_mask(int way, const lists *l, const layerops_bsr *w) {
  const int64_t height = of_blocks(way) ? 1 : 4, width = of_blocks(way) ? 1 : 8;
  const int64_t across = (l->width + width - 1) / width;
  uint8_t mask[LARGEST * LARGEST], want[LARGEST * LARGEST] = {0};
  if (layerops_bsr_to_mask(w, mask)) return false;
  for (int64_t i = 0, r = 0; i < l->numbers; i++) {
    while (way != COO && l->start[r + 1] <= i) r++;
    want[(way == COO ? l->row[i] : r) / height * across + l->column[i] / width] = 1;
  }
  return !memcmp(mask, want, (size_t)((l->count + height - 1) / height * across));
}

/* What is wrong with the library's answer; NULL for nothing. */
static const char *try_once(int way, const lists *l, int *accepted) {
  layerops_status status;
  layerops_bsr *w = from(way, l, &status);
  const bool good = valid(way, l);
  const char *wrong = NULL;
  if (!status != (w != NULL)) wrong = "an error and an object, or neither";
  if (status && status != LAYEROPS_ERROR_INVALID) wrong = layerops_last_error();
  if (!status != good) wrong = good ? layerops_last_error() : "it is not valid";
  if (!wrong && good && !same_mask(way, l, w)) wrong = "another pattern";
  *accepted += !status;
  layerops_bsr_destroy(w);
  return wrong;
}

static void fuzz(int way, const char *name) {
  static lists l;
  const char *wrong = NULL;
  int accepted = 0;
  test = (uint32_t)way;
  for (round_number = 0; round_number < ROUNDS && !wrong; round_number++) {
    drawn = 0;
    make(way, &l);
    for (int64_t times = below(3); times > 0; times--) damage(way, &l);
    wrong = try_once(way, &l, &accepted);
  }
  ok(!wrong && accepted > ROUNDS / 4 && accepted < ROUNDS, "%s: %d damaged arrays, %d still valid",
     name, ROUNDS, accepted);
  if (wrong) diag("round %u: %s", round_number - 1, wrong);
}

int main(void) {
  const char *asked = getenv("LAYEROPS_TEST_SEED");
  seed = asked ? strtoull(asked, NULL, 0) : (uint64_t)time(NULL);
  diag("LAYEROPS_TEST_SEED=%llu", (unsigned long long)seed);
  if (!ok(!layerops_open("cpu", &ctx), "cpu opens")) return done();
  fuzz(BLOCKS, "index arrays");
  fuzz(DEVICE, "index arrays on the device");
  fuzz(CSR, "CSR");
  fuzz(COO, "COO");
  layerops_close(ctx);
  return done();
}

/* What CUDA's kernels for block-sparse weights go by (backends/cuda/bsr_plan.h, bsr_heads.h), on
 * random patterns: each unit, chunk and block that is kept is named once, where it lies, and no
 * list is longer than its kernel has room for. Needs no device. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "backends/cuda/bsr_heads.h"
#include "backends/cuda/bsr_plan.h"
#include "common/bsr.h"
#include "t/tap.h"

enum { PATTERNS = 200, SMS = 132 };

typedef struct shape {
  int unit, slab, rows, group, slabs, units, chunk_slab, chunk_slabs, chunk_units, resident;
} shape;
static const shape shapes[] = {
#define X(...) {__VA_ARGS__},
    LO_CU_BSR_SHAPES(X)
#undef X
};

static unsigned seed = 7;
static int below(int n) {
  seed = seed * 1664525u + 1013904223u;
  return (int)((uint64_t)(seed >> 8) * (unsigned)n >> 24);
}

/* ---- Weights of which there is the pattern alone */
typedef struct pattern {
  layerops_bsr w;
  int32_t *row_start, *column, *col_start, *row, *place;
} pattern;

static int32_t *zeros(int64_t count) {
  int32_t *p = lo_bsr_memory(count, sizeof *p);
  if (!p) exit(1);
  return p;
}
static int64_t longest(const int32_t *start, int64_t lists) {
  int64_t most = 0;
  for (int64_t i = 0; i < lists; i++)
    if (start[i + 1] - start[i] > most) most = start[i + 1] - start[i];
  return most;
}

static void keep_some(pattern *p, int percent) {
  layerops_bsr *w = &p->w;
  for (int64_t r = 0; r < w->block_rows; r++) {
    for (int64_t c = 0; c < w->block_cols; c++)
      if (below(100) < percent) p->column[w->count++] = (int32_t)c;
    p->row_start[r + 1] = (int32_t)w->count;
  }
}
static void list_columns(pattern *p) {
  const layerops_bsr *w = &p->w;
  int32_t at = 0;
  for (int64_t c = 0; c < w->block_cols; c++) {
    for (int64_t r = 0; r < w->block_rows; r++)
      for (int32_t i = p->row_start[r]; i < p->row_start[r + 1]; i++)
        if (p->column[i] == c) p->row[at] = (int32_t)r, p->place[at++] = i;
    p->col_start[c + 1] = at;
  }
}

static pattern random_pattern(int smallest) {
  pattern p = {.w = {.type = LAYEROPS_F16}};
  layerops_bsr *w = &p.w;
  w->height = smallest << below(smallest == 8 ? 5 : 4); /* to 128 */
  w->width = smallest << below(smallest == 8 ? 5 : 4);
  w->rows = 1 + below(1200), w->cols = 1 + below(1200);
  w->block_rows = (w->rows + w->height - 1) / w->height;
  w->block_cols = (w->cols + w->width - 1) / w->width;
  const int64_t most = w->block_rows * w->block_cols;
  p.row_start = zeros(w->block_rows + 1), p.col_start = zeros(w->block_cols + 1);
  p.column = zeros(most), p.row = zeros(most), p.place = zeros(most);
  keep_some(&p, below(101));
  list_columns(&p);
  w->host = (lo_bsr_index){p.row_start, p.column, p.col_start, p.row, p.place};
  w->longest_row = longest(p.row_start, w->block_rows);
  w->longest_col = longest(p.col_start, w->block_cols);
  return p;
}
static void free_pattern(pattern *p) {
  int32_t *all[] = {p->row_start, p->column, p->col_start, p->row, p->place};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* Where element `at` of the values lies in W. */
static void find(const layerops_bsr *w, int64_t at, int64_t *row, int64_t *col) {
  const int64_t block = at / (w->height * w->width), in = at % (w->height * w->width);
  int64_t r = 0;
  while (w->host.row_start[r + 1] <= block) r++;
  *row = r * w->height + in / w->width;
  *col = w->host.column[block] * w->width + in % w->width;
}

/* Marks what is named: each once. */
static bool mark(uint8_t *seen, const layerops_bsr *w, int64_t at) {
  if (at < 0 || at >= w->count * w->height * w->width / 8 || seen[at]) return false;
  seen[at] = 1;
  return true;
}
static uint8_t *unmarked(const layerops_bsr *w) {
  uint8_t *seen = lo_bsr_memory(w->count * w->height * w->width / 8, 1);
  if (!seen) exit(1);
  return seen;
}
static int64_t units_of(const layerops_bsr *w, int unit) {
  return w->count * (w->height / unit) * (w->width / unit);
}

/* ---- Steps */
static bool unit_is_right(const layerops_bsr *w, const shape *s, bool by_columns, int64_t group,
                          const int32_t *step, int i, uint8_t *seen) {
  const uint16_t *code = (const uint16_t *)(step + s->slabs + s->units);
  const uint8_t *start = (const uint8_t *)(code + s->units);
  const int line = code[i] >> LO_CU_BSR_LINE_SHIFT, quarter = line / (s->group / 4);
  const int at = (code[i] & ((1 << LO_CU_BSR_LINE_SHIFT) - 1)) * 16;
  const int slab = at / (s->rows * s->slab * 2), in = at % (s->rows * s->slab * 2) / 2;
  int64_t row, col;
  if (slab >= s->slabs || step[slab] < 0 || in >= s->slab) return false;
  if (i < start[quarter] || i >= start[quarter + 1] || !mark(seen, w, step[s->slabs + i]))
    return false;
  find(w, 8 * (int64_t)step[s->slabs + i], &row, &col);
  return (by_columns ? col : row) == (group * s->group + line) * s->unit &&
         (by_columns ? row : col) == step[slab] + in;
}

static bool order_is_right(const lo_bsr_steps *steps) {
  uint8_t *used = calloc((size_t)steps->groups + 1, 1);
  bool right = used != NULL;
  int32_t last = INT32_MAX;
  for (int64_t i = 0; right && i < steps->groups; i++) {
    const int32_t g = steps->order[i];
    right =
        g >= 0 && g < steps->groups && !used[g] && steps->first[g + 1] - steps->first[g] <= last;
    if (right) used[g] = 1, last = steps->first[g + 1] - steps->first[g];
  }
  free(used);
  return right;
}

static bool steps_are_right(const layerops_bsr *w, int number, bool by_columns) {
  const shape *s = &shapes[number];
  const int64_t words = LO_CU_BSR_STEP_WORDS(s->slabs, s->units);
  lo_bsr_steps steps;
  if (lo_cuda_bsr_steps_make(w, number, by_columns, &steps) != LAYEROPS_OK) return false;
  uint8_t *seen = unmarked(w);
  int64_t named = 0;
  bool right = steps.first[0] == 0 && steps.first[steps.groups] * words == steps.words_count &&
               order_is_right(&steps);
  for (int64_t g = 0; right && g < steps.groups; g++)
    for (int32_t q = steps.first[g]; right && q < steps.first[g + 1]; q++) {
      const int32_t *step = steps.words + q * words;
      const int count = ((const uint8_t *)(step + s->slabs + s->units + s->units / 2))[4];
      right = count >= 1 && count <= s->units;
      for (int i = 0; right && i < count; i++, named++)
        right = unit_is_right(w, s, by_columns, g, step, i, seen);
    }
  free(seen);
  lo_cuda_bsr_steps_free(&steps);
  return right && named == units_of(w, s->unit);
}

/* ---- Chunks */
static bool chunk_is_right(const layerops_bsr *w, const shape *s, const int32_t *chunk,
                           uint8_t *seen) {
  const int32_t *column = chunk + 4, *at = column + s->chunk_slabs;
  const uint8_t *z = (const uint8_t *)(at + s->chunk_units), *x = z + s->chunk_units;
  const uint8_t *at_z = x + s->chunk_units, *at_x = at_z + s->chunk_units;
  if (chunk[0] < 1 || chunk[0] > s->chunk_units || chunk[2] > s->chunk_slabs) return false;
  for (int i = 0; i < chunk[0]; i++) {
    int64_t row, col;
    if (!mark(seen, w, at[i]) || z[i] >= chunk[1] || x[i] < chunk[1] || x[i] >= chunk[2])
      return false;
    find(w, 8 * (int64_t)at[i], &row, &col);
    if (column[z[i]] + 8 * at_z[i] != row || column[x[i]] + 8 * at_x[i] != col) return false;
    if (8 * at_z[i] + s->unit > s->chunk_slab || 8 * at_x[i] + s->unit > s->chunk_slab)
      return false;
  }
  return true;
}

static bool chunks_are_right(const layerops_bsr *w, int number) {
  const shape *s = &shapes[number];
  const int64_t words = LO_CU_BSR_CHUNK_WORDS(s->chunk_slabs, s->chunk_units);
  lo_bsr_chunks chunks;
  if (lo_cuda_bsr_chunks_make(w, number, SMS, &chunks) != LAYEROPS_OK) return false;
  uint8_t *seen = unmarked(w);
  int64_t named = 0;
  bool right = chunks.count * words == chunks.words_count;
  for (int64_t i = 0; right && i < chunks.count; i++) {
    right = chunk_is_right(w, s, chunks.words + i * words, seen);
    named += chunks.words[i * words];
  }
  free(seen);
  lo_cuda_bsr_chunks_free(&chunks);
  return right && named == units_of(w, s->unit);
}

/* ---- Heads */
static bool head_is_right(const layerops_bsr *w, bool by_columns, const int32_t *head) {
  const int32_t *start = by_columns ? w->host.col_start : w->host.row_start;
  const int32_t *index = by_columns ? w->host.row : w->host.column;
  if (head[1] != start[head[0] + 1] - start[head[0]] || head[2] != start[head[0]]) return false;
  for (int32_t i = 0; i < head[1] && i < LO_CU_BSR_ENTRIES; i++) {
    const int32_t at = head[2] + i;
    if (head[4 + 2 * i] != index[at]) return false;
    if (head[5 + 2 * i] != (by_columns ? w->host.place[at] : at)) return false;
  }
  return true;
}

static bool heads_are_right(const layerops_bsr *w, bool by_columns) {
  const int64_t lines = by_columns ? w->block_cols : w->block_rows;
  lo_bsr_words heads;
  if (lo_cuda_bsr_heads_make(w, by_columns, &heads) != LAYEROPS_OK) return false;
  uint8_t *used = calloc((size_t)lines, 1);
  bool right = used && heads.count == lines;
  for (int64_t i = 0; right && i < lines; i++) {
    const int32_t *head = heads.words + i * LO_CU_BSR_HEAD_WORDS;
    right = head[0] >= 0 && head[0] < lines && !used[head[0]] && head_is_right(w, by_columns, head);
    if (right) used[head[0]] = 1;
  }
  free(used);
  free(heads.words);
  return right;
}

/* ---- Items: all chunks of 8 columns, in their order. */
static bool item_is_right(const layerops_bsr *w, const int32_t *item, int64_t *next) {
  const int64_t each = w->width / 8, end = w->host.row_start[item[0] + 1] * each;
  if (item[1] != *next || *next >= end) return false;
  for (int i = 0; i < LO_CU_BSR_CHUNKS; i++) {
    const int64_t chunk = item[1] + i;
    if (chunk >= end) {
      if (item[2 + i] != -1) return false;
      continue;
    }
    if (chunk < w->host.row_start[item[0]] * each) return false;
    if (item[2 + i] != w->host.column[chunk / each] * w->width + chunk % each * 8) return false;
    ++*next;
  }
  return true;
}

static bool items_are_right(const layerops_bsr *w) {
  lo_bsr_words items;
  int64_t next = 0;
  if (lo_cuda_bsr_items_make(w, &items) != LAYEROPS_OK) return false;
  bool right = true;
  for (int64_t i = 0; right && i < items.count; i++)
    right = item_is_right(w, items.words + i * LO_CU_BSR_ITEM_WORDS, &next);
  free(items.words);
  return right && next == w->count * (w->width / 8);
}

static bool all_is_right(const pattern *p) {
  const layerops_bsr *w = &p->w;
  const int number = lo_cuda_bsr_shape(w);
  if (!lo_cuda_bsr_has_heads(w) || (number < 0) != (w->height % 16 || w->width % 16)) return false;
  for (int by_columns = 0; by_columns < 2; by_columns++) {
    if (!heads_are_right(w, by_columns)) return false;
    if (number >= 0 && !steps_are_right(w, number, by_columns)) return false;
  }
  return items_are_right(w) && (number < 0 || chunks_are_right(w, number));
}

int main(void) {
  for (int smallest = 8; smallest <= 16; smallest *= 2) {
    int i = 0;
    bool right = true;
    for (; right && i < PATTERNS; i++) {
      pattern p = random_pattern(smallest);
      right = all_is_right(&p);
      if (!right)
        diag("%lld x %lld in blocks of %lld x %lld, %lld kept", (long long)p.w.rows,
             (long long)p.w.cols, (long long)p.w.height, (long long)p.w.width,
             (long long)p.w.count);
      free_pattern(&p);
    }
    ok(right, "%d patterns, the smallest side %d: all lists name what is kept, once", i, smallest);
  }
  return done();
}

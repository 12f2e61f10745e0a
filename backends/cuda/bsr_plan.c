/* What the kernels for block-sparse weights of 16-bit types go by: for products, the slabs of X
 * that a group of lines needs and the units that each meets; for the gradient of the weights,
 * chunks of units that share slabs. The layouts stand in bsr_launch.h. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "backends/cuda/bsr_plan.h"
#include "common/bsr.h"

typedef struct shape {
  int unit, slab, rows, group, slabs, units;          /* of steps */
  int chunk_slab, chunk_slabs, chunk_units, resident; /* of chunks */
} shape;

static const shape shapes[] = {
#define X(UNIT, SLAB, ROWS, GROUP, SLABS, UNITS, CHUNK_SLAB, CHUNK_SLABS, CHUNK_UNITS, RESIDENT)   \
  {UNIT, SLAB, ROWS, GROUP, SLABS, UNITS, CHUNK_SLAB, CHUNK_SLABS, CHUNK_UNITS, RESIDENT},
    LO_CU_BSR_SHAPES(X)
#undef X
};

int lo_cuda_bsr_shape(const layerops_bsr *w) {
  const int64_t eighths = w->count * w->height * w->width / 8; /* units are found by these */
  if ((w->type != LAYEROPS_F16 && w->type != LAYEROPS_BF16) || eighths > INT32_MAX ||
      w->cols > INT32_MAX || w->rows > INT32_MAX || w->count * w->height > INT32_MAX)
    return -1;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    if (w->height % shapes[i].unit == 0 && w->width % shapes[i].unit == 0) return (int)i;
  return -1;
}

/* ---- Units */

/* line: across the sum, column: along it, both in units; at: the first element among the values. */
typedef struct unit {
  int64_t line, column, at;
  uint64_t key;
} unit;

static int by_key(const void *a, const void *b) {
  const uint64_t x = ((const unit *)a)->key, y = ((const unit *)b)->key;
  return (x > y) - (x < y);
}

/* A list of blocks, row or column, as its units of line `line`. */
static unit *add_line(const layerops_bsr *w, int size, bool by_columns, int64_t line, unit *to) {
  const int64_t across = (by_columns ? w->width : w->height) / size;
  const int64_t along = (by_columns ? w->height : w->width) / size;
  const int64_t list = line / across, part = line % across * size;
  const int32_t *start = by_columns ? w->host.col_start : w->host.row_start;
  const int32_t *index = by_columns ? w->host.row : w->host.column;
  for (int32_t i = start[list]; i < start[list + 1]; i++) {
    const int64_t block = (by_columns ? w->host.place[i] : i) * w->height * w->width;
    for (int64_t u = 0; u < along; u++) {
      const int64_t row = by_columns ? u * size : part, col = by_columns ? part : u * size;
      *to++ = (unit){line, index[i] * along + u, block + row * w->width + col, 0};
    }
  }
  return to;
}

/* ---- Numbers that grow */
typedef struct numbers {
  int32_t *at;
  int64_t count, room;
} numbers;

static int32_t *append(numbers *n, int64_t count) {
  if (n->count + count > n->room) {
    const int64_t room = 2 * n->room + count + 1024;
    int32_t *at = realloc(n->at, (size_t)room * sizeof *at);
    if (!at) return NULL;
    n->at = at;
    n->room = room;
  }
  int32_t *from = n->at + n->count;
  memset(from, 0, (size_t)count * sizeof *from);
  n->count += count;
  return from;
}

/* ---- Steps */

/* The units of a step, already sorted by slab: `count` of them. */
static bool add_step(const shape *s, const unit *units, int count, numbers *out) {
  int32_t *step = append(out, LO_CU_BSR_STEP_WORDS(s->slabs, s->units));
  if (!step) return false;
  const int64_t side = s->slab / s->unit, slab_bytes = (int64_t)s->rows * s->slab * 2;
  uint16_t *code = (uint16_t *)(step + s->slabs + s->units);
  uint8_t *start = (uint8_t *)(code + s->units);
  for (int i = 0; i < s->slabs; i++) step[i] = -1;
  int at = 0;
  for (int line = 0; line < s->group; line++) {
    int slab = -1;
    int64_t last = -1;
    if (line % (s->group / 4) == 0) start[line / (s->group / 4)] = (uint8_t)at;
    for (int i = 0; i < count; i++) {
      const unit *u = units + i;
      if (u->column / side != last) step[++slab] = (int32_t)(u->column / side * s->slab);
      last = u->column / side;
      if (u->line % s->group != line) continue;
      step[s->slabs + at] = (int32_t)(u->at / 8);
      code[at++] = (uint16_t)(line << LO_CU_BSR_LINE_SHIFT |
                              (slab * slab_bytes + u->column % side * s->unit * 2) / 16);
    }
  }
  start[4] = (uint8_t)at;
  return true;
}

/* A group's units: as many a step as it has room for, of as many slabs. */
static bool add_group(const shape *s, const unit *units, int64_t count, numbers *out) {
  const int64_t side = s->slab / s->unit;
  for (int64_t i = 0; i < count;) {
    int n = 0, slabs = 0;
    int64_t last = -1;
    for (; i + n < count && n < s->units; n++) {
      const int64_t slab = units[i + n].column / side;
      if (slab != last && slabs++ == s->slabs) break;
      last = slab;
    }
    if (!add_step(s, units + i, n, out)) return false;
    i += n;
  }
  return true;
}

/* Longest first; which of equals comes first does not matter but stays the same. */
typedef struct length {
  int32_t steps, group;
} length;

static int by_length(const void *a, const void *b) {
  const length *x = a, *y = b;
  if (x->steps != y->steps) return x->steps > y->steps ? -1 : 1;
  return (x->group > y->group) - (x->group < y->group);
}

static bool sort_groups(lo_bsr_steps *out) {
  length *lengths = malloc((size_t)(out->groups + 1) * sizeof *lengths);
  if (!lengths) return false;
  for (int64_t g = 0; g < out->groups; g++)
    lengths[g] = (length){out->first[g + 1] - out->first[g], (int32_t)g};
  qsort(lengths, (size_t)out->groups, sizeof *lengths, by_length);
  for (int64_t g = 0; g < out->groups; g++) out->order[g] = lengths[g].group;
  free(lengths);
  return true;
}

static int64_t lines_of(const layerops_bsr *w, int size, bool by_columns) {
  return by_columns ? w->block_cols * (w->width / size) : w->block_rows * (w->height / size);
}

static bool fill_steps(const layerops_bsr *w, const shape *s, bool by_columns, unit *units,
                       lo_bsr_steps *out) {
  const int64_t lines = lines_of(w, s->unit, by_columns), side = s->slab / s->unit;
  const int64_t words = LO_CU_BSR_STEP_WORDS(s->slabs, s->units);
  numbers steps = {0};
  bool fits = true;
  for (int64_t g = 0; fits && g < out->groups; g++) {
    unit *end = units;
    for (int64_t l = g * s->group; l < (g + 1) * s->group && l < lines; l++)
      end = add_line(w, s->unit, by_columns, l, end);
    for (unit *u = units; u < end; u++)
      u->key = (uint64_t)(u->column / side) << 32 | (uint64_t)(u->line % s->group) << 16 |
               (uint64_t)(u->column % side);
    qsort(units, (size_t)(end - units), sizeof *units, by_key);
    out->first[g] = (int32_t)(steps.count / words);
    fits = add_group(s, units, end - units, &steps);
  }
  out->first[out->groups] = (int32_t)(steps.count / words);
  out->words = steps.at;
  out->words_count = steps.count;
  return fits;
}

/* At most: of a group in whose lines all longest blocks meet. */
static int64_t most_units(const layerops_bsr *w, const shape *s, bool by_columns) {
  const int64_t longest = by_columns ? w->longest_col : w->longest_row;
  const int64_t along = (by_columns ? w->height : w->width) / s->unit;
  return longest * along * s->group;
}

layerops_status lo_cuda_bsr_steps_make(const layerops_bsr *w, int number, bool by_columns,
                                       lo_bsr_steps *steps) {
  const shape *s = &shapes[number];
  const int64_t lines = lines_of(w, s->unit, by_columns);
  *steps = (lo_bsr_steps){.groups = (lines + s->group - 1) / s->group};
  unit *units = lo_bsr_memory(most_units(w, s, by_columns), sizeof *units);
  steps->first = lo_bsr_memory(steps->groups + 1, sizeof *steps->first);
  steps->order = lo_bsr_memory(steps->groups, sizeof *steps->order);
  bool made = units && steps->first && steps->order && fill_steps(w, s, by_columns, units, steps) &&
              sort_groups(steps);
  free(units);
  if (made) return LAYEROPS_OK;
  lo_cuda_bsr_steps_free(steps);
  return lo_bsr_no_memory("bsr");
}

void lo_cuda_bsr_steps_free(lo_bsr_steps *steps) {
  free(steps->words);
  free(steps->first);
  free(steps->order);
  *steps = (lo_bsr_steps){0};
}

/* ---- Chunks */

/* Where a slab stands in the list, from `from` on; it is put there if it is not yet. */
static int find(int32_t *list, int *count, int from, int32_t slab) {
  for (int i = from; i < *count; i++)
    if (list[i] == slab) return i;
  list[*count] = slab;
  return (*count)++;
}

/* How many of the units, at most `most`, have room in a chunk. */
static int take(const shape *s, const unit *units, int64_t left, int most, int32_t *z, int *zs,
                int32_t *x, int *xs) {
  const int64_t side = s->chunk_slab / s->unit;
  int n = 0;
  *zs = *xs = 0;
  for (; n < left && n < most; n++) {
    const int z_before = *zs, x_before = *xs;
    find(z, zs, 0, (int32_t)(units[n].line / side));
    find(x, xs, 0, (int32_t)(units[n].column / side));
    if (*zs + *xs <= s->chunk_slabs) continue;
    *zs = z_before;
    *xs = x_before;
    break;
  }
  return n;
}

enum { MOST_SLABS = 34 };

static bool add_chunk(const shape *s, const unit *units, int count, const int32_t *z, int zs,
                      const int32_t *x, int xs, numbers *out) {
  const int64_t side = s->chunk_slab / s->unit;
  int32_t *chunk = append(out, LO_CU_BSR_CHUNK_WORDS(s->chunk_slabs, s->chunk_units));
  if (!chunk) return false;
  int32_t *column = chunk + 4, *at = column + s->chunk_slabs;
  uint8_t *in_z = (uint8_t *)(at + s->chunk_units), *in_x = in_z + s->chunk_units;
  uint8_t *at_z = in_x + s->chunk_units, *at_x = at_z + s->chunk_units;
  chunk[0] = count;
  chunk[1] = zs;
  chunk[2] = zs + xs;
  for (int i = 0; i < zs; i++) column[i] = z[i] * s->chunk_slab;
  for (int i = 0; i < xs; i++) column[zs + i] = x[i] * s->chunk_slab;
  for (int i = 0; i < count; i++) {
    int n = zs, k = xs;
    at[i] = (int32_t)(units[i].at / 8);
    in_z[i] = (uint8_t)find((int32_t *)z, &n, 0, (int32_t)(units[i].line / side));
    in_x[i] = (uint8_t)(zs + find((int32_t *)x, &k, 0, (int32_t)(units[i].column / side)));
    at_z[i] = (uint8_t)(units[i].line % side * s->unit / 8);
    at_x[i] = (uint8_t)(units[i].column % side * s->unit / 8);
  }
  return true;
}

/* Cuts the units, in their order, into chunks; without `out` slabs are counted only. */
static bool cut(const shape *s, const unit *units, int64_t count, int most, int64_t *slabs,
                numbers *out) {
  int32_t z[MOST_SLABS], x[MOST_SLABS];
  *slabs = 0;
  for (int64_t i = 0; i < count;) {
    int zs, xs, n = take(s, units + i, count - i, most, z, &zs, x, &xs);
    if (out && !add_chunk(s, units + i, n, z, zs, x, xs, out)) return false;
    *slabs += zs + xs;
    i += n;
  }
  return true;
}

/* In strips of 2^log2 lines of slabs, each gone through column by column. */
static void sort_in_strips(const shape *s, unit *units, int64_t count, int log2) {
  const int64_t side = s->chunk_slab / s->unit;
  for (int64_t i = 0; i < count; i++)
    units[i].key = (uint64_t)(units[i].line / side >> log2) << 44 |
                   (uint64_t)units[i].column << 14 | (uint64_t)(units[i].line & 0x3fff);
  qsort(units, (size_t)count, sizeof *units, by_key);
}

/* As many units a chunk as fill the device evenly. */
static int units_of_chunk(const shape *s, int64_t count, int sms) {
  const int64_t slots = (int64_t)sms * s->resident, wave = slots * s->chunk_units;
  const int64_t waves = count ? (count + wave - 1) / wave : 1;
  const int64_t each = (count + waves * slots - 1) / (waves * slots);
  return each < 1 ? 1 : (int)each;
}

/* The height of strips that needs the fewest slabs is taken. */
static bool fill_chunks(const layerops_bsr *w, const shape *s, int sms, unit *units,
                        lo_bsr_chunks *out) {
  const int64_t lines = lines_of(w, s->unit, false);
  const int64_t words = LO_CU_BSR_CHUNK_WORDS(s->chunk_slabs, s->chunk_units);
  unit *end = units;
  for (int64_t l = 0; l < lines; l++) end = add_line(w, s->unit, false, l, end);
  const int64_t count = end - units;
  const int most = units_of_chunk(s, count, sms);
  int64_t least = INT64_MAX, slabs;
  int best = 0;
  for (int log2 = 0; log2 <= 14; log2 += 2) {
    sort_in_strips(s, units, count, log2);
    cut(s, units, count, most, &slabs, NULL);
    if (slabs < least) least = slabs, best = log2;
  }
  sort_in_strips(s, units, count, best);
  numbers chunks = {0};
  bool made = cut(s, units, count, most, &slabs, &chunks);
  *out = (lo_bsr_chunks){chunks.at, chunks.count, chunks.count / words};
  return made;
}

layerops_status lo_cuda_bsr_chunks_make(const layerops_bsr *w, int number, int sms,
                                        lo_bsr_chunks *chunks) {
  const shape *s = &shapes[number];
  *chunks = (lo_bsr_chunks){0};
  unit *units =
      lo_bsr_memory(w->count * (w->height / s->unit) * (w->width / s->unit), sizeof *units);
  bool made = units && fill_chunks(w, s, sms, units, chunks);
  free(units);
  if (made) return LAYEROPS_OK;
  lo_cuda_bsr_chunks_free(chunks);
  return lo_bsr_no_memory("bsr");
}

void lo_cuda_bsr_chunks_free(lo_bsr_chunks *chunks) {
  free(chunks->words);
  *chunks = (lo_bsr_chunks){0};
}

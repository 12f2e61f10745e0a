/* dW on the pattern: each kept block is the product of a slice of dZ^T and one of X over all
 * samples. Its columns stand on the lanes. Narrow blocks take slices of several blocks of a block
 * row at once, which share its dZ. Tasks have equal numbers of blocks, whatever the pattern, and
 * each element is one chain in the order of the samples. */
#include <config.h>

#include "backends/cpu/bsr.h"
#include "backends/cpu/span.h"

enum { PART = 64 }; /* elements that are converted and transposed at once, each way */

typedef struct job {
  const lo_bsr_gradient *g;
  bool plain;           /* sums are gradients as they stand */
  bool narrow;          /* no block is wider than a vector: several at once */
  int64_t first_packed; /* the first block column whose slice of X is packed */
  int64_t panel;        /* columns of a tile */
  lo_bsr_split split;   /* of the rows of a wide block */
  int64_t tasks, pack_tasks;
  int64_t x_floats, task_floats; /* of scratch */
  float *scratch;
} job;

/* Scratch of a task. */
typedef struct place {
  float *dz, *sums, *part;
} place;

static int64_t ragged_up(int64_t floats) {
  return lo_round_up(floats, 16);
}

/* Whether sums are gradients as they stand. */
static bool plain(const lo_bsr_gradient *g) {
  return g->dw.base && g->dw.type == LAYEROPS_F32 && !g->gate && !g->dgate && g->beta == 0.0f;
}

static job cut(const lo_bsr_gradient *g) {
  const layerops_bsr *w = g->w;
  const lo_microkernels *mk = g->isa->product;
  job t = {.g = g, .plain = plain(g), .narrow = w->width < 2 * mk->lanes};
  t.panel = t.narrow ? mk->slice_vectors * mk->lanes : 2 * mk->lanes;
  t.split = lo_bsr_split_of(w->height, mk->rows[1]);
  const bool in_place = g->m && !t.narrow && !g->by_features && g->x.type == LAYEROPS_F32;
  t.first_packed = in_place ? w->cols / w->width : 0;
  t.x_floats = ragged_up((w->block_cols - t.first_packed) * g->m * w->width);
  t.task_floats =
      ragged_up(g->m * w->height) + ragged_up(w->height * lo_most(t.panel, w->width)) + PART * PART;
  t.tasks = lo_least(g->threads, w->count);
  t.pack_tasks = lo_least(g->threads, w->block_cols - t.first_packed);
  return t;
}

int64_t lo_bsr_gradient_scratch(const lo_bsr_gradient *g) {
  const job t = cut(g);
  return t.x_floats + lo_most(t.tasks, t.pack_tasks) * t.task_floats;
}

static place place_of(const job *t, int64_t task) {
  const layerops_bsr *w = t->g->w;
  place p;
  p.dz = t->scratch + t->x_floats + task * t->task_floats;
  p.sums = p.dz + ragged_up(t->g->m * w->height);
  p.part = p.sums + ragged_up(w->height * lo_most(t->panel, w->width));
  return p;
}

/* ---- Slices ---- */

/* Rows of whole blocks; a call for each of the short ones would take longer than they do. */
static void copy_rows(const float *from, int64_t from_row, float *to, int64_t to_row, int64_t rows,
                      int64_t width) {
  for (int64_t i = 0; i < rows; i++, from += from_row, to += to_row) switch (width) {
    case 4:
      memcpy(to, from, 4 * sizeof *to);
      break;
    case 8:
      memcpy(to, from, 8 * sizeof *to);
      break;
    default:
      memcpy(to, from, (size_t)width * sizeof *to);
    }
}

/* Features [from, from + width) of all samples as rows of samples in f32; those beyond `features`
 * are 0. */
static void pack_slice(const job *t, const lo_plane *v, int64_t features, int64_t from,
                       int64_t width, float *to, float *part) {
  const lo_bsr_gradient *g = t->g;
  if (!g->m) return;
  const int64_t size = (int64_t)lo_type_bytes(v->type), n = lo_least(width, features - from);
  for (int64_t i = 0; n < width && i < g->m; i++)
    memset(to + i * width + n, 0, (size_t)(width - n) * sizeof *to);
  if (!g->by_features && v->type == LAYEROPS_F32 && n == width) {
    copy_rows((const float *)(const void *)v->base + from, v->stride, to, width, g->m, width);
    return;
  }
  if (!g->by_features) {
    g->isa->load_rows(v->type, v->base + from * size, v->stride, to, width, g->m, n);
    return;
  }
  for (int64_t i = 0; i < g->m; i += PART)
    for (int64_t j = 0; j < n; j += PART) {
      const int64_t rows = lo_least(PART, n - j), cols = lo_least(PART, g->m - i);
      g->isa->load_rows(v->type, v->base + ((from + j) * v->stride + i) * size, v->stride, part,
                        PART, rows, cols);
      g->isa->transpose(part, PART, to + i * width + j, width, rows, cols);
    }
}

static void pack_task(void *arg, int64_t task) {
  const job *t = arg;
  const layerops_bsr *w = t->g->w;
  int64_t begin, end;
  lo_share(w->block_cols - t->first_packed, t->pack_tasks, task, &begin, &end);
  for (int64_t c = begin; c < end; c++)
    pack_slice(t, &t->g->x, w->cols, (t->first_packed + c) * w->width, w->width,
               t->scratch + c * t->g->m * w->width, place_of(t, task).part);
}

/* A slice's first element, and how far it is from one sample to the next. */
typedef struct slice {
  const float *at;
  int64_t row;
} slice;

static slice slice_of_x(const job *t, int64_t column) {
  const lo_bsr_gradient *g = t->g;
  const int64_t width = g->w->width;
  if (column < t->first_packed)
    return (slice){(const float *)(const void *)g->x.base + column * width, g->x.stride};
  return (slice){t->scratch + (column - t->first_packed) * g->m * width, width};
}

static slice slice_of_dz(const job *t, int64_t row, const place *p) {
  const lo_bsr_gradient *g = t->g;
  const int64_t height = g->w->height;
  if (g->m && !g->by_features && g->dz.type == LAYEROPS_F32 && (row + 1) * height <= g->w->rows)
    return (slice){(const float *)(const void *)g->dz.base + row * height, g->dz.stride};
  pack_slice(t, &g->dz, g->w->rows, row * height, height, p->dz, p->part);
  return (slice){p->dz, height};
}

/* ---- What follows the sums ---- */

/* The product of a row of sums with one of W, added to the lanes. */
static void add_product(const lo_bsr_gradient *g, int64_t row, const float *sums, int64_t n,
                        float *lanes) {
  float copy[LO_SPAN];
  const float *w = lo_get(g->isa, &g->values, row, 0, n, copy);
  for (int64_t j = 0; j < n; j++) lanes[j % LO_LANES] += sums[j] * w[j];
}

/* A row of a block's gradient; n of its elements lie in W. */
static void store_row(const lo_bsr_gradient *g, int64_t row, const float *sums, int64_t n,
                      float gate) {
  const int64_t width = g->w->width;
  float out[LO_SPAN], copy[LO_SPAN];
  memset(out, 0, (size_t)width * sizeof *out);
  for (int64_t j = 0; gate != 0.0f && j < n; j++) out[j] = gate * sums[j];
  if (g->beta != 0.0f) {
    const float *old = lo_get(g->isa, &g->dw, row, 0, n, copy);
    for (int64_t j = 0; j < n; j++) out[j] += g->beta * old[j];
  }
  g->isa->store(g->dw.type, out, lo_element(&g->dw, row, 0), width);
}

static bool whole(const layerops_bsr *w, int64_t r, int64_t block) {
  return (r + 1) * w->height <= w->rows && (w->host.column[block] + 1) * w->width <= w->cols;
}

static void finish_block(const job *t, int64_t r, int64_t block, const float *sums, int64_t row) {
  const lo_bsr_gradient *g = t->g;
  const layerops_bsr *w = g->w;
  if (t->plain && whole(w, r, block)) {
    copy_rows(sums, row, lo_element(&g->dw, block * w->height, 0), g->dw.stride, w->height,
              w->width);
    return;
  }
  const int64_t rows = lo_least(w->height, w->rows - r * w->height);
  const int64_t cols = lo_least(w->width, w->cols - w->host.column[block] * w->width);
  const float gate = g->gate ? g->gate[block] : 1.0f;
  float lanes[LO_LANES] = {0};
  for (int64_t i = 0; i < w->height; i++) {
    const int64_t n = i < rows ? cols : 0, at = block * w->height + i;
    if (g->dgate) add_product(g, at, sums + i * row, n, lanes);
    if (g->dw.base) store_row(g, at, sums + i * row, n, gate);
  }
  if (!g->dgate) return;
  const float sum = lo_fold(lanes);
  g->dgate[block] = g->beta != 0.0f ? sum + g->beta * g->dgate[block] : sum;
}

/* ---- Blocks that fill tiles ---- */

static void run_block(const job *t, slice dz, int64_t block, float *sums, int64_t sums_row) {
  const lo_bsr_gradient *g = t->g;
  const layerops_bsr *w = g->w;
  const lo_microkernels *mk = g->isa->product;
  const int64_t vector = (t->panel >> mk->lane_bits) - 1;
  const slice x = slice_of_x(t, w->host.column[block]);
  for (int64_t q = 0; q < w->width; q += t->panel) {
    const lo_segment all = {dz.at, x.at + q, g->m};
    lo_tile tile = {.list = &all,
                    .count = 1,
                    .x_row = 1,
                    .x_step = dz.row,
                    .w_step = x.row,
                    .c = sums + q,
                    .c_row = sums_row,
                    .columns = t->panel};
    lo_bsr_tiles(mk->run[LO_K_MAJOR][vector], t->split, &tile);
  }
}

/* One sample: rows of a block are its slice of X, times an element of dZ each, which stays in
 * registers. Time goes to stores and to whatever comes between them. */
static lo_microkernel outer_product(const job *t) {
  const lo_microkernels *mk = t->g->isa->product;
  return t->plain && t->g->m == 1 ? mk->resident[(t->panel >> mk->lane_bits) - 1][0] : NULL;
}

static void run_outer(const job *t, lo_microkernel run, slice dz, int64_t begin, int64_t end) {
  const lo_bsr_gradient *g = t->g;
  const layerops_bsr *w = g->w;
  lo_segment x = {.x = dz.at, .k = 1};
  lo_tile tile = {.list = &x,
                  .count = 1,
                  .x_row = 1,
                  .c_row = g->dw.stride,
                  .columns = t->panel,
                  .tiles = w->height};
  float *c = lo_element(&g->dw, begin * w->height, 0);
  for (int64_t block = begin; block < end; block++, c += w->height * g->dw.stride)
    for (int64_t q = 0; q < w->width; q += t->panel) {
      x.w = slice_of_x(t, w->host.column[block]).at + q;
      tile.c = c + q;
      run(&tile);
    }
}

static void run_wide(const job *t, int64_t r, int64_t begin, int64_t end, const place *p) {
  const slice dz = slice_of_dz(t, r, p);
  const layerops_bsr *w = t->g->w;
  const lo_microkernel outer = outer_product(t);
  if (outer && whole(w, r, end - 1)) { /* columns ascend: then the others are whole too */
    run_outer(t, outer, dz, begin, end);
    return;
  }
  for (int64_t block = begin; block < end; block++) {
    if (t->plain && whole(w, r, block)) {
      run_block(t, dz, block, lo_element(&t->g->dw, block * w->height, 0), t->g->dw.stride);
      continue;
    }
    run_block(t, dz, block, p->sums, w->width);
    finish_block(t, r, block, p->sums, w->width);
  }
}

/* ---- Narrow blocks ---- */

/* `count` blocks side by side in the panel. */
static void run_group(const job *t, slice dz, int64_t first, int64_t count, float *sums) {
  const lo_bsr_gradient *g = t->g;
  const layerops_bsr *w = g->w;
  const lo_microkernels *mk = g->isa->product;
  const float *x[LO_MAX_SLICES];
  const int64_t vectors = lo_cuts(count * w->width, mk->lanes), parts = mk->lanes / w->width;
  for (int64_t s = 0; s < vectors * parts; s++) /* what is left of a vector takes any slice */
    x[s] = slice_of_x(t, w->host.column[first + lo_least(s, count - 1)]).at;
  for (int64_t q = 0; q < w->height; q += mk->slice_rows) {
    const lo_slices tile = {.x = x,
                            .x_row = w->width,
                            .d = dz.at + q,
                            .d_row = dz.row,
                            .m = g->m,
                            .c = sums + q * t->panel,
                            .c_row = t->panel};
    mk->slices[parts / 2][vectors - 1][w->height < mk->slice_rows](&tile);
  }
}

static void run_narrow(const job *t, int64_t r, int64_t begin, int64_t end, const place *p) {
  const slice dz = slice_of_dz(t, r, p);
  const int64_t width = t->g->w->width, lanes = t->g->isa->product->lanes, each = lanes / width;
  const int64_t vectors = lo_cuts(end - begin, each), groups = lo_cuts(vectors * lanes, t->panel);
  for (int64_t u = 0; u < groups; u++) { /* whole vectors, but for the last */
    int64_t first, last;
    lo_share(vectors, groups, u, &first, &last);
    const int64_t from = begin + first * each, to = lo_least(begin + last * each, end);
    run_group(t, dz, from, to - from, p->sums);
    for (int64_t b = from; b < to; b++)
      finish_block(t, r, b, p->sums + (b - from) * width, t->panel);
  }
}

/* ---- Tasks ---- */

/* The block row of a block. */
static int64_t row_of(const layerops_bsr *w, int64_t block) {
  int64_t low = 0, high = w->block_rows;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (w->host.row_start[middle] <= block)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static void run_task(void *arg, int64_t task) {
  const job *t = arg;
  const layerops_bsr *w = t->g->w;
  const place p = place_of(t, task);
  int64_t begin, end;
  lo_share(w->count, t->tasks, task, &begin, &end);
  for (int64_t r = row_of(w, begin); begin < end; r++) {
    const int64_t stop = lo_least(end, w->host.row_start[r + 1]);
    if (begin == stop) continue;
    if (t->narrow)
      run_narrow(t, r, begin, stop, &p);
    else
      run_wide(t, r, begin, stop, &p);
    begin = stop;
  }
}

void lo_bsr_gradient_run(layerops_context *ctx, const lo_bsr_gradient *g, float *scratch) {
  job t = cut(g);
  t.scratch = scratch;
  if (g->w->count == 0) return;
  if (t.x_floats) lo_parallel(ctx, t.pack_tasks, pack_task, &t);
  lo_parallel(ctx, t.tasks, run_task, &t);
}

#include <config.h>

#include <math.h>
#include <string.h>

#include "backends/cpu/grouped_product.h"

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* A rectangle of C that one task computes, and the task's scratch. */
typedef struct piece {
  const lo_grouped_plan *plan;
  const char *x, *w; /* this matrix of the batch */
  lo_finish finish;
  uint32_t *w_room, *x_room, *c_room;
  int32_t *sums_room;
} piece;

/* One block of columns x k, and the slab of rows that meets it. */
typedef struct block {
  int64_t j, columns, k, depth; /* first and count */
  int64_t stripe;               /* first row of the stripe */
  const uint32_t *w;            /* the first panel */
  int64_t next_panel;           /* words */
  const int32_t *sums;          /* of the columns, up to the end of this block */
  const char *x;                /* the slab, */
  int64_t x_row, x_k;           /* bytes from row to row, elements of a row: copies are padded */
} block;

/* Element (outer, k) of an operand. */
static const char *element(const char *base, const lo_grouped_words *m, int64_t outer, int64_t k) {
  int64_t index = m->k_major ? k * m->row + outer : outer * m->row + k;
  return base + index * (int64_t)layerops_type_size(m->type);
}

/* ---- Operands ---- */

static void place_w(const piece *t, block *b) {
  const lo_grouped_plan *plan = t->plan;
  const lo_grouped *dot = plan->dot;
  if (plan->packed) {
    b->w = plan->packed->panels + b->j * plan->words + b->k * dot->size / 4 * dot->panel;
    b->next_panel = plan->words * dot->panel;
    b->sums = plan->packed->sums + b->j;
    return;
  }
  if (b->k == 0) memset(t->sums_room, 0, (size_t)plan->sums_bytes);
  b->w = t->w_room;
  b->next_panel = lo_grouped_depth(dot, b->depth) * dot->panel;
  b->sums = t->sums_room;
  if (!b->depth) return;
  lo_grouped_words w = plan->w;
  w.from = element(t->w, &w, b->j, b->k);
  lo_grouped_pack_panels(plan->isa, dot, &w, b->depth, b->columns, t->w_room,
                         plan->corrects ? t->sums_room : NULL);
}

static bool x_serves_in_place(const lo_grouped_plan *plan, const block *b, int64_t rows) {
  const lo_grouped *dot = plan->dot;
  return plan->x_in_place && rows % dot->row_unit == 0 &&
         (dot->masks || b->depth % dot->depth == 0);
}

/* Rows as words in x_room, and rows of zeros up to a whole unit. */
static void copy_rows(const piece *t, int64_t i, int64_t rows, int64_t k, int64_t depth) {
  const lo_grouped_plan *plan = t->plan;
  const int64_t words = lo_grouped_depth(plan->dot, depth);
  uint32_t *to = t->x_room;
  lo_grouped_words x = plan->x;
  for (int64_t r = 0; r < rows; r += LO_GROUPED_ROWS) {
    x.from = element(t->x, &x, i + r, k);
    plan->isa->grouped_rows(&x, least(LO_GROUPED_ROWS, rows - r), depth, words,
                            to + r * plan->x_row, plan->x_row);
  }
  for (; rows % plan->dot->row_unit; rows++)
    memset(to + rows * plan->x_row, 0, (size_t)words * sizeof *to);
}

static void place_x(const piece *t, block *b, int64_t i, int64_t rows) {
  const lo_grouped_plan *plan = t->plan;
  const int64_t size = plan->dot->size;
  if (!b->depth) return;
  if (x_serves_in_place(plan, b, rows)) {
    b->x = element(t->x, &plan->x, i, b->k);
    b->x_row = plan->x.row * size;
    b->x_k = b->depth;
    return;
  }
  const uint32_t *copy = t->x_room;
  if (plan->copies_stripes)
    copy += (i - b->stripe) * plan->x_row + b->k * size / 4;
  else
    copy_rows(t, i, rows, b->k, b->depth);
  b->x = (const char *)copy;
  b->x_row = plan->x_row * 4;
  b->x_k = lo_grouped_depth(plan->dot, b->depth) * 4 / size;
}

/* ---- Tiles ---- */

static void store_integers(const lo_plane *c, const uint32_t *sums, int64_t row, int64_t i,
                           int64_t rows, int64_t j, int64_t columns) {
  int32_t *to = (int32_t *)(void *)c->base + i * c->stride + j;
  for (int64_t r = 0; r < rows; r++)
    memcpy(to + r * c->stride, sums + r * row, (size_t)columns * sizeof *to);
}

/* Scales and zero points from row i and column j on. */
static lo_scaling scaling_at(const piece *t, const block *b, int64_t i, int64_t j) {
  lo_scaling s = t->plan->scaling;
  if (t->plan->corrects) s.column = b->sums + (j - b->j);
  s.zero += i * s.zero_step;
  s.column_scale += j * s.column_step;
  if (s.row_scale) s.row_scale += i * s.row_step;
  return s;
}

static void finish_tile(const piece *t, const block *b, uint32_t *sums, int64_t row, int64_t i,
                        int64_t rows, int64_t j, int64_t columns) {
  const lo_grouped_plan *plan = t->plan;
  if (plan->integers && plan->k) {
    const lo_integer_tile tile = {(int32_t *)sums, row, rows, columns, scaling_at(t, b, i, j)};
    plan->isa->integers(&tile);
  }
  if (t->finish.c.type == LAYEROPS_I32)
    store_integers(&t->finish.c, sums, row, i, rows, j, columns);
  else
    plan->isa->finish(&t->finish, (float *)(void *)sums, row, i, j, rows, columns);
}

/* C comes from far while the tile is computed, not when it is stored. */
static void prefetch_c(const lo_plane *c, int64_t i, int64_t rows, int64_t j, int64_t columns) {
  const int64_t size = (int64_t)layerops_type_size(c->type), row = c->stride * size;
  const char *at = c->base + i * row + j * size;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t byte = 0; byte < columns * size; byte += 64)
      __builtin_prefetch(at + r * row + byte, 1);
}

/* The last block's tile, whose sums never leave the registers. */
static void run_out(const piece *t, const block *b, lo_grouped_tile *tile, int64_t i, int64_t j) {
  const lo_finish *f = &t->finish;
  float bias[LO_GROUPED_PANEL];
  lo_grouped_out out = {.type = f->c.type,
                        .y_row = f->c.stride * (int64_t)layerops_type_size(f->c.type),
                        .low = f->activation == LAYEROPS_RELU ? 0.0f : -INFINITY};
  out.y = f->c.base + i * out.y_row + j * (int64_t)layerops_type_size(f->c.type);
  if (t->plan->integers) out.scaling = scaling_at(t, b, i, j);
  if (f->bias.base && f->bias.type == LAYEROPS_F32) {
    out.bias = (const float *)(const void *)f->bias.base + j;
  } else if (f->bias.base) {
    t->plan->isa->load(f->bias.type, f->bias.base + 2 * j, bias, tile->columns);
    out.bias = bias;
  }
  tile->out = &out;
  t->plan->dot->run(tile);
}

/* The tile of `rows` rows from row i on, and panel q of the block. */
static void run_tile(const piece *t, const block *b, int64_t i, int64_t rows, int64_t q) {
  const lo_grouped_plan *plan = t->plan;
  const lo_grouped *dot = plan->dot;
  const int64_t j = b->j + q * dot->panel, columns = least(dot->panel, b->columns - q * dot->panel);
  const bool whole = plan->k <= plan->block_k;
  uint32_t sums[LO_GROUPED_ROWS * LO_GROUPED_PANEL] __attribute__((aligned(64)));
  lo_grouped_tile tile = {.x = b->x,
                          .x_row = b->x_row,
                          .w = b->w + q * b->next_panel,
                          .k = b->x_k,
                          .c = sums,
                          .c_row = dot->panel,
                          .rows = (int)rows,
                          .columns = (int)columns,
                          .load = b->k > 0};
  if (!whole) {
    tile.c = t->c_room + (i - b->stripe) * plan->wide + (j - b->j);
    tile.c_row = plan->wide;
  }
  const bool last = b->k + b->depth == plan->k;
  if (last) prefetch_c(&t->finish.c, i, rows, j, columns);
  if (last && plan->out_in_registers) {
    run_out(t, b, &tile, i, j);
    return;
  }
  if (b->depth)
    dot->run(&tile);
  else
    memset(sums, 0, sizeof sums);
  if (last) finish_tile(t, b, tile.c, tile.c_row, i, rows, j, columns);
}

/* Rows in slabs of nearly equal height, in whole units; each stays in cache while all panels pass.
 */
static void run_block(const piece *t, block *b, int64_t rows) {
  const lo_grouped *dot = t->plan->dot;
  const int64_t slabs = (rows + dot->rows - 1) / dot->rows, unit = dot->row_unit;
  const int64_t panels = (b->columns + dot->panel - 1) / dot->panel;
  const int64_t height = ((rows + slabs - 1) / slabs + unit - 1) / unit * unit;
  for (int64_t done = 0; done < rows; done += height) {
    const int64_t i = b->stripe + done, here = least(height, rows - done);
    place_x(t, b, i, here);
    for (int64_t q = 0; q < panels; q++) run_tile(t, b, i, here, q);
  }
}

/* ---- Blocks ---- */

static void run_stripe(const piece *t, int64_t i, int64_t i_end, int64_t j, int64_t j_end) {
  const lo_grouped_plan *plan = t->plan;
  if (plan->copies_stripes && plan->k) copy_rows(t, i, i_end - i, 0, plan->k);
  for (; j < j_end; j += plan->block_n) {
    int64_t k = 0;
    do { /* once where k is 0 */
      block b = {.stripe = i,
                 .j = j,
                 .columns = least(plan->block_n, j_end - j),
                 .k = k,
                 .depth = least(plan->block_k, plan->k - k)};
      place_w(t, &b);
      run_block(t, &b, i_end - i);
      k += plan->block_k;
    } while (k < plan->k);
  }
}

static void run_piece(const piece *t, int64_t cut) {
  const lo_grouped_plan *plan = t->plan;
  const int64_t panel = plan->dot->panel, panels = (plan->n + panel - 1) / panel;
  int64_t i, i_end, j, j_end;
  lo_share(plan->m, plan->row_cuts, cut / plan->column_cuts, &i, &i_end);
  lo_share(panels, plan->column_cuts, cut % plan->column_cuts, &j, &j_end);
  j *= panel;
  j_end = least(j_end * panel, plan->n);
  for (; i < i_end; i += plan->stripe) run_stripe(t, i, least(i + plan->stripe, i_end), j, j_end);
}

/* ---- Tasks ---- */

typedef struct job {
  const lo_grouped_plan *plan;
  char *scratch;
} job;

static void run_task(void *arg, int64_t task) {
  const job *w = arg;
  const lo_grouped_plan *plan = w->plan;
  const int64_t each = plan->row_cuts * plan->column_cuts;
  char *scratch = w->scratch + task * (lo_grouped_plan_scratch(plan) / plan->tasks);
  piece t = {.plan = plan, .finish = plan->finish};
  t.w_room = (uint32_t *)(void *)scratch;
  t.sums_room = (int32_t *)(void *)(scratch + plan->w_bytes);
  t.x_room = (uint32_t *)(void *)(scratch + plan->w_bytes + plan->sums_bytes);
  t.c_room = t.x_room + plan->x_bytes / 4;
  int64_t begin, end;
  lo_share(plan->p->batch * each, plan->tasks, task, &begin, &end);
  if (plan->dot->begin) plan->dot->begin();
  for (int64_t cut = begin; cut < end; cut++) {
    t.x = plan->k ? lo_plane_of(&plan->p->a, cut / each).base : NULL;
    t.w = plan->k ? lo_plane_of(&plan->p->b, cut / each).base : NULL;
    t.finish.c = lo_plane_of(&plan->p->c, cut / each);
    run_piece(&t, cut % each);
  }
  if (plan->dot->end) plan->dot->end();
}

void lo_grouped_run(layerops_context *ctx, const lo_grouped_plan *plan, void *scratch) {
  job w = {plan, scratch};
  lo_parallel(ctx, plan->tasks, run_task, &w);
}

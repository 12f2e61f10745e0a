#include <config.h>

#include <math.h>
#include <string.h>

#include "backends/cpu/grouped_product.h"

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
    plan->isa->grouped_rows(&x, lo_least(LO_GROUPED_ROWS, rows - r), depth, words,
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

lo_grouped_out lo_grouped_out_of(const lo_isa *isa, const lo_finish *f, int64_t i, int64_t j,
                                 int columns, float bias[LO_GROUPED_PANEL]) {
  lo_grouped_out out = {.type = f->c.type,
                        .y_row = f->c.stride * (int64_t)layerops_type_size(f->c.type),
                        .low = f->activation == LAYEROPS_RELU ? 0.0f : -INFINITY};
  out.y = f->c.base + i * out.y_row + j * (int64_t)layerops_type_size(f->c.type);
  if (f->bias.base && f->bias.type == LAYEROPS_F32) {
    out.bias = (const float *)(const void *)f->bias.base + j;
  } else if (f->bias.base) {
    isa->load(f->bias.type, f->bias.base + 2 * j, bias, columns);
    out.bias = bias;
  }
  return out;
}

/* The last block's tile, whose sums never leave the registers. */
static void run_out(const piece *t, const block *b, lo_grouped_tile *tile, int64_t i, int64_t j) {
  float bias[LO_GROUPED_PANEL];
  lo_grouped_out out = lo_grouped_out_of(t->plan->isa, &t->finish, i, j, tile->columns, bias);
  if (t->plan->integers) out.scaling = scaling_at(t, b, i, j);
  tile->out = &out;
  (t->plan->streams ? t->plan->dot->run_short : t->plan->dot->run)(tile);
}

/* The tile of `rows` rows from row i on, and panel q of the block. */
static void run_tile(const piece *t, const block *b, int64_t i, int64_t rows, int64_t q) {
  const lo_grouped_plan *plan = t->plan;
  const lo_grouped *dot = plan->dot;
  const int64_t j = b->j + q * dot->panel,
                columns = lo_least(dot->panel, b->columns - q * dot->panel);
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
  if (last && !plan->streams) prefetch_c(&t->finish.c, i, rows, j, columns);
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

/* ---- Dots ---- */

/* A block of sums: rows x columns from (i, j) on. */
typedef struct dots {
  int64_t i, rows, j, columns;
  uint32_t *sums;
  int64_t row; /* of sums */
} dots;

static const char *row_of_w(const piece *t, int64_t j, int64_t *row) {
  const lo_grouped_plan *plan = t->plan;
  const lo_grouped_packed *packed = plan->packed;
  *row = packed ? lo_grouped_dot_row(plan->dot, plan->k) : plan->w.row * plan->dot->size;
  return packed ? packed->rows + (j - plan->tiled) * *row : element(t->w, &plan->w, j, 0);
}

static void sum_dots(const piece *t, const dots *d) {
  const lo_grouped_plan *plan = t->plan;
  lo_grouped_dots tile = {.x = element(t->x, &plan->x, d->i, 0),
                          .x_row = plan->x.row * plan->dot->size,
                          .bytes = plan->k * plan->dot->size,
                          .flip = plan->x.change == LO_GROUPED_FLIP ? 0x80808080 : 0,
                          .rows = (int)d->rows,
                          .columns = (int)d->columns,
                          .c = d->sums,
                          .c_row = d->row};
  tile.w = row_of_w(t, d->j, &tile.w_row);
  plan->dot->dots(&tile);
}

/* What isa->integers does, without idle lanes. */
static void scale_dense(const lo_scaling *s, const dots *d) {
  for (int64_t r = 0; r < d->rows; r++)
    for (int64_t c = 0; c < d->columns; c++) {
      uint32_t *at = &d->sums[r * d->row + c], sum = *at;
      if (s->column)
        sum -= ((uint32_t)s->zero[r * s->zero_step] + (uint32_t)s->shift) * (uint32_t)s->column[c];
      const float scale = s->row_scale[r * s->row_step] * s->column_scale[c * s->column_step];
      const float result = (float)(int32_t)sum * scale;
      memcpy(at, &result, sizeof result);
    }
}

static void finish_dense(const piece *t, const block *b, const dots *d) {
  const lo_isa *isa = t->plan->isa;
  const lo_finish *f = &t->finish;
  const int64_t size = (int64_t)layerops_type_size(f->c.type);
  const lo_scaling scaling = scaling_at(t, b, d->i, d->j);
  float bias[LO_GROUPED_PANEL], *y = (float *)(void *)d->sums;
  char *c = f->c.base + (d->i * f->c.stride + d->j) * size;
  if (t->plan->integers) scale_dense(&scaling, d);
  if (f->bias.base) {
    const int64_t from = d->j * (int64_t)layerops_type_size(f->bias.type);
    isa->load(f->bias.type, f->bias.base + from, bias, d->columns);
    for (int64_t r = 0; r < d->rows; r++)
      for (int64_t j = 0; j < d->columns; j++) y[r * d->columns + j] += bias[j];
  }
  if (f->activation != LAYEROPS_IDENTITY)
    isa->activate(f->activation, f->slope, y, y, d->rows * d->columns);
  const bool tight = f->c.stride == d->columns;
  const int64_t runs = tight ? 1 : d->rows, run = tight ? d->rows * d->columns : d->columns;
  for (int64_t r = 0; r < runs; r++)
    isa->store(f->c.type, y + r * run, c + r * f->c.stride * size, run);
}

/* Rows from i on against the columns j to j_end. */
static void run_dots(const piece *t, int64_t i, int64_t rows, int64_t j, int64_t j_end) {
  enum { ROWS = 64 };
  const lo_grouped_plan *plan = t->plan;
  uint32_t sums[ROWS * LO_GROUPED_PANEL] __attribute__((aligned(64)));
  const block b = {.j = plan->tiled,
                   .sums = plan->packed ? plan->packed->sums + plan->tiled : NULL};
  for (int64_t end = i + rows; i < end; i += ROWS)
    for (int64_t at = j; at < j_end; at += LO_GROUPED_PANEL) {
      dots d = {i, lo_least(ROWS, end - i), at, lo_least(LO_GROUPED_PANEL, j_end - at), sums, 0};
      d.row = plan->dense ? d.columns : LO_GROUPED_PANEL;
      for (int64_t r = 0; r < d.rows; r++)
        for (int64_t c = d.columns; c < d.row; c++) sums[r * d.row + c] = 0;
      sum_dots(t, &d);
      if (plan->dense)
        finish_dense(t, &b, &d);
      else
        finish_tile(t, &b, sums, d.row, d.i, d.rows, d.j, d.columns);
    }
}

/* Rows in slabs of nearly equal height, in whole units; each stays in cache while all panels pass.
 */
static void run_block(const piece *t, block *b, int64_t rows) {
  const lo_grouped *dot = t->plan->dot;
  const int64_t most = t->plan->slab, slabs = (rows + most - 1) / most, unit = dot->row_unit;
  const int64_t panels = (b->columns + dot->panel - 1) / dot->panel;
  const bool with_dots = t->plan->dots && b->j + b->columns == t->plan->tiled &&
                         b->k + b->depth == t->plan->k; /* while the slab is in cache */
  const int64_t height = ((rows + slabs - 1) / slabs + unit - 1) / unit * unit;
  for (int64_t done = 0; done < rows; done += height) {
    const int64_t i = b->stripe + done, here = lo_least(height, rows - done);
    place_x(t, b, i, here);
    for (int64_t q = 0; q < panels; q++) run_tile(t, b, i, here, q);
    if (with_dots) run_dots(t, i, here, t->plan->tiled, t->plan->n);
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
                 .columns = lo_least(plan->block_n, j_end - j),
                 .k = k,
                 .depth = lo_least(plan->block_k, plan->k - k)};
      place_w(t, &b);
      run_block(t, &b, i_end - i);
      k += plan->block_k;
    } while (k < plan->k);
  }
}

static void run_piece(const piece *t, int64_t cut) {
  const lo_grouped_plan *plan = t->plan;
  const int64_t panel = plan->dot->panel, all = lo_grouped_cut_columns(plan);
  const int64_t panels = (all + panel - 1) / panel;
  int64_t i, i_end, j, j_end;
  const bool one = plan->row_cuts * plan->column_cuts == 1; /* small products feel each division */
  const int64_t row_cut = one ? 0 : cut / plan->column_cuts;
  lo_share(plan->m, plan->row_cuts, row_cut, &i, &i_end);
  lo_share(panels, plan->column_cuts, cut - row_cut * plan->column_cuts, &j, &j_end);
  j *= panel;
  j_end = lo_least(j_end * panel, all);
  if (!plan->tiled) run_dots(t, i, i_end - i, j, j_end);
  if (!plan->tiled) return;
  for (; i < i_end; i += plan->stripe)
    run_stripe(t, i, lo_least(i + plan->stripe, i_end), j, j_end);
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

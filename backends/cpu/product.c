#include <config.h>

#include "backends/cpu/grouped_product.h"

/* A rectangle of C that one task computes, and the task's scratch. */
typedef struct piece {
  const lo_plan *plan;
  const char *x, *w; /* this matrix of the batch */
  lo_finish finish;
  float *w_room, *x_room, *c_room;
} piece;

/* One block of rows x columns x k. */
typedef struct block {
  int64_t i, rows, j, columns, k, depth; /* first and count */
  int64_t stripe;                        /* first row of the stripe */
  const float *x;                        /* the first element */
  int64_t x_row, x_step;
  const float *w; /* the first element or panel */
  int64_t w_step, next_panel;
  int layout;
} block;

static const float *floats(const char *p) {
  return (const float *)(const void *)p;
}

/* ---- Operands ---- */

/* Element (outer, k) of a matrix stored k-major or not. */
static const char *element(const char *base, const layerops_matrix *m, bool k_major, int64_t outer,
                           int64_t k) {
  int64_t index = k_major ? k * m->stride + outer : outer * m->stride + k;
  return base + index * (int64_t)layerops_type_size(m->type);
}

static void place_x(const piece *t, block *b) {
  const lo_plan *plan = t->plan;
  const layerops_matrix *x = plan->x;
  b->layout = plan->x_k_major ? LO_K_MAJOR : LO_ROW_MAJOR;
  b->x_row = b->x_step = x->stride;
  if (!b->depth) return;
  const char *from = element(t->x, x, plan->x_k_major, b->i, b->k);
  b->x = floats(from);
  if (plan->x_in_place) return;
  const int64_t rows = plan->x_k_major ? b->depth : b->rows;
  const int64_t columns = plan->x_k_major ? b->rows : b->depth;
  b->x_row = b->x_step = lo_copied_row(columns);
  plan->isa->load_rows(x->type, from, x->stride, t->x_room, b->x_row, rows, columns);
  b->x = t->x_room;
}

/* W in place but for a last panel that is not whole vectors: there the microkernel would read past
 * the row. */
static void place_w(const piece *t, block *b) {
  const lo_plan *plan = t->plan;
  const int64_t panel = plan->panel, rest = b->columns % panel;
  b->w = t->w_room;
  b->w_step = panel;
  b->next_panel = b->depth * panel;
  if (!b->depth) return;
  if (plan->how == LO_W_PREPACKED) {
    b->w = plan->packed.panels + b->j * plan->k + b->k * panel;
    b->next_panel = plan->k * panel;
    return;
  }
  lo_pack pack = {.isa = plan->isa,
                  .from = element(t->w, plan->w, plan->w_k_major, b->j, b->k),
                  .type = plan->w->type,
                  .row = plan->w->stride,
                  .k_major = plan->w_k_major,
                  .panel = panel};
  if (plan->how == LO_W_PACKED) {
    lo_pack_panels(&pack, b->depth, b->columns, t->w_room);
    return;
  }
  b->w = floats(pack.from);
  b->w_step = plan->w->stride;
  b->next_panel = panel;
  if (rest % plan->mk->lanes == 0) return;
  pack.from = element(t->w, plan->w, true, b->j + b->columns - rest, b->k);
  lo_pack_panels(&pack, b->depth, rest, t->w_room);
}

/* ---- Tiles ---- */

/* Hands a tile of finished sums to the epilogue, upright. */
static void finish_tile(const piece *t, float *sums, int64_t sums_row, int64_t i, int64_t rows,
                        int64_t j, int64_t columns) {
  const lo_plan *plan = t->plan;
  const lo_plane *c = &t->finish.c;
  if (!plan->swapped) {
    plan->isa->finish(&t->finish, sums, sums_row, i, j, rows, columns);
  } else if (plan->plain) {
    float *to = (float *)(void *)c->base + j * c->stride + i;
    plan->isa->transpose(sums, sums_row, to, c->stride, rows, columns);
  } else {
    float upright[2048] __attribute__((aligned(64))) = {0}; /* 17 x 48, each row 32, is 1536 */
    const int64_t upright_row = (rows + 15) / 16 * 16;
    plan->isa->transpose(sums, sums_row, upright, upright_row, rows, columns);
    plan->isa->finish(&t->finish, upright, upright_row, j, i, columns, rows);
  }
}

/* The q-th panel of a block. */
typedef struct panel {
  const float *w;
  int64_t w_step, j, columns, vectors;
} panel;

static panel panel_at(const piece *t, const block *b, int64_t q) {
  const lo_plan *plan = t->plan;
  const int64_t lanes = plan->mk->lanes,
                columns = lo_least(plan->panel, b->columns - q * plan->panel);
  int64_t vectors = 1;
  while (vectors * lanes < columns) vectors++;
  panel p = {b->w + q * b->next_panel, b->w_step, b->j + q * plan->panel, columns, vectors};
  if (plan->how == LO_W_IN_PLACE && columns < vectors * lanes) {
    p.w = t->w_room;
    p.w_step = plan->panel;
  }
  return p;
}

/* Lets the microkernel write C itself, its epilogue included. */
static void aim_at_c(const piece *t, int64_t i, const panel *p, lo_tile *tile) {
  const lo_finish *f = &t->finish;
  tile->c = (float *)(void *)f->c.base + i * f->c.stride + p->j;
  tile->c_row = f->c.stride;
  tile->columns = p->columns;
  tile->bias = f->bias.base ? floats(f->bias.base) + p->j : NULL;
  tile->relu = f->activation == LAYEROPS_RELU;
}

/* `tiles` tiles of `rows` rows from row i on; one, unless the microkernel writes to C. Partial sums
 * of a block of k stay in the task's scratch. */
static void run_tiles(const piece *t, const block *b, int64_t i, int64_t rows, int64_t tiles,
                      const panel *p) {
  const lo_plan *plan = t->plan;
  const int64_t whole = p->vectors * plan->mk->lanes;
  const bool last = b->k + b->depth == plan->k;
  float sums[LO_MAX_TILE] __attribute__((aligned(64)));
  float *partial = t->c_room + (i - b->stripe) * plan->wide + (p->j - b->j);
  const lo_segment segment = {b->x, p->w, b->depth};
  lo_tile tile = {.list = &segment,
                  .count = b->depth > 0,
                  .x_first = (i - b->i) * (plan->x_k_major ? 1 : b->x_row),
                  .x_row = b->x_row,
                  .x_step = b->x_step,
                  .w_step = p->w_step,
                  .from = b->k > 0 ? partial : NULL,
                  .from_row = plan->wide,
                  .c = last ? sums : partial,
                  .c_row = last ? whole : plan->wide,
                  .columns = whole,
                  .tiles = tiles};
  if (last && plan->direct) aim_at_c(t, i, p, &tile);
  plan->mk->run[b->layout][p->vectors - 1][rows - 1](&tile);
  if (last && !plan->direct) finish_tile(t, sums, whole, i, rows, p->j, p->columns);
}

/* All rows of a block against a panel whose k is short, two vectors at a time. */
static void run_resident(const piece *t, const block *b, const panel *p) {
  const lo_microkernels *mk = t->plan->mk;
  for (int64_t v = 0; v < p->vectors; v += 2) {
    const int64_t first = v * mk->lanes, two = p->vectors - v > 1;
    const panel part = {p->w + first, p->w_step, p->j + first,
                        lo_least(p->columns - first, (1 + two) * mk->lanes), 1 + two};
    const lo_segment segment = {b->x, part.w, b->depth};
    lo_tile tile = {
        .list = &segment, .count = 1, .x_row = b->x_row, .w_step = p->w_step, .tiles = b->rows};
    aim_at_c(t, b->i, &part, &tile);
    mk->resident[two][b->depth - 1](&tile);
  }
}

/* Rows of a tile at most. Rows a multiple of 4 KiB apart fall into the same set of L1, which on
 * most processors holds 8 or 12 lines: lower tiles then cost less than a copy of X. */
static int64_t highest(const lo_plan *plan, int64_t vectors) {
  const int64_t rows = plan->mk->rows[vectors - 1];
  return plan->x_pages ? lo_least(rows, 8) : rows;
}

/* Panels first..end, all of them so many vectors wide. Where k is short a panel stays in L1 while
 * all rows pass, ... */
static void run_short(const piece *t, const block *b, int64_t first, int64_t end, int64_t vectors) {
  const lo_microkernels *mk = t->plan->mk;
  const bool resident = b->layout == LO_ROW_MAJOR && b->depth > 0 && b->depth <= LO_MAX_RESIDENT &&
                        mk->resident[0][b->depth - 1];
  const int64_t most = highest(t->plan, vectors), tiles = (b->rows + most - 1) / most;
  const int64_t rows = b->rows / tiles, taller = b->rows % tiles;
  for (int64_t q = first; q < end; q++) {
    const panel p = panel_at(t, b, q);
    if (resident) {
      run_resident(t, b, &p);
      continue;
    }
    if (taller) run_tiles(t, b, b->i, rows + 1, taller, &p);
    run_tiles(t, b, b->i + taller * (rows + 1), rows, tiles - taller, &p);
  }
}

/* The beginnings of the rows that come next, from which the hardware goes on by itself. */
static void prefetch_rows(const block *b, int64_t i, int64_t rows) {
  if (b->layout == LO_K_MAJOR) return;
  for (int64_t r = i; r < i + rows && r < b->i + b->rows; r++)
    for (int64_t line = 0; line < 4; line++)
      __builtin_prefetch(b->x + (r - b->i) * b->x_row + 16 * line);
}

/* ... else a tile's rows of X while all panels pass. Tiles are of nearly equal height. */
static void run_panels(const piece *t, const block *b, int64_t first, int64_t end,
                       int64_t vectors) {
  enum { SHORT = 64 };
  if (t->plan->direct && t->plan->k <= SHORT) {
    run_short(t, b, first, end, vectors);
    return;
  }
  const int64_t most = highest(t->plan, vectors), tiles = (b->rows + most - 1) / most;
  for (int64_t s = 0, i = b->i; s < tiles; s++) {
    const int64_t rows = b->rows / tiles + (s < b->rows % tiles);
    for (int64_t q = first; q < end; q++) {
      const panel p = panel_at(t, b, q);
      run_tiles(t, b, i, rows, 1, &p);
      if (q == first) prefetch_rows(b, i + rows, rows);
    }
    i += rows;
  }
}

static void run_block(const piece *t, const block *b) {
  const lo_plan *plan = t->plan;
  const int64_t lanes = plan->mk->lanes, full = b->columns / plan->panel;
  const int64_t rest = b->columns - full * plan->panel;
  if (full) run_panels(t, b, 0, full, plan->mk->vectors);
  if (rest) run_panels(t, b, full, full + 1, (rest + lanes - 1) / lanes);
}

/* ---- Dots ---- */

/* A block of sums: rows x columns from (i, j) on. */
typedef struct dots {
  int64_t i, rows, j, columns;
  float *sums;
  int64_t sums_row;
} dots;
enum { DOTS_ROWS = 64, DOTS_COLUMNS = 64, DOTS_SUMS = 1024 };

static const float *row_of_w(const piece *t, int64_t j) {
  const lo_plan *plan = t->plan;
  if (plan->packed.panels) return plan->packed.rows + (j - (plan->n - plan->dots)) * plan->w_row;
  return floats(element(t->w, plan->w, false, j, 0));
}

/* One group of columns against all rows. */
static void run_dot_column(const piece *t, const dots *d, int64_t j, int64_t columns) {
  const lo_plan *plan = t->plan;
  const lo_dot_kernel *run = plan->mk->dot[columns - 1];
  const int64_t most = plan->mk->dot_rows[columns - 1], tiles = (d->rows + most - 1) / most;
  const int64_t least_rows = d->rows / tiles, taller = d->rows % tiles;
  lo_dot_tile tile = {.x = floats(element(t->x, plan->x, false, d->i, 0)),
                      .w = row_of_w(t, d->j + j),
                      .x_row = plan->x->stride,
                      .w_row = plan->w_row,
                      .k = plan->k,
                      .c = d->sums + j,
                      .c_row = d->sums_row};
  for (int64_t s = 0; s < tiles; s++) {
    const int64_t rows = least_rows + (s < taller);
    run[rows - 1](&tile);
    tile.x += rows * tile.x_row;
    tile.c += rows * tile.c_row;
  }
}

static const char *bias_at(const lo_finish *f, int64_t j) {
  return f->bias.base + j * (int64_t)layerops_type_size(f->bias.type);
}

/* Few columns, densely: an activation then runs over no idle lanes. */
static void finish_dense(const piece *t, const dots *d) {
  const lo_isa *isa = t->plan->isa;
  const lo_finish *f = &t->finish;
  float bias[DOTS_COLUMNS] = {0}, *c = (float *)(void *)f->c.base + d->i * f->c.stride + d->j;
  if (f->bias.base) isa->load(f->bias.type, bias_at(f, d->j), bias, d->columns);
  for (int64_t r = 0; r < d->rows; r++)
    for (int64_t j = 0; j < d->columns; j++) d->sums[r * d->columns + j] += bias[j];
  if (f->activation != LAYEROPS_IDENTITY)
    isa->activate(f->activation, f->slope, d->sums, d->sums, d->rows * d->columns);
  const bool tight = f->c.stride == d->columns;
  isa->load_rows(LAYEROPS_F32, d->sums, d->columns, c, f->c.stride, tight ? 1 : d->rows,
                 tight ? d->rows * d->columns : d->columns);
}

static void run_dots_block(const piece *t, const dots *d) {
  const lo_plan *plan = t->plan;
  const int64_t most = plan->mk->dot_columns, groups = (d->columns + most - 1) / most;
  for (int64_t g = 0; g < groups && plan->k > 0; g++) {
    int64_t j, end;
    lo_share(d->columns, groups, g, &j, &end);
    run_dot_column(t, d, j, end - j);
  }
  if (plan->dense)
    finish_dense(t, d);
  else
    finish_tile(t, d->sums, d->sums_row, d->i, d->rows, d->j, d->columns);
}

/* The epilogue runs over whole vectors. */
static void clear_padding(const dots *d) {
  for (int64_t r = 0; r < d->rows; r++)
    for (int64_t j = d->columns; j < d->sums_row; j++) d->sums[r * d->sums_row + j] = 0.0f;
}

static void run_dots(const piece *t, int64_t i, int64_t i_end, int64_t j, int64_t j_end) {
  float sums[DOTS_SUMS] __attribute__((aligned(64)));
  dots d = {.sums = sums};
  const int64_t lanes = t->plan->mk->lanes, rows = lo_least(i_end - i, DOTS_ROWS);
  const int64_t columns = lo_least(DOTS_SUMS / rows / lanes * lanes, DOTS_COLUMNS);
  for (d.i = i; d.i < i_end; d.i += rows)
    for (d.j = j; d.j < j_end; d.j += columns) {
      d.rows = lo_least(rows, i_end - d.i);
      d.columns = lo_least(columns, j_end - d.j);
      d.sums_row = t->plan->dense ? d.columns : (d.columns + lanes - 1) / lanes * lanes;
      clear_padding(&d);
      run_dots_block(t, &d);
    }
}

/* ---- Blocks ---- */

static void run_rows(const piece *t, block b, int64_t rows) {
  const int64_t size = t->plan->block_m, blocks = (rows + size - 1) / size;
  for (int64_t s = 0; s < blocks; s++) {
    int64_t begin, end;
    lo_share(rows, blocks, s, &begin, &end);
    b.i = b.stripe + begin;
    b.rows = end - begin;
    place_x(t, &b);
    run_block(t, &b);
  }
}

static void run_stripe(const piece *t, int64_t i, int64_t i_end, int64_t j, int64_t j_end) {
  const lo_plan *plan = t->plan;
  for (; j < j_end; j += plan->block_n) {
    int64_t k = 0;
    do { /* once where k is 0 */
      block b = {.stripe = i,
                 .j = j,
                 .columns = lo_least(plan->block_n, j_end - j),
                 .k = k,
                 .depth = lo_least(plan->block_k, plan->k - k)};
      place_w(t, &b);
      run_rows(t, b, i_end - i);
      k += plan->block_k;
    } while (k < plan->k);
  }
}

static void run_piece(const piece *t, int64_t cut) {
  const lo_plan *plan = t->plan;
  int64_t i, i_end, j, j_end;
  lo_share(plan->m, plan->row_cuts, cut / plan->column_cuts, &i, &i_end);
  lo_share((plan->n + plan->unit - 1) / plan->unit, plan->column_cuts, cut % plan->column_cuts, &j,
           &j_end);
  j *= plan->unit;
  j_end = lo_least(j_end * plan->unit, plan->n);
  const int64_t tiles_end = lo_least(j_end, plan->n - plan->dots);
  for (int64_t s = i; s < i_end && j < tiles_end; s += plan->stripe)
    run_stripe(t, s, lo_least(s + plan->stripe, i_end), j, tiles_end);
  if (tiles_end < j_end) run_dots(t, i, i_end, j < tiles_end ? tiles_end : j, j_end);
}

/* ---- Tasks ---- */

typedef struct job {
  const lo_plan *plan;
  float *scratch;
} job;

static const char *matrix_of(const layerops_matrix *m, int64_t batch) {
  return lo_plane_of(m, batch).base;
}

static void run_task(void *arg, int64_t task) {
  const job *w = arg;
  const lo_plan *plan = w->plan;
  const int64_t each = plan->row_cuts * plan->column_cuts;
  float *scratch = w->scratch + task * (plan->w_floats + plan->x_floats + plan->c_floats);
  piece t = {.plan = plan, .finish = plan->finish};
  t.w_room = scratch;
  t.x_room = t.w_room + plan->w_floats;
  t.c_room = t.x_room + plan->x_floats;
  int64_t begin, end;
  lo_share(plan->p->batch * each, plan->tasks, task, &begin, &end);
  for (int64_t cut = begin; cut < end; cut++) {
    t.x = plan->k ? matrix_of(plan->x, cut / each) : NULL;
    t.w = plan->k ? matrix_of(plan->w, cut / each) : NULL;
    t.finish.c = lo_plane_of(&plan->p->c, cut / each);
    run_piece(&t, cut % each);
  }
}

void lo_product_run(layerops_context *ctx, const lo_plan *plan, float *scratch) {
  job w = {plan, scratch};
  lo_parallel(ctx, plan->tasks, run_task, &w);
}

/* By a main loop for the operands' type, if there is one; *done says so. */
static layerops_status do_grouped(layerops_context *ctx, const lo_product *p, bool *done) {
  lo_grouped_plan plan;
  float *scratch;
  *done = lo_grouped_plan_product(ctx, p, lo_grouped_packed_of(p), &plan);
  if (!*done) return LAYEROPS_OK;
  LO_TRY(lo_scratch(ctx, lo_grouped_plan_scratch(&plan), &scratch));
  lo_grouped_run(ctx, &plan, scratch);
  return LAYEROPS_OK;
}

layerops_status lo_product_do(layerops_context *ctx, const lo_product *p) {
  lo_plan plan;
  float *scratch;
  bool done;
  LO_TRY(do_grouped(ctx, p, &done));
  if (done) return LAYEROPS_OK;
  lo_plan_product(ctx, p, &plan);
  LO_TRY(lo_scratch(ctx, lo_plan_scratch(&plan), &scratch));
  lo_product_run(ctx, &plan, scratch);
  return LAYEROPS_OK;
}

#include <config.h>

#include "backends/cpu/product.h"

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* A rectangle of C that one task computes, and the task's scratch. */
typedef struct piece {
  const lo_plan *plan;
  const char *a, *b; /* this matrix of the batch */
  lo_finish finish;
  float *w, *x, *c;
} piece;

/* One block of rows x columns x k. */
typedef struct block {
  int64_t i, rows, j, columns, k, depth; /* first and count */
  int64_t stripe;                        /* first row of the stripe */
  const float *x;                        /* its first element */
  int64_t x_row, x_step;
  const float *w; /* its first element or panel */
  int64_t w_step, next_panel;
  int layout;
} block;

static const float *floats(const char *p) {
  return (const float *)(const void *)p;
}

/* ---- Operands ---- */

static void place_x(const piece *t, block *b) {
  const lo_plan *plan = t->plan;
  const layerops_matrix *a = &plan->p->a;
  const int64_t size = (int64_t)layerops_type_size(a->type);
  b->layout = plan->p->trans_a ? LO_K_MAJOR : LO_ROW_MAJOR;
  b->x_row = b->x_step = a->stride;
  if (!b->depth) return;
  const bool k_major = b->layout == LO_K_MAJOR;
  const char *from = t->a + (k_major ? b->k * a->stride + b->i : b->i * a->stride + b->k) * size;
  b->x = floats(from);
  if (plan->x_in_place) return;
  const int64_t rows = k_major ? b->depth : b->rows, columns = k_major ? b->rows : b->depth;
  b->x_row = b->x_step = lo_copied_row(columns);
  plan->isa->load_rows(a->type, from, a->stride, t->x, b->x_row, rows, columns);
  b->x = t->x;
}

/* W in place but for a last panel that is not whole vectors: there the microkernel would read past
 * the row. */
static void place_w(const piece *t, block *b) {
  const lo_plan *plan = t->plan;
  const layerops_matrix *m = &plan->p->b;
  const int64_t size = (int64_t)layerops_type_size(m->type), panel = plan->panel;
  b->w = t->w;
  b->w_step = panel;
  b->next_panel = b->depth * panel;
  if (!b->depth) return;
  lo_pack w = {.isa = plan->isa,
               .type = m->type,
               .row = m->stride,
               .trans = plan->p->trans_b,
               .panel = panel};
  w.from = t->b + (w.trans ? b->j * m->stride + b->k : b->k * m->stride + b->j) * size;
  if (!plan->w_in_place) {
    lo_pack_panels(&w, b->depth, b->columns, t->w);
    return;
  }
  b->w = floats(w.from);
  b->w_step = m->stride;
  b->next_panel = panel;
  const int64_t rest = b->columns % panel;
  if (rest % plan->mk->lanes == 0) return;
  w.from += (b->columns - rest) * size;
  lo_pack_panels(&w, b->depth, rest, t->w);
}

/* ---- Tiles ---- */

/* One tile of `rows` rows from row i on and the panel at column j. */
static void run_tile(const piece *t, const block *b, int64_t i, int64_t rows, int64_t j) {
  const lo_plan *plan = t->plan;
  const int64_t columns = least(plan->panel, b->columns - (j - b->j)), lanes = plan->mk->lanes;
  const int64_t vectors = (columns + lanes - 1) / lanes, q = (j - b->j) / plan->panel;
  const bool packed_rest = plan->w_in_place && columns % lanes, last = b->k + b->depth == plan->k;
  float sums[LO_MAX_TILE_ROWS * LO_MAX_PANEL] __attribute__((aligned(64)));
  lo_segment segment = {b->x, packed_rest ? t->w : b->w + q * b->next_panel, b->depth};
  lo_tile tile = {.list = &segment,
                  .count = b->depth > 0,
                  .x_first = (i - b->i) * (b->layout == LO_K_MAJOR ? 1 : b->x_row),
                  .x_row = b->x_row,
                  .x_step = b->x_step,
                  .w_step = packed_rest ? plan->panel : b->w_step,
                  .c = sums,
                  .c_row = plan->panel,
                  .load = b->k > 0};
  if (plan->k > plan->block_k) {
    const int64_t wide = (plan->block_n + plan->panel - 1) / plan->panel * plan->panel;
    tile.c = t->c + (i - b->stripe) * wide + (j - b->j);
    tile.c_row = wide;
  } else if (plan->plain && columns == vectors * lanes) {
    const lo_plane *c = &t->finish.c;
    tile.c = (float *)(void *)c->base + i * c->stride + j;
    tile.c_row = c->stride;
  }
  plan->mk->run[b->layout][vectors - 1][rows - 1](&tile);
  if (last && !(tile.c != sums && plan->k <= plan->block_k))
    plan->isa->finish(&t->finish, tile.c, tile.c_row, i, j, rows, columns);
}

/* Rows in tiles of nearly equal height; each slab of X stays in L1 while all panels pass. */
static void run_block(const piece *t, const block *b) {
  const int64_t tiles = (b->rows + t->plan->mk->rows - 1) / t->plan->mk->rows;
  for (int64_t s = 0; s < tiles; s++) {
    int64_t begin, end;
    lo_share(b->rows, tiles, s, &begin, &end);
    for (int64_t j = b->j; j < b->j + b->columns; j += t->plan->panel)
      run_tile(t, b, b->i + begin, end - begin, j);
  }
}

/* ---- Blocks ---- */

static void run_rows(const piece *t, block b, int64_t end) {
  const lo_plan *plan = t->plan;
  for (b.i = b.stripe; b.i < end; b.i += plan->block_m) {
    b.rows = least(plan->block_m, end - b.i);
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
                 .columns = least(plan->block_n, j_end - j),
                 .k = k,
                 .depth = least(plan->block_k, plan->k - k)};
      place_w(t, &b);
      run_rows(t, b, i_end);
      k += plan->block_k;
    } while (k < plan->k);
  }
}

static void run_piece(const piece *t, int64_t cut) {
  const lo_plan *plan = t->plan;
  const int64_t panels = (plan->p->n + plan->panel - 1) / plan->panel;
  int64_t i, i_end, j, j_end;
  lo_share(plan->p->m, plan->row_cuts, cut / plan->column_cuts, &i, &i_end);
  lo_share(panels, plan->column_cuts, cut % plan->column_cuts, &j, &j_end);
  j *= plan->panel;
  j_end = least(j_end * plan->panel, plan->p->n);
  for (; i < i_end; i += plan->stripe) run_stripe(t, i, least(i + plan->stripe, i_end), j, j_end);
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
  const lo_product *p = plan->p;
  const int64_t each = plan->row_cuts * plan->column_cuts;
  float *scratch = w->scratch + task * (plan->w_floats + plan->x_floats + plan->c_floats);
  piece t = {.plan = plan, .finish = plan->finish};
  t.w = scratch;
  t.x = t.w + plan->w_floats;
  t.c = t.x + plan->x_floats;
  int64_t begin, end;
  lo_share(p->batch * each, plan->tasks, task, &begin, &end);
  for (int64_t cut = begin; cut < end; cut++) {
    t.a = plan->k ? matrix_of(&p->a, cut / each) : NULL;
    t.b = plan->k ? matrix_of(&p->b, cut / each) : NULL;
    t.finish.c = lo_plane_of(&p->c, cut / each);
    run_piece(&t, cut % each);
  }
}

void lo_product_run(layerops_context *ctx, const lo_plan *plan, float *scratch) {
  job w = {plan, scratch};
  lo_parallel(ctx, plan->tasks, run_task, &w);
}

layerops_status lo_product_do(layerops_context *ctx, const lo_product *p) {
  lo_plan plan;
  float *scratch;
  lo_plan_product(ctx, p, &plan);
  LO_TRY(lo_scratch(ctx, lo_plan_scratch(&plan), &scratch));
  lo_product_run(ctx, &plan, scratch);
  return LAYEROPS_OK;
}

/* How a product is cut: block sizes from the caches, pieces from the work. None of it changes a bit
 * of the result. */
#include <config.h>

#include "backends/cpu/product.h"

static int64_t round_up(int64_t x, int64_t to) {
  return (x + to - 1) / to * to;
}
static int64_t cuts(int64_t x, int64_t by) {
  return (x + by - 1) / by;
}
static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* `total` in equal blocks of at most `size`, multiples of `unit`. */
static int64_t even(int64_t total, int64_t size, int64_t unit) {
  size = most(size / unit * unit, unit);
  return total <= size ? most(total, 1) : round_up(cuts(total, cuts(total, size)), unit);
}

lo_plane lo_plane_of(const layerops_matrix *m, int64_t batch) {
  lo_plane plane = {lo_present(m) ? lo_address(m) : NULL, m->stride, m->type};
  if (plane.base && m->batch > 1)
    plane.base += batch * m->batch_stride * (int64_t)layerops_type_size(m->type);
  return plane;
}

void lo_finish_of(const lo_epilogue *e, const layerops_matrix *c, lo_finish *f) {
  *f = (lo_finish){.alpha = (float)lo_scalar(&e->alpha),
                   .beta = (float)lo_scalar(&e->beta),
                   .bias = lo_plane_of(&e->bias, 0),
                   .preact = lo_plane_of(&e->preact, 0),
                   .residual = lo_plane_of(&e->residual, 0),
                   .saved = lo_plane_of(&e->saved, 0),
                   .c = lo_plane_of(c, 0),
                   .activation = e->activation,
                   .derivative = e->derivative,
                   .slope = e->slope,
                   .derivative_slope = e->derivative_slope};
}

bool lo_finish_is_plain(const lo_finish *f) {
  return f->alpha == 1.0f && f->beta == 0.0f && !f->bias.base && !f->preact.base &&
         !f->residual.base && f->activation == LAYEROPS_IDENTITY &&
         f->derivative == LAYEROPS_IDENTITY && f->c.type == LAYEROPS_F32;
}

/* ---- Pieces ---- */

/* ns that one core takes for a piece: its sums, and W packed for it. Packing an element costs about
 * what its use in PACK_ROWS rows does. */
enum { PACK_ROWS = 16 };
static double piece_ns(const lo_plan *plan, int64_t rows, int64_t columns) {
  double flops = 2.0 * (double)(rows + PACK_ROWS) * (double)round_up(columns, plan->mk->lanes) *
                 (double)(plan->k + 8);
  return flops / plan->mk->flops_per_ns;
}

/* For `threads` threads on each matrix of the batch, the cut into rows x columns whose pieces are
 * the quickest; of equals the one with most cuts of columns, which packs nothing twice. */
static void choose_cuts(lo_plan *plan, int64_t threads) {
  const int64_t m = plan->p->m, panels = cuts(plan->p->n, plan->panel);
  double best = 0;
  for (int64_t rows = 1; rows <= threads; rows++) {
    int64_t columns = least(threads / rows, panels);
    double ns = piece_ns(plan, cuts(m, rows), cuts(panels, columns) * plan->panel);
    if (rows > 1 && ns >= best) continue;
    best = ns;
    plan->row_cuts = rows;
    plan->column_cuts = columns;
  }
}

static void choose_pieces(layerops_context *ctx, lo_plan *plan) {
  const lo_product *p = plan->p;
  double ns = piece_ns(plan, p->m, p->n) * (double)p->batch;
  plan->row_cuts = plan->column_cuts = 1;
  plan->tasks = lo_parallel_width(ctx, ns);
  if (plan->tasks == 1) return;
  if (p->batch < plan->tasks) choose_cuts(plan, cuts(plan->tasks, p->batch));
  plan->tasks = least(plan->tasks, p->batch * plan->row_cuts * plan->column_cuts);
}

/* ---- Blocks ---- */

static const char *refuses_in_place(const lo_plan *plan) {
  const lo_product *p = plan->p;
  if (p->trans_b) return "w is stored [n][k]";
  if (p->b.type != LAYEROPS_F32) return "w is not f32";
  if (cuts(p->m, plan->row_cuts) > 8 * plan->mk->rows) return "packing w pays for so many rows";
  return NULL;
}

const char *lo_refuses_w_in_place(layerops_context *ctx, const void *plan) {
  (void)ctx;
  return refuses_in_place(plan);
}

/* X is copied where it must be converted, where its rows would fall into the same sets of L1 (a
 * tile's rows a multiple of 4 KiB apart), and where a transposed X would be walked many times page
 * by page. */
static bool x_serves_in_place(const lo_plan *plan) {
  const lo_product *p = plan->p;
  const int64_t panels = cuts(cuts(p->n, plan->column_cuts), plan->panel);
  if (p->a.type != LAYEROPS_F32) return false;
  if (panels < 4) return true;
  return p->trans_a ? plan->k < 128 : p->a.stride % 1024 != 0 || p->m < 4;
}

static void choose_blocks(const lo_caches *caches, lo_plan *plan) {
  const lo_product *p = plan->p;
  const int64_t size = sizeof(float), rows = cuts(p->m, plan->row_cuts),
                columns = cuts(cuts(p->n, plan->panel), plan->column_cuts) * plan->panel;
  const int64_t half = caches->l2 / 2 / size; /* floats of half of L2 */
  plan->block_k = even(plan->k, half / 4 / plan->panel, 4);
  plan->block_n = even(columns, half / plan->block_k, plan->panel);
  const int64_t wide = round_up(plan->block_n, plan->panel);
  plan->stripe = plan->k > plan->block_k ? even(rows, half / wide, plan->mk->rows) : most(rows, 1);
  plan->block_m = plan->x_in_place ? plan->stripe
                                   : even(plan->stripe, half / 2 / plan->block_k, plan->mk->rows);
  plan->w_floats = plan->block_k * (plan->w_in_place ? plan->panel : wide);
  if (!plan->x_in_place) {
    plan->x_floats = p->trans_a ? plan->block_k * lo_copied_row(plan->block_m)
                                : plan->block_m * lo_copied_row(plan->block_k);
  }
  if (plan->k > plan->block_k) plan->c_floats = plan->stripe * wide;
  /* tasks must not share cache lines */
  plan->w_floats = round_up(plan->w_floats, 16);
  plan->c_floats = round_up(plan->c_floats, 16);
}

void lo_plan_product(layerops_context *ctx, const lo_product *p, lo_plan *plan) {
  const lo_cpu *cpu = lo_cpu_of(ctx);
  *plan = (lo_plan){.p = p, .isa = cpu->isa, .mk = cpu->isa->product, .k = p->k};
  plan->panel = plan->mk->vectors * plan->mk->lanes;
  lo_finish_of(&p->epilogue, &p->c, &plan->finish);
  if (plan->finish.alpha == 0.0f) plan->k = 0;
  if (plan->k == 0) plan->finish.alpha = 1.0f; /* 0, whatever alpha is */
  plan->plain = lo_finish_is_plain(&plan->finish);
  choose_pieces(ctx, plan);
  const lo_kernel *kernels = plan->mk->kernels;
  plan->w_in_place = lo_select(ctx, kernels, sizeof *kernels, 2, plan) == &kernels[0];
  plan->x_in_place = x_serves_in_place(plan);
  choose_blocks(&cpu->caches, plan);
}

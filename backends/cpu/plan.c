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

/* ---- Which operand is W ---- */

/* ns to pack an element of W, from L3: by transposition, or row by row. */
static double pack_ns(bool k_major) {
  return k_major ? 0.1 : 0.25;
}

/* ns that one core takes for sums [m, n] and for packing W. */
static double product_ns(const lo_plan *plan, int64_t m, int64_t n, int64_t k, bool w_k_major) {
  double flops = 2.0 * (double)m * (double)round_up(n, plan->mk->lanes) * (double)k;
  double pack = plan->packed ? 0 : pack_ns(w_k_major);
  return flops / plan->mk->flops_per_ns + pack * (double)n * (double)k;
}

/* C^T = op(B)^T op(A)^T instead, where that is clearly quicker: its epilogue transposes tiles.
 * Packed weights are W already. */
static void choose_sides(lo_plan *plan) {
  const lo_product *p = plan->p;
  plan->swapped = !plan->packed && 1.1 * product_ns(plan, p->n, p->m, plan->k, p->trans_a) <
                                       product_ns(plan, p->m, p->n, plan->k, !p->trans_b);
  plan->m = plan->swapped ? p->n : p->m;
  plan->n = plan->swapped ? p->m : p->n;
  plan->x = plan->swapped ? &p->b : &p->a;
  plan->w = plan->swapped ? &p->a : &p->b;
  plan->x_k_major = plan->swapped ? !p->trans_b : p->trans_a;
  plan->w_k_major = plan->swapped ? p->trans_a : !p->trans_b;
}

/* ---- Pieces ---- */

/* Sums, packing, and the epilogue as if k were a little larger. */
static double piece_ns(const lo_plan *plan, int64_t rows, int64_t columns) {
  return product_ns(plan, rows, columns, plan->k + 8, plan->w_k_major);
}

/* For `threads` threads on each matrix of the batch, the cut into rows x columns whose pieces are
 * the quickest; of equals the one with most cuts of columns, which packs nothing twice. */
static void choose_cuts(lo_plan *plan, int64_t threads) {
  const int64_t panels = cuts(plan->n, plan->panel);
  double best = 0;
  for (int64_t rows = 1; rows <= least(threads, plan->m); rows++) {
    int64_t columns = least(threads / rows, panels);
    double ns = piece_ns(plan, cuts(plan->m, rows), cuts(panels, columns) * plan->panel);
    if (rows > 1 && ns >= best) continue;
    best = ns;
    plan->row_cuts = rows;
    plan->column_cuts = columns;
  }
}

static void choose_pieces(layerops_context *ctx, lo_plan *plan) {
  const lo_product *p = plan->p;
  double ns = piece_ns(plan, plan->m, plan->n) * (double)p->batch;
  plan->row_cuts = plan->column_cuts = 1;
  plan->tasks = lo_parallel_width(ctx, ns);
  if (plan->tasks == 1) return;
  if (p->batch < plan->tasks) choose_cuts(plan, cuts(plan->tasks, p->batch));
  plan->tasks = least(plan->tasks, p->batch * plan->row_cuts * plan->column_cuts);
}

/* ---- Blocks ---- */

static const char *refuses_in_place(const lo_plan *plan) {
  if (plan->packed) return "w is packed already";
  if (!plan->w_k_major) return "w is stored [n][k]";
  if (plan->w->type != LAYEROPS_F32) return "w is not f32";
  const int64_t tiles = cuts(cuts(plan->m, plan->row_cuts), plan->mk->rows);
  if (tiles > 12) return "packing w pays for so many rows";
  if (tiles > 2 && plan->k > 512) return "a panel of w would be on too many pages";
  return NULL;
}

const char *lo_refuses_w_in_place(layerops_context *ctx, const void *plan) {
  (void)ctx;
  return refuses_in_place(plan);
}

/* X is copied where it must be converted, and where a transposed X would be walked many times page
 * by page. */
static bool x_serves_in_place(const lo_plan *plan) {
  const int64_t panels = cuts(cuts(plan->n, plan->column_cuts), plan->panel);
  if (plan->x->type != LAYEROPS_F32) return false;
  return !plan->x_k_major || panels < 4 || plan->k < 128;
}

/* Rows a multiple of 4 KiB apart fall into the same set of L1, which on most processors holds 8 or
 * 12 lines: lower tiles then cost less than a copy of X. */
static int64_t tile_rows(const lo_plan *plan) {
  const bool same_set = plan->x_in_place && !plan->x_k_major && plan->x->stride % 1024 == 0;
  return same_set ? least(plan->mk->rows, 8) : plan->mk->rows;
}

static void choose_blocks(const lo_caches *caches, lo_plan *plan) {
  const int64_t size = sizeof(float), rows = cuts(plan->m, plan->row_cuts),
                columns = cuts(cuts(plan->n, plan->panel), plan->column_cuts) * plan->panel;
  const int64_t half = caches->l2 / 2 / size; /* floats of half of L2 */
  plan->block_k = even(plan->k, half / 8 / plan->panel, 4);
  plan->block_n = even(columns, half / plan->block_k, plan->panel);
  plan->wide = round_up(plan->block_n, plan->panel);
  plan->stripe =
      plan->k > plan->block_k ? even(rows, half / plan->wide, plan->mk->rows) : most(rows, 1);
  if (!plan->packed)
    plan->w_floats = round_up(plan->block_k * (plan->w_in_place ? plan->panel : plan->wide), 16);
  plan->block_m = plan->stripe;
  if (!plan->x_in_place) { /* slab by slab; of k-major rows, whole lines */
    plan->block_m = plan->x_k_major ? 4 * plan->mk->rows : plan->mk->rows;
    plan->x_floats = plan->x_k_major ? plan->block_k * lo_copied_row(plan->block_m)
                                     : plan->block_m * lo_copied_row(plan->block_k);
  }
  if (plan->k > plan->block_k) plan->c_floats = round_up(plan->stripe * plan->wide, 16);
}

void lo_plan_product(layerops_context *ctx, const lo_product *p, lo_plan *plan) {
  const lo_cpu *cpu = lo_cpu_of(ctx);
  *plan = (lo_plan){.p = p, .isa = cpu->isa, .mk = cpu->isa->product, .k = p->k};
  plan->packed = lo_packed_panels(p);
  plan->panel = plan->mk->vectors * plan->mk->lanes;
  lo_finish_of(&p->epilogue, &p->c, &plan->finish);
  if (plan->finish.alpha == 0.0f) plan->k = 0;
  if (plan->k == 0) plan->finish.alpha = 1.0f; /* 0, whatever alpha is */
  plan->plain = lo_finish_is_plain(&plan->finish);
  choose_sides(plan);
  choose_pieces(ctx, plan);
  const lo_kernel *kernels = plan->mk->kernels;
  plan->w_in_place = lo_select(ctx, kernels, sizeof *kernels, 2, plan) == &kernels[0];
  plan->x_in_place = x_serves_in_place(plan);
  plan->tile_rows = tile_rows(plan);
  choose_blocks(&cpu->caches, plan);
}

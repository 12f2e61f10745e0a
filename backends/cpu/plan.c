/* How a product is cut: block sizes from the caches, pieces from the work. None of it changes a bit
 * of the result. */
#include <config.h>

#include "backends/cpu/product.h"

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
                   .derivative_slope = e->derivative_slope,
                   .scale_c = 1};
}

bool lo_finish_is_plain(const lo_finish *f) {
  return f->alpha == 1.0f && f->beta == 0.0f && !f->row_scale && !f->bias.base && !f->preact.base &&
         !f->residual.base && f->activation == LAYEROPS_IDENTITY &&
         f->derivative == LAYEROPS_IDENTITY && f->c.type == LAYEROPS_F32;
}

/* ---- What it costs ---- */

/* ns to pack an element of W, from L3: by transposition, or row by row. */
static double pack_ns(bool k_major) {
  return k_major ? 0.1 : 0.25;
}

/* Multiply-adds of a vector that a row and a step of k take for n columns by tiles: those of one
 * vector are bound by their loads. */
static double tile_cost(const lo_microkernels *mk, int64_t n) {
  const int64_t vectors = (n + mk->lanes - 1) >> mk->lane_bits;
  return (double)vectors + ((vectors & (mk->vectors - 1)) == 1 ? 0.3 : 0);
}

/* The same by dot tiles: no lane is idle, but each sum is added up, and X is read again. */
static double dot_cost(const lo_microkernels *mk, int64_t n, int64_t k) {
  return (double)n * mk->lane_share + 6.0 * (double)n / (double)k + 0.1;
}

/* What fills a vector badly, or all of a narrow W. Of n and k alone, as a row's bits must not
 * depend on other rows. */
int64_t lo_dot_columns(const lo_microkernels *mk, int64_t n, int64_t k) {
  const int64_t rest = n & (mk->lanes - 1);
  if (!rest || !k) return 0;
  const double with = tile_cost(mk, n - rest) + dot_cost(mk, rest, k);
  return with < tile_cost(mk, n) ? rest : 0;
}

static double cost(const lo_plan *plan, int64_t n) {
  const lo_microkernels *mk = plan->mk;
  if (plan->how == LO_W_DOT) return dot_cost(mk, n, plan->k);
  if (n < plan->n || !plan->dots) return tile_cost(mk, n);
  return tile_cost(mk, n - plan->dots) + dot_cost(mk, plan->dots, plan->k);
}

/* ns of `cost`s. */
static double sums_ns(const lo_plan *plan, int64_t m, double cost) {
  return cost * (double)m * (double)plan->k * plan->mk->ns;
}

/* ---- How W is read ---- */

/* Dot tiles read rows of f32 on both sides. */
static const char *refuses_dots(const lo_plan *plan) {
  if (plan->x_k_major || plan->x->type != LAYEROPS_F32) return "x is not in rows of f32";
  if (plan->w_k_major || plan->w->type != LAYEROPS_F32) return "w is not in rows of f32";
  return plan->k ? NULL : "k is 0";
}

/* Dot tiles lose about a twentieth, and some 6 multiply-adds for each sum; packing takes the time
 * of some 0.7 for each element of W. */
static const char *refuses_dot(const lo_plan *plan) {
  if (plan->dots && plan->dots == plan->n) return NULL;
  if (plan->packed.panels) return "w is packed already";
  const char *reason = refuses_dots(plan);
  if (reason) return reason;
  if (plan->p->flags & LAYEROPS_BATCH_INVARIANT) /* a W that fits no cache is read once, if dots */
    return plan->n * plan->k < 4 << 20 ? "the call asks for batch invariance" : NULL;
  if ((double)plan->m * (0.005 + 6.0 / (double)plan->k) > 0.7)
    return "packing w pays for so many rows";
  return NULL;
}

static const char *refuses_in_place(const lo_plan *plan) {
  if (!plan->w_k_major) return "w is stored [n][k]";
  if (plan->w->type != LAYEROPS_F32) return "w is not f32";
  if (plan->m > 168) return "packing w pays for so many rows";
  if (plan->m > 28 && plan->k > 512) return "a panel of w would be on too many pages";
  return NULL;
}

/* ---- Which operand is W ---- */

static void take_sides(lo_plan *plan, bool swapped) {
  const lo_product *p = plan->p;
  plan->swapped = swapped;
  plan->m = swapped ? p->n : p->m;
  plan->n = swapped ? p->m : p->n;
  plan->x = swapped ? &p->b : &p->a;
  plan->w = swapped ? &p->a : &p->b;
  plan->x_k_major = swapped ? !p->trans_b : p->trans_a;
  plan->w_k_major = swapped ? p->trans_a : !p->trans_b;
  plan->dots = refuses_dots(plan) ? 0 : lo_dot_columns(plan->mk, plan->n, plan->k);
}

static double sides_ns(const lo_plan *plan) {
  return sums_ns(plan, plan->m, tile_cost(plan->mk, plan->n)) +
         pack_ns(plan->w_k_major) * (double)plan->k * (double)plan->n;
}

/* C^T = op(B)^T op(A)^T instead, where that is clearly quicker: its epilogue transposes tiles. Not
 * where a row's bits must not depend on m. */
static void choose_sides(lo_plan *plan) {
  take_sides(plan, false);
  if (plan->packed.panels || !refuses_dot(plan)) return;
  if (plan->p->flags & LAYEROPS_BATCH_INVARIANT) return;
  const double upright = sides_ns(plan);
  take_sides(plan, true);
  if (1.1 * sides_ns(plan) >= upright) take_sides(plan, false);
}

const char *lo_refuses_dot(layerops_context *ctx, const void *plan) {
  (void)ctx;
  return refuses_dot(plan);
}
const char *lo_refuses_prepacked(layerops_context *ctx, const void *plan) {
  (void)ctx;
  return ((const lo_plan *)plan)->packed.panels ? NULL : "w is not packed";
}
const char *lo_refuses_in_place(layerops_context *ctx, const void *plan) {
  (void)ctx;
  return refuses_in_place(plan);
}

static void choose_how(layerops_context *ctx, lo_plan *plan) {
  const lo_kernel *kernels = plan->mk->kernels, *chosen;
  chosen = lo_select(ctx, kernels, sizeof *kernels, LO_W_HOWS, plan);
  plan->how = (lo_how)(chosen - kernels);
  if (plan->how == LO_W_DOT) plan->dots = plan->n;
  plan->unit = plan->how == LO_W_DOT ? plan->mk->lanes : plan->panel;
}

/* ---- Pieces ---- */

/* Sums; packing; both operands out of L3; the epilogue; and, where a row of C is shared, the lines
 * beyond the border that one core prefetches and another writes. */
static double piece_ns(const lo_plan *plan, int64_t rows, int64_t columns) {
  const double area = (double)plan->k * (double)columns;
  const double pack = plan->how == LO_W_PACKED ? pack_ns(plan->w_k_major) : 0;
  return sums_ns(plan, rows, cost(plan, columns)) + pack * area +
         0.1 * (area + (double)plan->k * (double)rows) + 0.1 * (double)rows * (double)columns +
         (columns < plan->n ? 60 * (double)rows : 0);
}

/* For `threads` threads on each matrix of the batch, the cut into rows x columns whose pieces are
 * the quickest. */
static void choose_cuts(lo_plan *plan, int64_t threads) {
  const int64_t units = lo_cuts(plan->n, plan->unit);
  double best = 0;
  for (int64_t rows = lo_least(threads, plan->m); rows >= 1; rows--) {
    int64_t columns = lo_least(threads / rows, units);
    double ns = piece_ns(plan, lo_cuts(plan->m, rows),
                         lo_least(lo_cuts(units, columns) * plan->unit, plan->n));
    if (best && ns >= best) continue;
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
  if (p->batch < plan->tasks) choose_cuts(plan, lo_cuts(plan->tasks, p->batch));
  plan->tasks = lo_least(plan->tasks, p->batch * plan->row_cuts * plan->column_cuts);
}

/* ---- Blocks ---- */

/* X is copied where it must be converted, and where a transposed X would be walked many times page
 * by page. */
static bool x_serves_in_place(const lo_plan *plan) {
  const int64_t panels = lo_cuts(lo_cuts(plan->n, plan->column_cuts), plan->panel);
  if (plan->x->type != LAYEROPS_F32) return false;
  return !plan->x_k_major || panels < 4 || plan->k < 128;
}

static void choose_blocks(const lo_caches *caches, lo_plan *plan) {
  const int64_t size = sizeof(float), rows = lo_cuts(plan->m, plan->row_cuts),
                columns = lo_cuts(lo_cuts(plan->n, plan->panel), plan->column_cuts) * plan->panel;
  const int64_t half = caches->l2 / 2 / size; /* floats of half of L2 */
  plan->block_k =
      plan->k * plan->panel <= half ? lo_most(plan->k, 1) : lo_even(plan->k, half / plan->panel, 4);
  plan->block_n = columns * plan->block_k <= half
                      ? columns
                      : lo_even(columns, half / plan->block_k, plan->panel);
  plan->wide = lo_round_up(plan->block_n, plan->panel);
  plan->stripe = plan->k > plan->block_k ? lo_even(rows, half / plan->wide, 12) : lo_most(rows, 1);
  if (plan->how == LO_W_IN_PLACE) plan->w_floats = lo_round_up(plan->block_k * plan->panel, 16);
  if (plan->how == LO_W_PACKED) plan->w_floats = lo_round_up(plan->block_k * plan->wide, 16);
  plan->block_m = plan->stripe;
  if (!plan->x_in_place) { /* slab by slab; of k-major rows, whole lines */
    plan->block_m = plan->x_k_major ? 48 : 12;
    plan->x_floats = plan->x_k_major ? plan->block_k * lo_copied_row(plan->block_m)
                                     : plan->block_m * lo_copied_row(plan->block_k);
  }
  if (plan->k > plan->block_k) plan->c_floats = lo_round_up(plan->stripe * plan->wide, 16);
}

/* Epilogues that need no more than bias and activation: the microkernel has the commonest, and a
 * few columns of dots are left dense for it. */
static void judge_epilogue(lo_plan *plan) {
  const lo_finish *f = &plan->finish;
  lo_finish rest = *f;
  plan->plain = lo_finish_is_plain(f);
  rest.bias.base = NULL;
  rest.activation = LAYEROPS_IDENTITY;
  const bool simple = !plan->swapped && lo_finish_is_plain(&rest);
  const bool costly = f->activation != LAYEROPS_IDENTITY && f->activation != LAYEROPS_RELU;
  plan->direct = simple && !costly && (!f->bias.base || f->bias.type == LAYEROPS_F32);
  plan->dense = simple && plan->dots <= (costly ? plan->mk->lanes : 2);
}

/* Scales as arrays, a single one with step 0. */
static void set_scales(const lo_product *p, lo_finish *f) {
  static const float one = 1;
  const bool row = lo_present(&p->scale_a), column = lo_present(&p->scale_b);
  if (lo_present(&p->scale_c)) f->scale_c = *(const float *)lo_address(&p->scale_c);
  if (!row && !column) return;
  f->row_scale = row ? lo_address(&p->scale_a) : &one;
  f->column_scale = column ? lo_address(&p->scale_b) : &one;
  f->row_step = row && p->scale_a.cols > 1;
  f->column_step = column && p->scale_b.cols > 1;
}

void lo_plan_product(layerops_context *ctx, const lo_product *p, lo_plan *plan) {
  const lo_cpu *cpu = lo_cpu_of(ctx);
  *plan = (lo_plan){.p = p, .isa = cpu->isa, .mk = cpu->isa->product, .k = p->k};
  plan->packed = lo_packed_of(p);
  plan->panel = plan->mk->vectors * plan->mk->lanes;
  lo_finish_of(&p->epilogue, &p->c, &plan->finish);
  if (plan->finish.alpha == 0.0f) plan->k = 0;
  set_scales(p, &plan->finish);
  if (plan->k == 0) { /* 0, whatever alpha and scales are */
    plan->finish.alpha = 1.0f;
    plan->finish.row_scale = plan->finish.column_scale = NULL;
  }
  choose_sides(plan);
  choose_how(ctx, plan);
  judge_epilogue(plan);
  choose_pieces(ctx, plan);
  plan->x_in_place = x_serves_in_place(plan);
  plan->x_pages = plan->x_in_place && !plan->x_k_major && plan->x->stride % 1024 == 0;
  plan->w_row = plan->packed.panels ? lo_copied_row(plan->k) : plan->w->stride;
  choose_blocks(&cpu->caches, plan);
}

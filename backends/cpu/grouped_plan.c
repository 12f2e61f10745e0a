/* How a product by groups of k is cut; see grouped_product.h. None of it changes a bit of the
 * result.
 */
#include <config.h>

#include "backends/cpu/grouped_product.h"
#include "common/door.h"

/* ---- The main loop ---- */

const lo_grouped *lo_grouped_choose(layerops_context *ctx, layerops_type a, layerops_type b,
                                    int64_t n, int64_t k) {
  const lo_grouped_shape shape = {n, k * (int64_t)layerops_type_size(a)};
  const lo_instructions *has = lo_cpu_of(ctx)->instructions;
  const bool bf16 = a == LAYEROPS_BF16 && b == LAYEROPS_BF16;
  const lo_grouped_list *list = bf16 ? &has->bf16 : &has->int8;
  if (!bf16 && !lo_is_int8(a)) return NULL;
  const lo_grouped_choice *choice =
      lo_select(ctx, list->choices, sizeof *list->choices, list->count, &shape);
  return choice ? choice->dot : NULL;
}

/* ---- Dot tiles ---- */

/* In multiply-adds of a vector for each row of X: words of k times vectors for tiles, of which
 * those of one vector are bound by their loads; for dot tiles the steps of a vector along k, and
 * adding up its lanes. Of n and k alone, as a row's bits must not depend on other rows. */
int64_t lo_grouped_dot_columns(const lo_grouped *dot, int64_t n, int64_t k) {
  const int64_t lanes = dot->panel / 2, rest = n % lanes, words = lo_grouped_depth(dot, k);
  const int64_t steps = (words + 15) / 16, total = 6;
  if (!dot->dots || !rest || !k) return 0;
  const int64_t tiles = n / lanes % 2 ? words : words + words / 3;
  return rest * (steps + total) + steps < tiles ? rest : 0;
}

/* For few rows packing takes longer than adding up lanes and reading W again for each tile. Sums of
 * integers are the same bits either way. */
static bool saves_packing(const lo_grouped_plan *plan) {
  const double steps = (double)((plan->words + 15) / 16);
  if (plan->packed || !plan->dot->dots || !plan->k) return false;
  if (plan->p->flags & LAYEROPS_BATCH_INVARIANT && !plan->integers) return false;
  return (double)plan->m * (0.5 + 6 / steps) <= 10;
}

/* Both operands lie in rows as they are multiplied, and what is subtracted from sums is known. */
static int64_t dot_columns(const lo_grouped_plan *plan) {
  if (plan->x.k_major || plan->w.k_major || plan->x.change == LO_GROUPED_WIDEN) return 0;
  if (plan->corrects && !plan->packed) return 0;
  if (saves_packing(plan)) return plan->n;
  return lo_grouped_dot_columns(plan->dot, plan->n, plan->k);
}

/* Few columns, densely: an activation then runs over no idle lanes. */
static bool epilogue_is_dense(const lo_grouped_plan *plan) {
  lo_finish rest = plan->finish;
  rest.activation = LAYEROPS_IDENTITY;
  return plan->dots <= plan->dot->panel / 4 && rest.alpha == 1.0f && lo_finish_is_simple(&rest) &&
         rest.c.type != LAYEROPS_I32;
}

/* Scales and zero points as arrays, a single one with step 0. */
static void set_scaling(lo_grouped_plan *plan) {
  static const float one = 1;
  static const int32_t none = 0;
  const lo_product *p = plan->p;
  lo_scaling *s = &plan->scaling;
  const bool row = lo_present(&p->scale_a), column = lo_present(&p->scale_b),
             zero = lo_present(&p->zero_a);
  s->row_scale = row ? lo_address(&p->scale_a) : &one;
  s->column_scale = column ? lo_address(&p->scale_b) : &one;
  s->zero = zero ? lo_address(&p->zero_a) : &none;
  s->row_step = row && p->scale_a.cols > 1;
  s->column_step = column && p->scale_b.cols > 1;
  s->zero_step = zero && p->zero_a.cols > 1;
  s->shift = plan->x.change == LO_GROUPED_FLIP ? 128 : 0;
  if (p->c.type == LAYEROPS_I32) s->row_scale = NULL;
  plan->corrects = zero || s->shift;
  if (lo_present(&p->scale_c)) plan->finish.scale_c = *(const float *)lo_address(&p->scale_c);
}

/* X is copied where its elements change or their order, and where many panels meet rows that are
 * bad to read: a multiple of 4 KiB apart they fall into the same set of L1, and at odd places their
 * words lie across cache lines. */
static bool x_serves_in_place(const lo_grouped_plan *plan) {
  const int64_t row = plan->x.row * plan->dot->size, panels = lo_cuts(plan->n, plan->dot->panel);
  if (plan->x.change != LO_GROUPED_COPY || plan->x.k_major) return false;
  if (plan->streams) return true;
  return !(row % 4096 == 0 && plan->m > 8 && panels >= 2) && !(row % 4 && panels >= 8);
}

bool lo_grouped_finishes(const lo_grouped *dot, const lo_finish *f) {
  return f->alpha == 1.0f && lo_finish_is_simple(f) && dot->out_types & LO_BIT(f->c.type);
}

/* ---- Pieces ---- */

/* ns that one core takes for rows x columns: the tiles, the epilogue as if k were a little larger,
 * both operands out of L3, and packing W. */
static double piece_ns(const lo_grouped_plan *plan, int64_t rows, int64_t columns) {
  const lo_grouped *dot = plan->dot;
  const double wide = (double)lo_round_up(columns, dot->panel), k = (double)plan->k;
  const double pack = plan->packed ? 0 : 0.06 * dot->size * wide * k;
  const double reads = 0.025 * dot->size * k * ((double)rows + wide);
  return 2 * (double)lo_round_up(rows, dot->row_unit) * wide * (k + 32) / dot->flops_per_ns +
         reads + pack;
}

/* For `threads` threads on each matrix of the batch, the cut into rows x columns whose pieces are
 * the quickest; of equals the one with most cuts of rows, each of which is written by one thread.
 */
static void choose_cuts(lo_grouped_plan *plan, int64_t threads) {
  const int64_t panels = lo_most(lo_cuts(lo_grouped_cut_columns(plan), plan->dot->panel), 1);
  double best = 0;
  for (int64_t rows = lo_least(threads, plan->m); rows >= 1; rows--) {
    int64_t columns = lo_least(threads / rows, panels);
    double ns = piece_ns(plan, lo_cuts(plan->m, rows), lo_cuts(panels, columns) * plan->dot->panel);
    if (best > 0 && ns >= best) continue;
    best = ns;
    plan->row_cuts = rows;
    plan->column_cuts = columns;
  }
}

static void choose_pieces(layerops_context *ctx, lo_grouped_plan *plan) {
  const int64_t batch = plan->p->batch;
  plan->row_cuts = plan->column_cuts = 1;
  plan->tasks = lo_parallel_width(ctx, piece_ns(plan, plan->m, plan->n) * (double)batch);
  if (plan->tasks == 1) return;
  if (batch < plan->tasks) choose_cuts(plan, lo_cuts(plan->tasks, batch));
  plan->tasks = lo_least(plan->tasks, batch * plan->row_cuts * plan->column_cuts);
}

/* ---- Blocks ---- */

/* Where W is packed, a copied X that does not stay in L2 is copied once for all columns, in stripes
 * of a few MB; else slab by slab, again for each block of columns. */
static void place_stripes(int64_t l2, int64_t rows, lo_grouped_plan *plan) {
  const lo_grouped *dot = plan->dot;
  const int64_t row = lo_copied_row(plan->words), bytes = rows * row * 4;
  plan->copies_stripes = plan->packed && !plan->x_in_place && bytes > l2 / 4;
  if (!plan->copies_stripes) return;
  plan->x_row = row;
  plan->stripe = lo_even(rows, lo_least(plan->stripe, 8 * l2 / 4 / row), plan->slab);
  plan->x_bytes = lo_round_up(lo_round_up(plan->stripe, dot->row_unit) * row * 4, 64);
}

/* A panel may fill an eighth of L2, the panels of a block a half, and so may partial sums. */
static void choose_blocks(int64_t l2, lo_grouped_plan *plan) {
  const lo_grouped *dot = plan->dot;
  const int64_t half = l2 / 2, rows = lo_cuts(plan->m, plan->row_cuts);
  const int64_t columns =
      lo_most(lo_cuts(lo_cuts(plan->tiled, dot->panel), plan->column_cuts), 1) * dot->panel;
  plan->block_k = lo_even(plan->k, half / 4 / (dot->panel * dot->size), dot->depth);
  const int64_t words = lo_grouped_depth(dot, plan->block_k);
  plan->block_n = lo_even(columns, half / 4 / words, dot->panel);
  plan->wide = lo_round_up(plan->block_n, dot->panel);
  const bool cut = plan->k > plan->block_k;
  plan->stripe = cut ? lo_even(rows, half / 4 / plan->wide, dot->rows) : lo_most(rows, 1);
  plan->x_row = lo_copied_row(words);
  plan->x_bytes = lo_round_up(plan->slab * plan->x_row * 4, 64);
  place_stripes(l2, rows, plan);
  if (cut)
    plan->c_bytes = lo_round_up(lo_round_up(plan->stripe, dot->row_unit) * plan->wide * 4, 64);
  if (plan->packed) return;
  plan->w_bytes = lo_round_up(words * plan->wide * 4, 64);
  plan->sums_bytes = lo_round_up(plan->wide * 4, 64);
}

bool lo_grouped_plan_product(layerops_context *ctx, const lo_product *p,
                             const lo_grouped_packed *packed, lo_grouped_plan *plan) {
  const lo_cpu *cpu = lo_cpu_of(ctx);
  if (p->packed && !packed) return false; /* panels of f32 */
  const lo_grouped *dot = lo_grouped_choose(ctx, p->a.type, p->b.type, p->n, p->k);
  if (packed) dot = packed->dot; /* the same; asked all the same, as that names the kernel */
  if (!dot) return false;
  *plan = (lo_grouped_plan){.p = p, .isa = cpu->isa, .dot = dot, .packed = packed};
  plan->m = p->m;
  plan->n = p->n;
  lo_finish_of(&p->epilogue, &p->c, &plan->finish);
  plan->k = plan->finish.alpha == 0.0f ? 0 : p->k;
  if (plan->k == 0) plan->finish.alpha = 1.0f; /* 0, whatever alpha is */
  plan->words = lo_grouped_depth(dot, plan->k);
  plan->x = lo_grouped_x(dot, &p->a, p->trans_a);
  plan->w = lo_grouped_w(dot, &p->b, !p->trans_b);
  plan->integers = dot->type != LAYEROPS_BF16;
  if (plan->integers) set_scaling(plan);
  plan->out_in_registers = plan->k && lo_grouped_finishes(dot, &plan->finish);
  plan->streams = plan->out_in_registers && dot->run_short && plan->words <= LO_GROUPED_SHORT;
  plan->slab = plan->streams ? 2 * LO_GROUPED_ROWS : dot->rows;
  plan->x_in_place = x_serves_in_place(plan);
  plan->dots = dot_columns(plan);
  plan->tiled = plan->n - plan->dots;
  plan->dense = epilogue_is_dense(plan);
  choose_pieces(ctx, plan);
  choose_blocks(cpu->caches.l2, plan);
  return true;
}

int64_t lo_grouped_plan_scratch(const lo_grouped_plan *plan) {
  return plan->tasks * (plan->w_bytes + plan->sums_bytes + plan->x_bytes + plan->c_bytes);
}

/* The block-sparse linear layer: the kept blocks of a block row are the segments of the
 * microkernel's list, so that sums stay in registers over the whole row of W. */
#include <config.h>

#include "backends/cpu/product.h"
#include "common/bsr.h"

typedef struct job {
  const lo_isa *isa;
  const layerops_bsr *w;
  const float *values, *x;
  int64_t x_row, m;
  int64_t panel, panels;         /* columns of a panel, panels of a block row */
  int64_t row_cuts, column_cuts; /* pieces: rows of X by ranges of block rows */
  int64_t task_bytes;
  char *scratch;
  bool empty, plain; /* empty: alpha is 0 */
  lo_finish finish;
} job;

static int64_t kept(const job *t, int64_t row) {
  return t->empty ? 0 : t->w->host.row_start[row + 1] - t->w->host.row_start[row];
}

/* ---- A block row ---- */

/* Packs the kept blocks of a block row, panel by panel, and lists them. */
static void pack_row(const job *t, int64_t row, float *packed, lo_segment *list) {
  const int64_t block = t->w->height, count = kept(t, row), first = t->w->host.row_start[row];
  for (int64_t q = 0; q < t->panels; q++)
    for (int64_t b = 0; b < count; b++) {
      const float *from = t->values + (first + b) * block * block + q * t->panel * block;
      t->isa->transpose(from, block, packed, t->panel, t->panel, block);
      *list++ = (lo_segment){t->x + t->w->host.column[first + b] * block, packed, block};
      packed += block * t->panel;
    }
}

static void run_tile(const job *t, int64_t row, int64_t q, int64_t i, int64_t rows,
                     const lo_segment *list) {
  const lo_microkernels *mk = t->isa->product;
  const int64_t j = row * t->w->height + q * t->panel;
  const lo_plane *c = &t->finish.c;
  float sums[LO_MAX_TILE] __attribute__((aligned(64)));
  lo_tile tile = {.list = list + q * kept(t, row),
                  .count = kept(t, row),
                  .x_first = i * t->x_row,
                  .x_row = t->x_row,
                  .w_step = t->panel,
                  .c = t->plain ? (float *)(void *)c->base + i * c->stride + j : sums,
                  .c_row = t->plain ? c->stride : t->panel,
                  .columns = t->panel,
                  .tiles = 1};
  mk->run[LO_ROW_MAJOR][t->panel / mk->lanes - 1][rows - 1](&tile);
  if (!t->plain) t->isa->finish(&t->finish, sums, t->panel, i, j, rows, t->panel);
}

static void run_block_row(const job *t, int64_t row, int64_t i, int64_t i_end, char *scratch) {
  float *packed = (float *)(void *)scratch;
  lo_segment *list =
      (lo_segment *)(void *)(packed + t->w->longest_row * t->w->height * t->w->height);
  const lo_microkernels *mk = t->isa->product;
  const int64_t highest = mk->rows[t->panel / mk->lanes - 1];
  const int64_t tiles = (i_end - i + highest - 1) / highest;
  pack_row(t, row, packed, list);
  for (int64_t s = 0; s < tiles; s++) {
    int64_t begin, end;
    lo_share(i_end - i, tiles, s, &begin, &end);
    for (int64_t q = 0; q < t->panels; q++) run_tile(t, row, q, i + begin, end - begin, list);
  }
}

/* ---- Tasks ---- */

/* The first block row of part `part` of `parts`: parts hold about as many kept blocks, and a little
 * for each row's epilogue. */
static int64_t first_row(const job *t, int64_t part, int64_t parts) {
  const int64_t rows = t->w->block_rows;
  const int64_t before = (t->w->count + rows) / parts * part;
  int64_t low = 0, high = rows;
  if (part == parts) return rows;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (t->w->host.row_start[middle] + middle < before)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void run_task(void *arg, int64_t task) {
  const job *t = arg;
  const int64_t part = task % t->column_cuts, end = first_row(t, part + 1, t->column_cuts);
  int64_t i, i_end;
  lo_share(t->m, t->row_cuts, task / t->column_cuts, &i, &i_end);
  for (int64_t row = first_row(t, part, t->column_cuts); row < end; row++)
    run_block_row(t, row, i, i_end, t->scratch + task * t->task_bytes);
}

/* By block rows, which packs nothing twice, unless one of them is more than a part. */
static void choose_cuts(layerops_context *ctx, job *t) {
  const double sums = (double)t->w->count * (double)(t->w->height * t->w->height);
  const double ns = 2 * ((double)t->m + 16) * sums / t->isa->product->flops_per_ns +
                    0.1 * (double)t->m * (double)t->w->rows;
  const int64_t rows = t->w->block_rows, threads = lo_parallel_width(ctx, ns);
  t->column_cuts = (t->w->longest_row + 1) * threads <= t->w->count + rows ? threads : 1;
  t->row_cuts = threads / t->column_cuts < t->m ? threads / t->column_cuts : t->m;
}

layerops_status lo_cpu_bsr_linear_forward(layerops_context *ctx,
                                          const layerops_bsr_linear_forward_args *a) {
  LO_TRY(lo_bsr_whole_squares(ctx, a->w));
  const layerops_matrix values = layerops_bsr_values(a->w);
  const lo_isa *isa = lo_cpu_of(ctx)->isa;
  const lo_microkernels *mk = isa->product;
  const int64_t block = a->w->height, widest = mk->vectors * mk->lanes;
  lo_epilogue epilogue;
  job t = {.isa = isa,
           .w = a->w,
           .values = lo_address(&values),
           .x = lo_address(&a->x),
           .x_row = a->x.stride,
           .m = a->x.rows,
           .panel = widest < block ? widest : block};
  t.panels = block / t.panel;
  lo_epilogue_bsr(a, &epilogue);
  lo_finish_of(&epilogue, &a->y, &t.finish);
  t.empty = t.finish.alpha == 0.0f;
  if (t.empty || a->w->cols == 0) t.finish.alpha = 1.0f;
  t.plain = lo_finish_is_plain(&t.finish);
  choose_cuts(ctx, &t);
  const int64_t longest = a->w->longest_row;
  t.task_bytes = longest * block * block * (int64_t)sizeof(float) +
                 longest * t.panels * (int64_t)sizeof(lo_segment);
  t.task_bytes = (t.task_bytes + 63) / 64 * 64;
  float *scratch;
  LO_TRY(lo_scratch(ctx, t.row_cuts * t.column_cuts * t.task_bytes, &scratch));
  t.scratch = (char *)scratch;
  ctx->kernel = mk->kernels[LO_W_PACKED].name;
  lo_parallel(ctx, t.row_cuts * t.column_cuts, run_task, &t);
  return LAYEROPS_OK;
}

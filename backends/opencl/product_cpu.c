/* The dense product on CPU devices: packs pieces of both operands into panels, then multiplies. */
#include <config.h>

#include "backends/opencl/product.h"

enum {
  PANEL_FLOATS = 16 << 20, /* of one operand's piece: 64 MiB */
  PACK_STEPS = 256,        /* of k, for a group that packs */
  GROUPS_A_UNIT = 16       /* of the product: enough for balance, few enough to be cheap */
};

/* How a product is cut into pieces. */
typedef struct pieces {
  int rows, cols;           /* of a tile */
  int64_t k, m, n, batch;   /* of a piece: m and n are multiples of the tile */
  int64_t a_bytes, b_bytes; /* panels */
  int64_t a_batch, b_batch; /* matrices of a piece: 1 where all share one */
} pieces;

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* As many columns (or rows) as a piece of panels holds, in whole tiles. */
static int64_t piece_of(int64_t count, int64_t k, int tile) {
  int64_t all = lo_cl_ceil(count, tile) * tile;
  return least(all, most(1, PANEL_FLOATS / (most(k, 1) * tile)) * tile);
}

static pieces cut(layerops_context *ctx, const lo_product *p) {
  const lo_cl_class *c = &lo_cl_of(ctx)->device->class;
  pieces s = {.rows = c->rows, .cols = c->vectors * c->vector, .k = lo_cl_depth(p)};
  s.m = piece_of(p->m, s.k, s.rows);
  s.n = piece_of(p->n, s.k, s.cols);
  s.batch = most(1, least(p->batch, PANEL_FLOATS / most(1, most(s.m, s.n) * s.k)));
  s.a_batch = p->a.batch == 1 ? 1 : s.batch;
  s.b_batch = p->b.batch == 1 ? 1 : s.batch;
  s.a_bytes = lo_cl_round(s.a_batch * s.m * s.k * (int64_t)sizeof(float));
  s.b_bytes = lo_cl_round(s.b_batch * s.n * s.k * (int64_t)sizeof(float));
  return s;
}

int64_t lo_cl_cpu_scratch(layerops_context *ctx, const lo_product *p) {
  pieces s = cut(ctx, p);
  return s.a_bytes + s.b_bytes;
}

layerops_status lo_cl_cpu_pack(layerops_context *ctx, int width, const layerops_matrix *m,
                               const lo_cl_pack *p, int64_t batch, lo_cl_region to) {
  int number[LO_CL_NUMBERS] = {width};
  lo_cl_pack params = *p;
  params.chunk = PACK_STEPS;
  params.to = to.offset / (int64_t)sizeof(float);
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_PACK, number, "pack");
  lo_cl_view_memory(&l, m);
  lo_cl_memory(&l, to.buffer);
  lo_cl_bytes(&l, sizeof params, &params);
  return lo_cl_run(&l, 1, lo_cl_ceil(p->from.count, lo_cl_of(ctx)->device->class.vector),
                   lo_cl_ceil(p->k, PACK_STEPS), batch);
}

static layerops_status pack(layerops_context *ctx, int width, const layerops_matrix *m,
                            lo_cl_operand from, int64_t first, int64_t count, int64_t k,
                            int64_t batch, int64_t batches, lo_cl_region to) {
  lo_cl_pack p = {.from = from, .k = k, .batch = from.batch_stride ? batch : 0};
  p.from.offset += first * from.across;
  p.from.count = count;
  if (!k) return LAYEROPS_OK;
  return lo_cl_cpu_pack(ctx, width, m, &p, batches, to);
}

/* Panels of rows [row, row + rows) and columns [col, col + cols), matrices [batch, batch +
 * batches). */
static layerops_status multiply(layerops_context *ctx, const lo_product *p, const pieces *s,
                                lo_cl_region a, lo_cl_region b, int64_t row, int64_t col,
                                int64_t batch) {
  int64_t rows = least(s->m, p->m - row), cols = least(s->n, p->n - col);
  int64_t batches = least(s->batch, p->batch - batch);
  int64_t row_tiles = lo_cl_ceil(rows, s->rows), col_tiles = lo_cl_ceil(cols, s->cols);
  int64_t groups = (int64_t)GROUPS_A_UNIT * lo_cl_of(ctx)->device->units;
  int64_t tiles = most(1, least(row_tiles, row_tiles * col_tiles * batches / groups));
  lo_cl_product params = {.epilogue = lo_cl_epilogue_of(&p->epilogue, &p->c),
                          .k = s->k,
                          .row = row,
                          .col = col,
                          .batch = batch,
                          .tiles = tiles};
  if (!s->k) params.epilogue.alpha = (lo_cl_scalar){-1, 0, 0};
  params.a = (lo_cl_operand){.offset = a.offset / (int64_t)sizeof(float), .count = rows};
  params.b = (lo_cl_operand){.offset = b.offset / (int64_t)sizeof(float), .count = cols};
  if (p->a.batch != 1) params.a.batch_stride = row_tiles * s->rows * s->k;
  if (p->b.batch != 1) params.b.batch_stride = col_tiles * s->cols * s->k;
  int number[LO_CL_NUMBERS] = {lo_cl_of(ctx)->device->class.vectors};
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_PRODUCT_CPU, number, "product");
  lo_cl_memory(&l, a.buffer);
  lo_cl_memory(&l, b.buffer);
  lo_cl_targets(&l, &p->epilogue, &p->c);
  lo_cl_bytes(&l, sizeof params, &params);
  return lo_cl_run(&l, 1, lo_cl_ceil(row_tiles, tiles), col_tiles, batches);
}

/* A's panels are kept from one piece of columns to the next where all rows fit in one piece. */
layerops_status lo_cl_cpu_product(layerops_context *ctx, const lo_cl_plan *plan,
                                  lo_cl_region region) {
  const lo_product *p = plan->product;
  pieces s = cut(ctx, p);
  lo_cl_operand a = lo_cl_operand_a(p), b = lo_cl_operand_b(p);
  lo_cl_region to_a = region, to_b = {region.buffer, region.offset + s.a_bytes};
  for (int64_t l = 0; l < p->batch; l += s.batch) {
    int64_t batches = least(s.batch, p->batch - l), packed_row = -1;
    for (int64_t j = 0; j < p->n; j += s.n) {
      LO_TRY(pack(ctx, s.cols, &p->b, b, j, least(s.n, p->n - j), s.k, l, least(s.b_batch, batches),
                  to_b));
      for (int64_t i = 0; i < p->m; i += s.m) {
        if (i != packed_row)
          LO_TRY(pack(ctx, s.rows, &p->a, a, i, least(s.m, p->m - i), s.k, l,
                      least(s.a_batch, batches), to_a));
        packed_row = i;
        LO_TRY(multiply(ctx, p, &s, to_a, to_b, i, j, l));
      }
    }
  }
  return LAYEROPS_OK;
}

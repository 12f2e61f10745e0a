/* The choice of a tile and of the parts of k, by what each would cost on this GPU in clocks of an
 * SM. The rule knows sizes alone; no shape is special. */
#include <config.h>

#include <math.h>
#include <stdio.h>

#include "backends/cuda/plan.h"

enum { LARGEST_SLICE = 1 << 30, LARGEST_SPLIT = 128 };
#define LARGEST_PARTIAL ((int64_t)256 << 20)

/* Products of f32 that an SM makes a clock; the first row whose architecture is not above ours. */
static const struct {
  int architecture;
  double rate;
} rates[] = {{86, 128}, {80, 64}, {75, 64}, {0, 64}};

static double sm_rate(int architecture) {
  int i = 0;
  while (rates[i].architecture > architecture) i++;
  return rates[i].rate;
}

typedef struct tile {
  int bm, bn, bk, blocks, rate;
} tile;

static const tile tiles[] = {
#define X(BM, BN, BK, TM, TN, LX, BLOCKS, RATE) {BM, BN, BK, BLOCKS, RATE},
    LO_CU_TILES(X)
#undef X
};
enum { TILES = sizeof tiles / sizeof *tiles };

typedef struct candidate {
  double cost; /* infinity where it cannot run */
  int split;
  int64_t slice;
  const char *reason;
} candidate;

typedef struct problem {
  const lo_product *p;
  candidate candidates[2 * TILES]; /* tile t whole, tile t split */
  double best;
} problem;

static int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

static int64_t pitch_of(const lo_product *p) {
  return (p->n + 3) / 4 * 4;
}

static int64_t scratch_bytes(const lo_product *p, int split, int64_t *partial) {
  *partial = 4 * split * p->batch * p->m * pitch_of(p);
  return *partial + (lo_present(&p->row_sum) ? 4 * split * p->m : 0);
}

/* The clocks of a product: every step of a block waits for memory at least once; a full SM is bound
 * by its arithmetic. */
static double cost_of(layerops_context *ctx, const lo_product *p, const tile *t, int split,
                      int64_t slice) {
  const double wait = 600, around = 2500, launch = 4000, bytes_a_clock = 16;
  double sms = lo_cuda(ctx)->device->sms;
  double blocks =
      (double)ceil_div(p->m, t->bm) * (double)ceil_div(p->n, t->bn) * (double)p->batch * split;
  double each = ceil(blocks / sms), rounds = ceil(each / t->blocks);
  double work = t->bm * t->bn * t->bk / (sm_rate(lo_cuda(ctx)->architecture) * t->rate * 0.01);
  double steps = (double)ceil_div(slice, t->bk);
  double cost = steps * fmax(each * work, rounds * wait) + rounds * around;
  if (split > 1)
    cost += launch +
            8.0 * split * (double)p->batch * (double)p->m * (double)p->n / (sms * bytes_a_clock);
  return cost;
}

/* k in `split` parts of whole steps; fewer where the last would be empty. */
static int64_t slice_of(const lo_product *p, const tile *t, int *split) {
  int64_t k = p->k ? p->k : 1, slice = ceil_div(ceil_div(k, *split), t->bk) * t->bk;
  *split = (int)ceil_div(k, slice);
  return slice;
}

static const char *cannot_split(layerops_context *ctx, const lo_product *p, int split) {
  int64_t partial, bytes = scratch_bytes(p, split, &partial);
  bool needed = p->k > LARGEST_SLICE; /* by k alone, so that a row's bits stay its own */
  if ((p->flags & LAYEROPS_BATCH_INVARIANT) && !needed) return "the call asks for batch invariance";
  if (!needed && bytes > LARGEST_PARTIAL) return "the partial products would need too much memory";
  if (ctx->args.workspace && bytes + 256 > ctx->args.workspace->bytes)
    return "the partial products do not fit the user's workspace";
  return NULL;
}

static void try_whole(layerops_context *ctx, problem *q, int i) {
  candidate *c = &q->candidates[i];
  *c = (candidate){INFINITY, 1, 0, NULL};
  if (q->p->k > LARGEST_SLICE) {
    c->reason = "k is beyond the 32-bit counters of a block";
    return;
  }
  c->slice = slice_of(q->p, &tiles[i], &c->split);
  c->cost = cost_of(ctx, q->p, &tiles[i], 1, c->slice);
}

static void try_split(layerops_context *ctx, problem *q, int i) {
  candidate *c = &q->candidates[TILES + i];
  *c = (candidate){INFINITY, 1, 0, "k is too short to part"};
  int least = (int)ceil_div(q->p->k, LARGEST_SLICE);
  bool by_k_alone = (q->p->flags & LAYEROPS_BATCH_INVARIANT) != 0;
  for (int wanted = least > 2 ? least : 2; wanted <= LARGEST_SPLIT + least;
       wanted += wanted < 4 ? 1 : wanted / 4) {
    int split = wanted;
    int64_t slice = slice_of(q->p, &tiles[i], &split);
    if (split < 2 || slice > LARGEST_SLICE) continue;
    const char *reason = cannot_split(ctx, q->p, split);
    double cost = reason ? INFINITY : cost_of(ctx, q->p, &tiles[i], split, slice);
    if (reason && c->cost == INFINITY) c->reason = reason;
    if (cost < c->cost) *c = (candidate){cost, split, slice, NULL};
    if (reason || by_k_alone) break;
  }
}

static const char *refuse(layerops_context *ctx, const problem *q, int i, const char *name) {
  const char *reason = lo_cuda_shut_out(ctx, name);
  if (reason) return reason;
  const candidate *c = &q->candidates[i];
  if (c->reason) return c->reason;
  return c->cost > q->best ? "another tile costs less here" : NULL;
}

typedef struct entry {
  lo_kernel base;
  int candidate;
} entry;

/* Entries and their refusals, made of the list of tiles. */
enum {
#define X(BM, BN, ...) TILE_##BM##x##BN,
  LO_CU_TILES(X)
#undef X
};

#define NAME(BM, BN)       "simt_" #BM "x" #BN
#define NAME_SPLIT(BM, BN) "simt_" #BM "x" #BN "_split"

#define X(BM, BN, ...)                                                                             \
  static const char *refuse_##BM##x##BN(layerops_context *ctx, const void *q) {                    \
    return refuse(ctx, q, TILE_##BM##x##BN, NAME(BM, BN));                                         \
  }                                                                                                \
  static const char *refuse_split_##BM##x##BN(layerops_context *ctx, const void *q) {              \
    return refuse(ctx, q, TILES + TILE_##BM##x##BN, NAME_SPLIT(BM, BN));                           \
  }
LO_CU_TILES(X)
#undef X

static const entry entries[] = {
#define X(BM, BN, ...)                                                                             \
  {{NAME(BM, BN), refuse_##BM##x##BN}, TILE_##BM##x##BN},                                          \
      {{NAME_SPLIT(BM, BN), refuse_split_##BM##x##BN}, TILES + TILE_##BM##x##BN},
    LO_CU_TILES(X)
#undef X
};
enum { ENTRIES = sizeof entries / sizeof *entries };

layerops_status lo_cuda_plan_product(layerops_context *ctx, const lo_product *p,
                                     lo_cuda_plan *plan) {
  problem q = {.p = p, .best = INFINITY};
  for (int i = 0; i < TILES; i++) {
    try_whole(ctx, &q, i);
    try_split(ctx, &q, i);
  }
  for (int i = 0; i < ENTRIES; i++)
    if (!lo_cuda_shut_out(ctx, entries[i].base.name) &&
        q.candidates[entries[i].candidate].cost < q.best)
      q.best = q.candidates[entries[i].candidate].cost;
  const entry *e = LO_SELECT(ctx, entries, &q);
  if (!e)
    return lo_fail(LAYEROPS_ERROR_UNSUPPORTED,
                   "no kernel takes this product: k is %lld, and LAYEROPS_CUDA_KERNEL is \"%s\"",
                   (long long)p->k, lo_cuda(ctx)->forced);
  const candidate *c = &q.candidates[e->candidate];
  const tile *t = &tiles[e->candidate % TILES];
  *plan = (lo_cuda_plan){
      .tile = e->candidate % TILES, .bm = t->bm, .bn = t->bn, .split = c->split, .slice = c->slice};
  if (c->split > 1) plan->bytes = scratch_bytes(p, c->split, &plan->partial_bytes);
  return LAYEROPS_OK;
}

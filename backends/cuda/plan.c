/* The choice of a tile and of the parts of k, by what each would cost on this GPU in clocks of an
 * SM. The rule knows sizes alone; no shape is special. */
#include <config.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/plan.h"

enum { LARGEST_SLICE = 1 << 30, LARGEST_SPLIT = 128 };
#define LARGEST_PARTIAL ((int64_t)256 << 20)

/* Main loops, and the products that an SM makes a clock with each; the first row whose architecture
 * is not above ours. */
typedef enum family { SIMT, MMA_K8, MMA_K16 } family;

static const struct {
  int architecture;
  double rate[3];
} rates[] = {
    {90, {128, 512, 1390}}, /* mma.sync, not wgmma */
    {86, {128, 512, 512}},
    {80, {64, 512, 1024}},
    {0, {64, 512, 0}},
};

static double sm_rate(int architecture, family f) {
  int i = 0;
  while (rates[i].architecture > architecture) i++;
  return rates[i].rate[f];
}

typedef struct tile {
  family family;
  int number; /* in the family's list */
  int bm, bn, bk, blocks, rate, wait;
} tile;

/* Names for the rows of the table below. */
enum {
#define X(BM, BN, ...) SIMT_##BM##x##BN,
  LO_CU_TILES(X)
#undef X
#define X(BM, BN, ...) MMA_K8_##BM##x##BN,
      LO_CU_MMA_TILES(X)
#undef X
#define X(BM, BN, ...) MMA_K16_##BM##x##BN,
          LO_CU_MMA_TILES(X)
#undef X
              TILES,
  FIRST_MMA_K8 = MMA_K8_128x128,
  FIRST_MMA_K16 = MMA_K16_128x128
};

static const tile tiles[] = {
#define X(BM, BN, BK, TM, TN, LX, BLOCKS, RATE, WAIT)                                              \
  {SIMT, SIMT_##BM##x##BN, BM, BN, BK, BLOCKS, RATE, WAIT},
    LO_CU_TILES(X)
#undef X
#define X(BM, BN, WM, WN, BLOCKS, K8, K16, WAIT)                                                   \
  {MMA_K8, MMA_K8_##BM##x##BN - FIRST_MMA_K8, BM, BN, 32, BLOCKS, K8, WAIT},
        LO_CU_MMA_TILES(X)
#undef X
#define X(BM, BN, WM, WN, BLOCKS, K8, K16, WAIT)                                                   \
  {MMA_K16, MMA_K16_##BM##x##BN - FIRST_MMA_K16, BM, BN, 32, BLOCKS, K16, WAIT},
            LO_CU_MMA_TILES(X)
#undef X
};

typedef struct candidate {
  double cost; /* infinity where it cannot run */
  int split;
  int64_t slice;
  const char *reason;
} candidate;

enum { DOT = 2 * TILES, CANDIDATES };

typedef struct problem {
  const lo_product *p;
  candidate candidates[CANDIDATES]; /* tile t whole, tile t split, dot products */
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

/* The clocks of a product, but for what all candidates have alike: every step of a block waits for
 * memory at least once, a full SM is bound by its arithmetic, and each output costs some. */
static double cost_of(layerops_context *ctx, const lo_product *p, const tile *t, int split,
                      int64_t slice) {
  const double launch = 3500, output = 0.46, bytes_a_clock = 32;
  double sms = lo_cuda(ctx)->device->sms;
  double blocks =
      (double)ceil_div(p->m, t->bm) * (double)ceil_div(p->n, t->bn) * (double)p->batch * split;
  double each = ceil(blocks / sms), rounds = ceil(each / t->blocks);
  double work =
      t->bm * t->bn * t->bk / (sm_rate(lo_cuda(ctx)->architecture, t->family) * t->rate * 0.01);
  double steps = (double)ceil_div(slice, t->bk);
  double cost = steps * fmax(each * work, rounds * t->wait) + output * each * t->bm * t->bn;
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

/* Why a family has no kernel for the product. */
static const char *no_kernel(layerops_context *ctx, const lo_product *p, family f) {
  int architecture = lo_cuda(ctx)->architecture;
  bool has_mma = p->a.type == LAYEROPS_F16 || (p->a.type == LAYEROPS_BF16 && architecture >= 80);
  /* the same main loop for any number of rows */
  if (f == SIMT)
    return has_mma && (p->flags & LAYEROPS_BATCH_INVARIANT) ? "tensor cores take all such products"
                                                            : NULL;
  if (p->a.type == LAYEROPS_F32) return "operands are f32";
  if (!has_mma) return "no bf16 instruction before sm_80";
  if (f == MMA_K8 && architecture >= 80) return "a longer instruction is there from sm_80 on";
  return f == MMA_K16 && architecture < 80 ? "no such instruction before sm_80" : NULL;
}

static void try_whole(layerops_context *ctx, problem *q, int i) {
  candidate *c = &q->candidates[i];
  *c = (candidate){INFINITY, 1, 0, no_kernel(ctx, q->p, tiles[i].family)};
  if (c->reason) return;
  if (q->p->k > LARGEST_SLICE) {
    c->reason = "k is beyond the 32-bit counters of a block";
    return;
  }
  c->slice = slice_of(q->p, &tiles[i], &c->split);
  c->cost = cost_of(ctx, q->p, &tiles[i], 1, c->slice);
}

static void try_split(layerops_context *ctx, problem *q, int i) {
  candidate *c = &q->candidates[TILES + i];
  *c = (candidate){INFINITY, 1, 0, no_kernel(ctx, q->p, tiles[i].family)};
  if (c->reason) return;
  c->reason = "k is too short to part";
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

/* Whether op(A)'s rows are the long lines of a product with few columns. */
static int swapped(const lo_product *p) {
  return p->n < p->m;
}

static const char *cannot_dot(const lo_product *p) {
  int64_t lines = swapped(p) ? p->n : p->m;
  if (lo_present(&p->row_sum)) return "sums by row are wanted";
  if (lines > LO_CU_DOT_LINES) return "more than 8 rows and columns";
  if (p->trans_a || !p->trans_b) return "an operand is not contiguous along k";
  if (p->flags & LAYEROPS_BATCH_INVARIANT) return "the call asks for batch invariance";
  return NULL;
}

/* Four quads of a lane are on their way at a time. */
static void try_dot(layerops_context *ctx, problem *q) {
  const double wait = 200, around = 1000, blocks_an_sm = 8;
  const lo_product *p = q->p;
  candidate *c = &q->candidates[DOT];
  *c = (candidate){INFINITY, 1, p->k, cannot_dot(p)};
  if (c->reason) return;
  int64_t lines = swapped(p) ? p->m : p->n;
  double blocks = (double)ceil_div(lines, LO_CU_DOT_EACH) * (double)p->batch;
  double rounds = ceil(blocks / (blocks_an_sm * lo_cuda(ctx)->device->sms));
  c->cost = rounds * (around + wait * (double)ceil_div(p->k, 128));
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

/* Entries and their refusals, made of the lists of tiles. */
#define NAME(FAMILY, BM, BN) FAMILY "_" #BM "x" #BN
#define REFUSE(TILE, NAME)                                                                         \
  static const char *refuse_##TILE(layerops_context *ctx, const void *q) {                         \
    return refuse(ctx, q, TILE, NAME);                                                             \
  }                                                                                                \
  static const char *refuse_split_##TILE(layerops_context *ctx, const void *q) {                   \
    return refuse(ctx, q, TILES + TILE, NAME "_split");                                            \
  }
#define ENTRY(TILE, NAME)                                                                          \
  {{NAME, refuse_##TILE}, TILE}, {{NAME "_split", refuse_split_##TILE}, TILES + TILE},

#define X(BM, BN, ...) REFUSE(SIMT_##BM##x##BN, NAME("simt", BM, BN))
LO_CU_TILES(X)
#undef X
#define X(BM, BN, ...)                                                                             \
  REFUSE(MMA_K8_##BM##x##BN, NAME("mma_k8", BM, BN))                                               \
  REFUSE(MMA_K16_##BM##x##BN, NAME("mma_k16", BM, BN))
LO_CU_MMA_TILES(X)
#undef X
static const char *refuse_dot(layerops_context *ctx, const void *q) {
  return refuse(ctx, q, DOT, "dot");
}

static const entry entries[] = {{{"dot", refuse_dot}, DOT},
#define X(BM, BN, ...) ENTRY(MMA_K16_##BM##x##BN, NAME("mma_k16", BM, BN))
                                LO_CU_MMA_TILES(X)
#undef X
#define X(BM, BN, ...) ENTRY(MMA_K8_##BM##x##BN, NAME("mma_k8", BM, BN))
                                    LO_CU_MMA_TILES(X)
#undef X
#define X(BM, BN, ...) ENTRY(SIMT_##BM##x##BN, NAME("simt", BM, BN))
                                        LO_CU_TILES(X)
#undef X
};
enum { ENTRIES = sizeof entries / sizeof *entries };

static void fill_plan(const lo_product *p, const problem *q, int i, lo_cuda_plan *plan) {
  const candidate *c = &q->candidates[i];
  *plan = (lo_cuda_plan){.split = c->split, .slice = c->slice};
  if (i == DOT) {
    plan->tile = LO_CU_DOT;
    plan->mma = -1;
    plan->swapped = swapped(p);
    plan->bm = plan->swapped ? LO_CU_DOT_EACH : LO_CU_DOT_LINES;
    plan->bn = plan->swapped ? LO_CU_DOT_LINES : LO_CU_DOT_EACH;
    return;
  }
  const tile *t = &tiles[i % TILES];
  plan->tile = t->number;
  plan->bm = t->bm;
  plan->bn = t->bn;
  plan->mma = t->family == SIMT ? -1 : t->family == MMA_K8 ? 0 : p->a.type == LAYEROPS_F16 ? 1 : 2;
  if (c->split > 1) plan->bytes = scratch_bytes(p, c->split, &plan->partial_bytes);
}

static layerops_status choose(layerops_context *ctx, const lo_product *p, lo_cuda_plan *plan) {
  problem q = {.p = p, .best = INFINITY};
  for (int i = 0; i < TILES; i++) {
    try_whole(ctx, &q, i);
    try_split(ctx, &q, i);
  }
  try_dot(ctx, &q);
  for (int i = 0; i < ENTRIES; i++)
    if (!lo_cuda_shut_out(ctx, entries[i].base.name) &&
        q.candidates[entries[i].candidate].cost < q.best)
      q.best = q.candidates[entries[i].candidate].cost;
  const entry *e = LO_SELECT(ctx, entries, &q);
  if (!e)
    return lo_fail(LAYEROPS_ERROR_UNSUPPORTED,
                   "no kernel takes this product: k is %lld, and LAYEROPS_CUDA_KERNEL is \"%s\"",
                   (long long)p->k, lo_cuda(ctx)->forced);
  fill_plan(p, &q, e->candidate, plan);
  return LAYEROPS_OK;
}

/* ---- Plans made before: training asks for the same few products again and again. All that a
 * choice depends on stands in the key. */
typedef struct key {
  int64_t m, n, k, batch;
  int32_t trans_a, trans_b, type, row_sum;
  int64_t flags;
} key;

struct lo_cuda_plans {
  struct {
    key key;
    lo_cuda_plan plan;
    const char *kernel; /* NULL where the slot is empty */
  } slots[64];
};

static key key_of(const lo_product *p) {
  return (key){p->m,       p->n,       p->k,      p->batch,
               p->trans_a, p->trans_b, p->a.type, lo_present(&p->row_sum),
               p->flags};
}

static unsigned slot_of(const key *k) {
  uint64_t h = (uint64_t)k->m;
  h = (h * 0x9e3779b97f4a7c15u) ^ (uint64_t)k->n;
  h = (h * 0x9e3779b97f4a7c15u) ^ (uint64_t)k->k;
  h = (h * 0x9e3779b97f4a7c15u) ^ (uint64_t)(2 * k->trans_a + k->trans_b);
  return (unsigned)((h * 0x9e3779b97f4a7c15u) >> 58);
}

layerops_status lo_cuda_plan_product(layerops_context *ctx, const lo_product *p,
                                     lo_cuda_plan *plan) {
  lo_cuda_state *s = lo_cuda(ctx);
  if (ctx->verbose > 1) return choose(ctx, p, plan); /* tells of refusals each time */
  if (!s->plans) s->plans = calloc(1, sizeof *s->plans);
  if (!s->plans) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "no memory for plans");
  key k = key_of(p);
  unsigned i = slot_of(&k);
  if (!s->plans->slots[i].kernel || memcmp(&s->plans->slots[i].key, &k, sizeof k)) {
    s->plans->slots[i].kernel = NULL;
    LO_TRY(choose(ctx, p, &s->plans->slots[i].plan));
    s->plans->slots[i].key = k;
    s->plans->slots[i].kernel = ctx->kernel;
  }
  *plan = s->plans->slots[i].plan;
  ctx->kernel = s->plans->slots[i].kernel;
  return LAYEROPS_OK;
}

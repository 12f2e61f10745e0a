/* The choice of a kernel and of the parts of k for a product, and the choices made before. */
#include <config.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/plan.h"
#include "common/door.h"

enum { LARGEST_SLICE = 1 << 30, LARGEST_SPLIT = 128, LARGEST_CLUSTER = 8, LARGEST_Z = 65535 };
enum { HOPPER = 90 };
#define LARGEST_PARTIAL ((int64_t)256 << 20)
#define LARGEST_COPIES  ((int64_t)2 << 30)

/* A kernel with its best number of parts, or why it cannot run. */
typedef struct candidate {
  const lo_cuda_kernel *kernel;
  const char *reason;
  double cost;
  int split;
  int64_t slice;
} candidate;

static int kinds_of(const lo_product *p) {
  const bool eight = lo_type_bytes(p->b.type) == 1; /* op(B) */
  switch (p->a.type) {
  case LAYEROPS_F32:
    return p->flags & LAYEROPS_ALLOW_TF32 ? LO_KIND_F32 | LO_KIND_TF32 : LO_KIND_F32;
  case LAYEROPS_F16:
    return eight ? LO_KIND_F16 | LO_KIND_F16_W8 : LO_KIND_F16;
  case LAYEROPS_BF16:
    return eight ? LO_KIND_BF16 | LO_KIND_BF16_W8 : LO_KIND_BF16;
  case LAYEROPS_F8E4M3:
  case LAYEROPS_F8E5M2:
    return LO_KIND_F16 | LO_KIND_F16_W8 | LO_KIND_F8 |
           (p->flags & LAYEROPS_FAST_ACCUM ? LO_KIND_F8_FAST : 0);
  default:
    return LO_KIND_INT8;
  }
}

layerops_type lo_cuda_type_in(const lo_product *p, const layerops_matrix *m,
                              const lo_cuda_kernel *k) {
  const bool takes_f8 = k->unit == LO_UNIT_F16_K16; /* those of Turing want op(A) of 16 bits */
  const bool a_widened = k->kinds & LO_KINDS_W8 && m == &p->a && !takes_f8;
  const bool as_it_is = !a_widened && kinds_of(p) & k->kinds & ~(LO_KIND_F16 | LO_KIND_BF16);
  if (as_it_is || lo_type_bytes(m->type) != 1) return m->type;
  return lo_is_f8(p->a.type) ? LAYEROPS_F16 : p->a.type;
}

/* Whole tiles, each with as much again for its columns: what any kernel stores. */
static int64_t scratch_bytes(const lo_product *p, const lo_cuda_kernel *k, int split,
                             int64_t *partial) {
  int64_t tiles = lo_ceil_div(p->m, k->bm) * lo_ceil_div(p->n, k->bn) * p->batch;
  *partial = 4 * split * tiles * LO_CU_ASYNC_PART(k->bm, k->bn);
  return *partial + (lo_present(&p->row_sum) ? 4 * split * p->m : 0);
}

/* k in `split` parts of whole steps; fewer where the last would be empty. */
static int64_t slice_of(const lo_product *p, const lo_cuda_kernel *k, int *split) {
  int64_t all = p->k ? p->k : 1;
  int64_t slice = lo_ceil_div(lo_ceil_div(all, *split), k->bk) * k->bk;
  *split = (int)lo_ceil_div(all, slice);
  return slice;
}

/* ---- Reasons */
static bool aligned(const layerops_matrix *m, int bytes) {
  int size = (int)layerops_type_size(m->type);
  return bytes <= size || lo_cuda_aligned(m, bytes / size);
}

static bool is_far(const lo_product *p) {
  int64_t stride = p->a.stride > p->b.stride ? p->a.stride : p->b.stride;
  return stride > UINT32_MAX / (int64_t)layerops_type_size(p->a.type);
}

static bool fits(const lo_product *p, const layerops_matrix *m, const lo_cuda_kernel *k) {
  if (lo_cuda_type_in(p, m, k) != m->type) return false;
  int64_t row = p->k * (int64_t)layerops_type_size(m->type);
  return !k->align || (aligned(m, k->align) && !(k->direct && row % k->align));
}

bool lo_cuda_is_copied(const lo_product *p, const layerops_matrix *m, const lo_cuda_kernel *k) {
  if (lo_cuda_type_in(p, m, k) != m->type) return true;
  return k->align == LO_CUDA_CHUNK && !fits(p, m, k);
}

static int64_t copy_bytes(const lo_product *p, const layerops_matrix *m, const lo_cuda_kernel *k) {
  if (!lo_cuda_is_copied(p, m, k)) return 0;
  int64_t row = m->cols * (int64_t)lo_type_bytes(lo_cuda_type_in(p, m, k));
  return (m->batch * m->rows * lo_cuda_pitch(row) + 255) / 256 * 256;
}

int64_t lo_cuda_copy_bytes(const lo_product *p, const lo_cuda_kernel *k) {
  return copy_bytes(p, &p->a, k) + copy_bytes(p, &p->b, k);
}

static const char *refuses_direct(const lo_product *p) {
  if (is_far(p)) return "rows lie too far apart";
  return lo_present(&p->row_sum) ? "sums by row are wanted" : NULL;
}

/* Coordinates are of 32 bits, distances in bytes of 40. */
static const char *refuses_boxes(const lo_product *p) {
  int64_t size = (int64_t)layerops_type_size(p->a.type), most = ((int64_t)1 << 40) / size;
  if (p->m > INT32_MAX / 2 || p->n > INT32_MAX / 2 || p->k > INT32_MAX / 2 ||
      p->batch > INT32_MAX / 2)
    return "an operand has too many rows or columns for boxes";
  bool far = p->a.stride >= most || p->b.stride >= most ||
             (p->batch > 1 && (p->a.batch_stride >= most || p->b.batch_stride >= most));
  return far ? "rows lie too far apart for boxes" : NULL;
}

static const char *refuses_few(const lo_product *p, const lo_cuda_kernel *k) {
  if ((lo_cuda_long_a(p, k) ? p->n : p->m) > k->few) return "too many rows and columns";
  return lo_present(&p->row_sum) ? "sums by row are wanted" : NULL;
}

/* ---- Batch invariance: a row's bits must not depend on how many there are. So all products that
 * differ in m alone have one kind and one main loop, whose tiles all sum k in one order. Sums of
 * integers are exact in any. */
static bool is_invariant(const lo_product *p) {
  return p->flags & LAYEROPS_BATCH_INVARIANT && !(kinds_of(p) & LO_KIND_INT8);
}

static bool is_hoppers(const lo_cuda_kernel *k) {
  return k->from == HOPPER && k->to == HOPPER;
}

/* Whether Hopper's kernels take such products, however many rows op(A) has: it must lie as they
 * want it, since copies of many rows may find no room. */
static bool hopper_takes(const lo_product *p, int kind) {
  lo_product two = *p;
  two.m = two.a.rows = 2; /* the distance of rows counts */
  if (p->k > LARGEST_SLICE) return false;
  if (kind == LO_KIND_F32) return true;
  bool widened = p->b.type != p->a.type && !lo_is_f8(p->a.type);
  return !p->trans_a && (p->trans_b || kind & (LO_KIND_F16 | LO_KIND_BF16)) &&
         aligned(&two.a, LO_CUDA_CHUNK) && (widened || aligned(&p->b, LO_CUDA_CHUNK)) &&
         !refuses_boxes(&two);
}

/* The fastest kind that takes the product. */
static int invariant_kind(layerops_context *ctx, const lo_product *p) {
  int kinds = kinds_of(p), architecture = lo_cuda(ctx)->architecture;
  int eights[] = {LO_KIND_F8_FAST, LO_KIND_F8};
  for (int i = 0; i < 2; i++)
    if (kinds & eights[i] && architecture == HOPPER && hopper_takes(p, eights[i])) return eights[i];
  if (kinds & LO_KIND_TF32 && architecture >= 80) return LO_KIND_TF32;
  return kinds & (LO_KIND_F32 | LO_KIND_F16 | LO_KIND_BF16);
}

static const char *refuses_invariance(layerops_context *ctx, const lo_product *p,
                                      const lo_cuda_kernel *k) {
  int architecture = lo_cuda(ctx)->architecture, kind = invariant_kind(ctx, p);
  int cores = architecture >= 80 ? ~0 : LO_KIND_F16; /* kinds that tensor cores take */
  bool hopper = architecture == HOPPER && hopper_takes(p, kind);
  if (k->sliced) return "the call asks for batch invariance";
  if (!(k->kinds & kind)) return "operands of another type take all such products";
  if (hopper != is_hoppers(k))
    return hopper ? "Hopper's kernels take all such products"
                  : "it does not take all such products";
  return k->unit == LO_UNIT_FMA && kind & cores ? "tensor cores take all such products" : NULL;
}

static const char *refuses_alignment(layerops_context *ctx, const lo_product *p,
                                     const lo_cuda_kernel *k) {
  int64_t bytes = lo_cuda_copy_bytes(p, k);
  if (!(lo_cuda_is_copied(p, &p->a, k) || fits(p, &p->a, k)) ||
      !(lo_cuda_is_copied(p, &p->b, k) || fits(p, &p->b, k)))
    return "rows are not aligned enough";
  if (k->kinds & LO_KINDS_W8 && !fits(p, &p->b, k)) return "a copy of W may as well be wider";
  if (ctx->args.workspace && bytes + 256 > ctx->args.workspace->bytes)
    return "copies of the operands do not fit the user's workspace";
  return bytes > LARGEST_COPIES ? "copies of the operands would need too much memory" : NULL;
}

static const char *refuses(layerops_context *ctx, const lo_product *p, const lo_cuda_kernel *k) {
  int architecture = lo_cuda(ctx)->architecture;
  const char *reason = lo_cuda_shut_out(ctx, k->name);
  if (reason) return reason;
  if (!(k->kinds & kinds_of(p))) return "operands are of another type";
  if (architecture < k->from) return "the architecture lacks its instructions";
  if (architecture > k->to) return "a later architecture has a better one";
  if (!lo_cuda_resident(architecture, k)) return "a block is larger than an SM of Turing";
  if (!(k->orders >> (2 * p->trans_a + p->trans_b) & 1))
    return "an operand does not run along the dimension that it wants";
  if ((reason = refuses_alignment(ctx, p, k))) return reason;
  if (k->shared > lo_cuda(ctx)->device->shared) return "its stages do not fit shared memory";
  if (k->boxes) reason = refuses_boxes(p);
  if (k->few) reason = refuses_few(p, k);
  if (!reason && k->direct) reason = refuses_direct(p);
  if (!reason && is_invariant(p)) reason = refuses_invariance(ctx, p, k);
  return reason;
}

/* Parts that meet in a cluster: a block has one tile of one matrix. */
static const char *refuses_meeting(const lo_product *p, int split) {
  if (split > LARGEST_CLUSTER) return "a cluster has too few blocks for the parts of k";
  if (p->batch > LARGEST_Z) return "there are more matrices than blocks";
  return is_invariant(p) ? "the call asks for batch invariance" : NULL;
}

static const char *refuses_split(layerops_context *ctx, const lo_product *p,
                                 const lo_cuda_kernel *k, int split) {
  if (k->meets) return refuses_meeting(p, split);
  if (k->boxes) return "its blocks are in clusters already";
  int64_t partial, bytes = scratch_bytes(p, k, split, &partial);
  int64_t copies = lo_cuda_copy_bytes(p, k);
  int64_t tiles = lo_ceil_div(p->m, k->bm) * lo_ceil_div(p->n, k->bn);
  bool needed = p->k > LARGEST_SLICE; /* by k alone, so that a row's bits stay its own */
  if (k->few) return "the kernel takes k whole";
  if (tiles > LO_CUDA_COUNTERS / p->batch) return "there are more tiles than counters";
  if (is_invariant(p) && !needed) return "the call asks for batch invariance";
  if (!needed && bytes > LARGEST_PARTIAL) return "the partial products would need too much memory";
  if (ctx->args.workspace && bytes + copies + 512 > ctx->args.workspace->bytes)
    return "the partial products do not fit the user's workspace";
  return NULL;
}

/* ---- Candidates */
typedef void each_split(void *user, int split, int64_t slice, double cost);

/* All numbers of parts that the kernel may have, 1 first. NULL, or why there is none. */
static const char *for_splits(layerops_context *ctx, const lo_product *p, const lo_cuda_kernel *k,
                              each_split *each, void *user) {
  const lo_cuda_state *s = lo_cuda(ctx);
  int least = (int)lo_ceil_div(p->k ? p->k : 1, LARGEST_SLICE), last = 0;
  const char *reason = NULL;
  for (int wanted = least; wanted <= LARGEST_SPLIT + least; wanted += wanted < 4 ? 1 : wanted / 4) {
    int split = wanted;
    int64_t slice = slice_of(p, k, &split);
    if (split == last || slice > LARGEST_SLICE) continue;
    if (s->forced_split && split != s->forced_split) continue;
    if (split > 1 && (reason = refuses_split(ctx, p, k, split))) break;
    last = split;
    each(user, split, slice, lo_cuda_cost(s, p, k, split, slice));
    if (split > 1 && is_invariant(p)) break;
  }
  if (!last && s->forced_split && !reason) return "LAYEROPS_CUDA_KERNEL wants other parts of k";
  return last ? NULL : reason ? reason : "k is beyond the 32-bit counters of a block";
}

static void keep_cheapest(void *user, int split, int64_t slice, double cost) {
  candidate *c = user;
  if (cost >= c->cost) return;
  c->cost = cost;
  c->split = split;
  c->slice = slice;
}

/* Blocks that come while others are still there fill SMs unevenly. Where they are too few to fill
 * all and run long, that costs more than waiting for the launch before does. */
static bool is_alone(const lo_cuda_state *s, const lo_product *p, const lo_cuda_kernel *k,
                     int split, int64_t slice) {
  const double long_clocks = 25000;
  int64_t tiles = lo_ceil_div(p->m, k->bm) * lo_ceil_div(p->n, k->bn) * p->batch;
  int64_t blocks = tiles * split * (k->cluster ? k->cluster : 1);
  return 5 * blocks < 4 * (int64_t)s->device->sms * lo_cuda_resident(s->architecture, k) &&
         lo_cuda_cost(s, p, k, split, slice) > long_clocks;
}

static void fill_plan(const lo_cuda_state *s, const lo_product *p, const lo_cuda_kernel *k,
                      int split, int64_t slice, lo_cuda_plan *plan) {
  int kinds = kinds_of(p) & k->kinds;
  *plan = (lo_cuda_plan){.kernel = k, .split = split, .slice = slice, .bm = k->bm, .bn = k->bn};
  plan->kind = kinds & LO_KIND_TF32 ? LO_KIND_TF32 : kinds; /* a kernel's kinds are one's else */
  plan->swapped = k->few && lo_cuda_long_a(p, k);
  if (split == 1) plan->tail = lo_cuda_tail_of(s, p, k);
  if (k->few && !plan->swapped) {
    plan->bm = k->bn;
    plan->bn = k->bm;
  }
  plan->alone = is_alone(s, p, k, split, slice);
  if (split > 1 && !k->meets) plan->bytes = scratch_bytes(p, k, split, &plan->partial_bytes);
  int64_t copies = lo_cuda_copy_bytes(p, k);
  if (!copies) return;
  plan->copies = (plan->bytes + 255) / 256 * 256;
  plan->bytes = plan->copies + copies;
}

static layerops_status choose(layerops_context *ctx, const lo_product *p, lo_cuda_plan *plan) {
  candidate best = {.cost = INFINITY};
  for (int i = 0; i < lo_cuda_kernel_count; i++) {
    candidate c = {.kernel = &lo_cuda_kernels[i], .cost = INFINITY};
    c.reason = refuses(ctx, p, c.kernel);
    if (!c.reason) c.reason = for_splits(ctx, p, c.kernel, keep_cheapest, &c);
    if (c.reason)
      lo_refused(ctx, c.kernel->name, c.reason);
    else if (c.cost >= best.cost)
      lo_refused(ctx, c.kernel->name, "another kernel costs less here");
    else {
      if (best.kernel) lo_refused(ctx, best.kernel->name, "another kernel costs less here");
      best = c;
    }
  }
  if (!best.kernel)
    return lo_fail(LAYEROPS_ERROR_UNSUPPORTED,
                   "no kernel takes this product: k is %lld, and LAYEROPS_CUDA_KERNEL is \"%s\"",
                   (long long)p->k, lo_cuda(ctx)->forced);
  fill_plan(lo_cuda(ctx), p, best.kernel, best.split, best.slice, plan);
  ctx->kernel = best.kernel->name;
  return LAYEROPS_OK;
}

/* ---- For tuning: all of them in order of cost */
typedef struct gathering {
  const lo_cuda_state *state;
  const lo_product *p;
  const lo_cuda_kernel *kernel;
  lo_cuda_plan *plans;
  double *costs;
  int count, most;
} gathering;

static void insert(void *user, int split, int64_t slice, double cost) {
  gathering *g = user;
  int at = g->count;
  while (at > 0 && g->costs[at - 1] > cost) at--;
  if (at >= g->most) return;
  int moved = (g->count < g->most ? g->count : g->most - 1) - at;
  memmove(g->plans + at + 1, g->plans + at, (size_t)moved * sizeof *g->plans);
  memmove(g->costs + at + 1, g->costs + at, (size_t)moved * sizeof *g->costs);
  fill_plan(g->state, g->p, g->kernel, split, slice, &g->plans[at]);
  g->costs[at] = cost;
  if (g->count < g->most) g->count++;
}

int lo_cuda_plan_candidates(layerops_context *ctx, const lo_product *p, lo_cuda_plan *plans,
                            int most) {
  gathering g = {.state = lo_cuda(ctx), .p = p, .plans = plans, .most = most};
  if (!(g.costs = malloc((size_t)most * sizeof *g.costs))) return 0;
  for (int i = 0; i < lo_cuda_kernel_count; i++) {
    g.kernel = &lo_cuda_kernels[i];
    if (!refuses(ctx, p, g.kernel)) for_splits(ctx, p, g.kernel, insert, &g);
  }
  free(g.costs);
  return g.count;
}

/* ---- For tuning: one of them by name */
typedef struct wish {
  int split;
  int64_t slice; /* 0: not found */
} wish;

static void find_split(void *user, int split, int64_t slice, double cost) {
  wish *w = user;
  (void)cost;
  if (split == w->split) w->slice = slice;
}

const char *lo_cuda_plan_named(layerops_context *ctx, const lo_product *p, const char *kernel,
                               int split, lo_cuda_plan *plan) {
  wish w = {.split = split};
  for (int i = 0; i < lo_cuda_kernel_count; i++) {
    const lo_cuda_kernel *k = &lo_cuda_kernels[i];
    if (strcmp(k->name, kernel)) continue;
    const char *reason = refuses(ctx, p, k);
    if (!reason) reason = for_splits(ctx, p, k, find_split, &w);
    if (reason) return reason;
    if (!w.slice) return "it does not take so many parts of k";
    fill_plan(lo_cuda(ctx), p, k, split, w.slice, plan);
    return NULL;
  }
  return "there is no such kernel";
}

/* ---- Plans made before: training asks for the same few products again and again. */
struct lo_cuda_plans {
  struct {
    lo_tuned_key key;
    bool far;          /* see is_far() */
    lo_cuda_plan plan; /* no kernel where the slot is empty */
  } slots[64];
};

/* Where a view's rows begin, in bytes, as far as their alignment goes. alone: one row's distance to
 * the next counts, though there is none. */
static uint64_t places_of(const layerops_matrix *m, bool alone) {
  uint64_t distances = (m->rows == 1 && !alone ? 0 : (uint64_t)m->stride) |
                       (m->batch == 1 ? 0 : (uint64_t)m->batch_stride);
  return (uintptr_t)lo_address(m) | distances * lo_type_bytes(m->type);
}

/* The alignment of both operands' rows: 1 to 16 bytes. */
static int64_t alignment_of(const lo_product *p) {
  uint64_t all = 16 | places_of(&p->a, is_invariant(p)) | places_of(&p->b, false);
  return (int64_t)(all & -all);
}

lo_tuned_key lo_cuda_plan_key(const lo_product *p) {
  return (lo_tuned_key){.m = p->m,
                        .n = p->n,
                        .k = p->k,
                        .batch = p->batch,
                        .trans_a = p->trans_a,
                        .trans_b = p->trans_b,
                        .type = p->a.type,
                        .b_type = p->b.type,
                        .row_sum = lo_present(&p->row_sum),
                        .flags = p->flags,
                        .align = alignment_of(p)};
}

static unsigned slot_of(const lo_tuned_key *k) {
  uint64_t h = (uint64_t)k->m;
  h = (h * 0x9e3779b97f4a7c15u) ^ (uint64_t)k->n;
  h = (h * 0x9e3779b97f4a7c15u) ^ (uint64_t)k->k;
  h = (h * 0x9e3779b97f4a7c15u) ^ (uint64_t)(2 * k->trans_a + k->trans_b);
  return (unsigned)((h * 0x9e3779b97f4a7c15u) >> 58);
}

void lo_cuda_plans_forget(layerops_context *ctx) {
  struct lo_cuda_plans *plans = lo_cuda(ctx)->plans;
  if (plans) memset(plans, 0, sizeof *plans);
}

/* What was tuned, or else what the rule says. */
static layerops_status make_plan(layerops_context *ctx, const lo_product *p,
                                 const lo_tuned_key *key, lo_cuda_plan *plan) {
  return lo_cuda_tuned_plan(ctx, p, key, plan) ? LAYEROPS_OK : choose(ctx, p, plan);
}

layerops_status lo_cuda_plan_product(layerops_context *ctx, const lo_product *p,
                                     lo_cuda_plan *plan) {
  lo_cuda_state *s = lo_cuda(ctx);
  lo_tuned_key k = lo_cuda_plan_key(p);
  if (ctx->verbose > 1) return make_plan(ctx, p, &k, plan); /* tells of refusals each time */
  if (!s->plans) s->plans = calloc(1, sizeof *s->plans);
  if (!s->plans) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "no memory for plans");
  unsigned i = slot_of(&k);
  bool far = is_far(p);
  if (!s->plans->slots[i].plan.kernel || s->plans->slots[i].far != far ||
      memcmp(&s->plans->slots[i].key, &k, sizeof k)) {
    s->plans->slots[i].plan.kernel = NULL;
    lo_cuda_plan made;
    LO_TRY(make_plan(ctx, p, &k, &made));
    s->plans->slots[i].key = k;
    s->plans->slots[i].far = far;
    s->plans->slots[i].plan = made;
  }
  *plan = s->plans->slots[i].plan;
  ctx->kernel = plan->kernel->name;
  return LAYEROPS_OK;
}

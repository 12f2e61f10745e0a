/* What a product would take with a kernel, in clocks of an SM. The rule knows sizes alone. */
#include <config.h>

#include <math.h>

#include "backends/cuda/plan.h"

/* Multiplications that an SM makes a clock with each unit, and its share of device memory's bytes;
 * the first row whose architecture is not above ours. On sm_90 as measured: mma.sync's, a copy's.
 */
static const struct {
  int architecture;
  double rate[LO_UNITS], memory;
} rates[] = {
    {90, {128, 232, 1025, 1390, 695, 1050, 2790, 2048, 1024, 4096, 4096}, 18},
    {86, {128, 85, 512, 512, 256, 512, 1024}, 5},
    {80, {64, 171, 512, 1024, 512, 512, 2048}, 10},
    {0, {64, 0, 512, 0, 0, 1024, 0}, 5},
};

static int row_of(int architecture) {
  int i = 0;
  while (rates[i].architecture > architecture) i++;
  return i;
}

/* What an SM has, for the blocks that it holds at once: an SM of Turing's, which is the T4's, where
 * its kernels are forced on a later device too. Later ones have enough for every kernel. */
int lo_cuda_resident(int architecture, const lo_cuda_kernel *k) {
  enum { SHARED = 64 * 1024, THREADS = 1024, BLOCKS = 16 };
  int blocks = k->blocks;
  if (architecture >= 80) return blocks;
  if (blocks > BLOCKS) blocks = BLOCKS;
  if (k->shared && blocks > SHARED / k->shared) blocks = SHARED / k->shared;
  if (k->threads && blocks > THREADS / k->threads) blocks = THREADS / k->threads;
  return blocks;
}

/* A cluster lies within some 16 SMs; one place in all is lost, as was seen on an H200. */
static double clusters_at_once(int sms, int resident, int blocks) {
  int clusters = blocks > 2 ? sms / 16 * (16 * resident / blocks) - 1 : sms * resident / blocks;
  return clusters > 0 ? clusters : 1;
}

static const double cluster_meeting = 3330, follows = 3000; /* a launch behind another */

lo_cuda_tail lo_cuda_tail_of(const lo_cuda_state *s, const lo_product *p, const lo_cuda_kernel *k) {
  enum { LARGEST_CLUSTER = 8 };
  const lo_cuda_tail none = {0};
  const lo_cuda_time time = lo_cuda_time_of(k);
  int64_t slots = (int64_t)s->device->sms * lo_cuda_resident(s->architecture, k);
  int64_t tiles = lo_ceil_div(p->m, k->bm) * lo_ceil_div(p->n, k->bn), left = tiles % slots;
  int64_t steps = lo_ceil_div(p->k, k->bk);
  if (!k->boxes || !k->meets || p->batch > 1 || p->flags & LAYEROPS_BATCH_INVARIANT ||
      tiles < slots || !left || s->forced_split)
    return none;
  lo_cuda_tail best = none;
  double gain = 0;
  for (int split = 2; split <= LARGEST_CLUSTER; split++) {
    int64_t each = lo_ceil_div(steps, split);
    if (left > clusters_at_once(s->device->sms, lo_cuda_resident(s->architecture, k), split) ||
        lo_ceil_div(steps, each) != split)
      continue;
    double gained = (double)(steps - each) * time.wait - time.fixed - cluster_meeting - follows;
    if (gained <= gain) continue;
    gain = gained;
    best = (lo_cuda_tail){left, each * k->bk, split};
  }
  return best;
}

/* How much slower boxes of an operand come whose lines lie across those of the cache. */
static double crossing_of(const lo_product *p, const layerops_matrix *m, const lo_cuda_kernel *k) {
  const double crossing = 2.03;
  if (!k->boxes || m->rows == 1 || lo_cuda_is_copied(p, m, k)) return 1;
  return m->cols * (int64_t)lo_type_bytes(m->type) % 128 ? crossing : 1; /* were it alone */
}

/* Blocks run in rounds of as many as an SM holds. Its arithmetic, its share of the bytes of the
 * second-level cache and of device memory, and the waiting of its blocks overlap: the longest
 * counts. Parts of k end with a block that waits for the others and adds what they stored. Copies
 * of operands are a launch of their own, at the speed of memory. bench/fit_cost.py fits all of the
 * numbers to measured times. */
double lo_cuda_cost(const lo_cuda_state *s, const lo_product *p, const lo_cuda_kernel *k, int split,
                    int64_t slice) {
  const double meeting = 4370, each_part = 510, copied_a_clock = 21.7;
  const double part_output = 0.000647; /* a block adds the parts of its tile alone */
  /* by boxes and out of registers, or as all others */
  const double bytes_a_clock = k->boxes ? 52.4 : 33.4, launch = k->boxes ? 2220 : 2600;
  const double boxed_output = k->kinds & (LO_KIND_F16 | LO_KIND_BF16) ? 0.683 : 0.555;
  const double output = k->boxes ? boxed_output : 0.372;
  /* where neighbours are not stored at once; exact sums of large tiles leave no registers for it */
  const bool lean = k->kinds == LO_KIND_F8 && k->bm * k->bn > 128 * 128;
  const double ragged = k->boxes ? 0.244 + 0.5 * lean : 0.219;
  const lo_cuda_time time = lo_cuda_time_of(k);
  double sms = s->device->sms;
  double bytes_a = (double)lo_type_bytes(lo_cuda_type_in(p, &p->a, k));
  double bytes_b = (double)lo_type_bytes(lo_cuda_type_in(p, &p->b, k));
  int cluster = k->cluster ? k->cluster : 1, bm = k->bm / cluster, bn = k->bn;
  if (k->few && !lo_cuda_long_a(p, k)) bm = k->bn, bn = k->bm;
  double blocks = (double)lo_ceil_div(p->m, bm * cluster) * cluster *
                  (double)lo_ceil_div(p->n, bn) * (double)p->batch * split;
  int resident = lo_cuda_resident(s->architecture, k);
  double each = ceil(blocks / sms), rounds = ceil(each / resident);
  if (split > 1 && k->meets) {
    rounds = ceil(blocks / split / clusters_at_once(s->device->sms, resident, split));
    each = fmax(each, rounds);
  }
  const lo_cuda_tail tail = split == 1 ? lo_cuda_tail_of(s, p, k) : (lo_cuda_tail){0};
  if (tail.tiles) rounds += 1.0 / tail.split - 1, each = rounds * resident;
  double steps = (double)lo_ceil_div(slice, k->bk);
  int row = row_of(s->architecture);
  double rate = rates[row].rate[k->unit] * time.rate * 0.01;
  double arithmetic = each * steps * bm * bn * k->bk / rate;
  double wide_a = bytes_a * crossing_of(p, &p->a, k), wide_b = bytes_b * crossing_of(p, &p->b, k);
  double loads = each * (bm * wide_a + (double)bn * wide_b / cluster) *
                 (double)(slice < p->k ? slice : p->k) / bytes_a_clock;
  double moved =
      (double)p->batch * (((double)p->m * bytes_a + (double)p->n * bytes_b) * (double)p->k +
                          (double)p->m * (double)p->n * bytes_a);
  double memory = moved / (sms * rates[row].memory);
  double begun = k->boxes && split == 1 ? 1 : rounds; /* those go on to their next tiles */
  double waits = begun * time.fixed + rounds * steps * time.wait;
  double cost = fmax(fmax(arithmetic, loads), fmax(memory, waits));
  cost += (output + (p->n % (k->boxes ? 8 : 4) ? ragged : 0)) * each * bm * bn;
  double copied = (double)lo_cuda_copy_bytes(p, k);
  if (copied > 0) cost += launch + 2 * copied / (sms * copied_a_clock);
  if (tail.tiles)
    cost += time.fixed + cluster_meeting + follows;
  else if (split > 1 && k->meets)
    cost += cluster_meeting;
  else if (split > 1)
    cost += meeting + (each_part + part_output * bm * bn) * split +
            8.0 * split * (double)p->batch * (double)p->m * (double)p->n / (sms * bytes_a_clock);
  return cost;
}

double lo_cuda_unit_seconds(const lo_cuda_state *s, const lo_product *p, lo_cuda_unit unit,
                            double clock) {
  double rate = rates[row_of(s->architecture)].rate[unit] * s->device->sms * clock;
  return (double)p->m * (double)p->n * (double)p->k * (double)p->batch / rate;
}

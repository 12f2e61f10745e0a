/* What the times of a row say. */
#include <config.h>

#include <math.h>
#include <string.h>

#include "bench/race.h"

/* The index of the contender's entry with plain weights (or packed ones), -1 if there is none. */
static int find_entrant(const struct bench_race *race, const struct bench_stats *stats,
                        const char *name, bool packed) {
  for (size_t i = 0; i < race->count; i++)
    if (!strcmp(race->entrants[i].name, name) && race->entrants[i].packed == packed &&
        !stats[i].failed)
      return (int)i;
  return -1;
}

/* The fastest of ours, or of the peers whose results are right. -1: there is none. */
static int find_fastest(const struct bench_race *race, const struct bench_stats *stats, bool peers,
                        bool plain) {
  int best = -1;
  for (size_t i = 0; i < race->count; i++) {
    const struct bench_entrant *e = &race->entrants[i];
    if (stats[i].failed || (e->peer != NULL) != peers || (plain && e->packed)) continue;
    if (e->dense) continue;
    if (peers && e->check.wrong) continue;
    if (best < 0 || stats[i].median < stats[best].median) best = (int)i;
  }
  return best;
}

static double ratio_of(const struct bench_race *race, const struct bench_stats *stats, size_t i) {
  const struct bench_entrant *e = &race->entrants[i];
  int ours = find_entrant(race, stats, "layerops", e->packed), best;
  if (!e->peer &&
      !e->dense) { /* block-sparse weights are in the library's own form: as good as packed */
    best = find_fastest(race, stats, true, !e->packed && !race->operands.row->block);
    return best < 0 ? NAN : bench_ratio(&stats[i], &stats[best]);
  }
  if (ours < 0) ours = find_fastest(race, stats, false, false);
  return ours < 0 ? NAN : bench_ratio(&stats[ours], &stats[i]);
}

static double repay_of(const struct bench_race *race, const struct bench_stats *stats, size_t i) {
  const struct bench_entrant *e = &race->entrants[i];
  int plain = find_entrant(race, stats, e->name, false);
  if (!e->packed || plain < 0) return NAN;
  double gain = stats[plain].median - stats[i].median;
  return gain > 0 ? ceil(e->pack_seconds / gain) : INFINITY;
}

/* The name that reports have of it; NULL: dense, which have no others. */
static const char *product_of(const struct bench_operands *o) {
  return o->row->block ? bench_products[o->product] : NULL;
}

static void summarise(struct bench_race *race, const struct bench_stats *stats) {
  struct bench_target *target = &race->session->targets[race->target - race->session->targets];
  const enum bench_product product = race->operands.product;
  for (int kind = 0; kind < BENCH_SUMMARIES; kind++) {
    struct bench_summary *s = &target->summaries[product][race->residency][kind];
    bool plain = kind == BENCH_PLAIN_SUMMARY;
    if (plain && race->operands.row->block) continue; /* their own form, all of them */
    int ours = find_fastest(race, stats, false, plain),
        best = find_fastest(race, stats, true, plain);
    if (ours < 0 || best < 0) continue;
    s->device = target->info.name;
    s->dtype = race->operands.type->name;
    s->product = product_of(&race->operands);
    s->threads = target->threads;
    s->plain = plain;
    s->residency = bench_residencies[race->residency];
    s->way = bench_ways[race->session->way];
    bench_summary_add(s, bench_ratio(&stats[ours], &stats[best]), race->operands.name,
                      race->entrants[best].kernel);
  }
}

static const char *op_of(const struct bench_operands *o) {
  return layerops_op_name(!o->row->block                ? LAYEROPS_OP_linear_forward
                          : o->product == BENCH_FORWARD ? LAYEROPS_OP_bsr_linear_forward
                                                        : LAYEROPS_OP_bsr_linear_backward);
}

static struct bench_result describe(const struct bench_race *race, const struct bench_entrant *e,
                                    const struct bench_stats *stats) {
  const struct bench_row *row = race->operands.row;
  const struct bench_pattern *pattern = row->block ? &race->operands.pattern : NULL;
  const struct bench_target *target = race->target;
  struct bench_result r = {.id = race->operands.name,
                           .op = op_of(&race->operands),
                           .product = product_of(&race->operands),
                           .device = target->info.name,
                           .dtype = race->operands.type->name,
                           .contender = e->name,
                           .kernel = e->kernel,
                           .activation = row->block ? NULL : bench_activations[row->activation],
                           .pattern = row->block ? bench_patterns[row->pattern] : NULL,
                           .threads = target->threads,
                           .m = row->m,
                           .n = row->n,
                           .k = row->k,
                           .block = row->block,
                           .blocks = pattern ? bench_pattern_kept(pattern) : 0,
                           .max_rel_err = e->check.max_rel_err,
                           .packed = e->packed,
                           .residency = bench_residencies[race->residency],
                           .way = bench_ways[race->session->way],
                           .stats = stats};
  bench_work(row, pattern, race->operands.type, &r.flops, &r.bytes);
  if (target->has_bound)
    r.bound = (race->residency == BENCH_COLD ? bench_bound_cold : bench_bound)(
        &target->bound, r.dtype, target->threads, r.flops, r.bytes);
  return r;
}

static bool report_entrant(struct bench_race *race, const struct bench_stats *stats, size_t i) {
  struct bench_entrant *e = &race->entrants[i];
  if (stats[i].failed) {
    if (!e->peer) race->session->faults++;
    return bench_race_skip(race, e->name, e->peer ? "its call failed" : layerops_last_error());
  }
  struct bench_result result = describe(race, e, &stats[i]);
  result.ratio = ratio_of(race, stats, i);
  result.repay = repay_of(race, stats, i);
  return bench_report_row(&race->session->report, &result);
}

bool bench_race_verdict(struct bench_race *race, const struct bench_stats *stats) {
  bool good = true;
  for (size_t i = 0; good && i < race->count; i++) good = report_entrant(race, stats, i);
  summarise(race, stats);
  return good;
}

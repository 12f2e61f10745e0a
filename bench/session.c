#include <config.h>

#include "bench/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/folders.h"
#include "bench/host.h"
#include "bench/peaks.h"

#define MAX_CONTENDERS 16

/* One who does a row: the library first, then the peers; each with plain weights, with packed
   ones, or twice. */
struct entrant {
  const char *name; /* "layerops" or the peer's */
  bool packed;
  char kernel[128];
  const struct bench_peer *peer; /* NULL: the library */
  void *state;                   /* of the peer */
  struct bench_call *call;       /* of the library */
  struct bench_check check;
  double pack_seconds; /* NAN: not packed */
};

struct race {
  struct bench_session *session;
  const struct bench_target *target;
  struct bench_operands operands;
  struct bench_layer layer;
  struct bench_call calls[2]; /* with plain and with packed weights */
  struct entrant entrants[MAX_CONTENDERS];
  size_t count;
};

static void say(const char *device, const char *id, const char *who, const char *what) {
  fprintf(stderr, "layerops bench: %s on %s: %s: %s\n", id, device, who, what);
}

static bool skip(struct bench_session *s, const char *id, const struct bench_target *target,
                 const char *who, const char *why) {
  say(target->info.name, id, who, why);
  return bench_report_skip(&s->report, id, target->info.name, who, why);
}

/* ---- devices ---- */

/* "cuda:0" is of kind "cuda"; the reference runs on the CPU. */
static void device_kind(const char *device, char *kind, size_t size) {
  snprintf(kind, size, "%.*s", (int)strcspn(device, ":"), device);
  if (!strcmp(kind, "reference")) snprintf(kind, size, "cpu");
}

/* What the processor reaches now, in place of a device file. */
static bool measure_bound(struct bench_target *target) {
  struct bench_peaks peaks;
  int threads = target->threads > 0 ? target->threads : (int)target->info.units;
  if (target->info.is_gpu || !bench_peaks_plan(&peaks, threads)) {
    fprintf(stderr, "layerops bench: --bound measure: %s: %s\n", target->info.name,
            target->info.is_gpu ? "only processors can be measured"
                                : "hwloc finds no topology of this machine");
    return false;
  }
  for (int i = 0; i < peaks.count; i++)
    if (peaks.list[i].fma || !strcmp(peaks.list[i].how, "read")) {
      if (bench_peaks_measure(&peaks.list[i])) continue;
      fprintf(stderr, "layerops bench: --bound measure: out of memory\n");
      return false;
    }
  bench_peaks_device(&peaks, threads, &target->bound);
  return target->has_bound = true;
}

static bool find_bound(const struct bench_session *s, struct bench_target *target) {
  char folder[4096], why[512], kind[32], name[192];
  if (s->bound_file && !strcmp(s->bound_file, "measure")) return measure_bound(target);
  device_kind(target->info.name, kind, sizeof kind);
  bench_devices_folder(folder, sizeof folder);
  snprintf(name, sizeof name, "%s", target->info.description);
  if (!target->info.is_gpu) bench_cpu_name(name, sizeof name);
  target->has_bound = s->bound_file
                          ? bench_device_read(s->bound_file, &target->bound, why, sizeof why)
                          : bench_device_find(folder, kind, name, &target->bound, why, sizeof why);
  if (target->has_bound) return true;
  if (s->bound_file) {
    fprintf(stderr, "layerops bench: --bound: %s\n", why);
    return false;
  }
  fprintf(stderr, "layerops bench: %s: no sol_pct, since %s%s\n", target->info.name,
          *why ? why : "no device file describes it in ", *why ? "" : folder);
  return true;
}

static int thread_count(const layerops_device_info *info, int threads) {
  if (!strcmp(info->name, "reference")) return 1;
  if (strcmp(info->name, "cpu")) return 0;
  return threads > 0 && threads < info->units ? threads : (int)info->units;
}

bool bench_session_open(struct bench_session *s, const char *device, int threads) {
  if (s->target_count == BENCH_MAX_DEVICES) {
    fprintf(stderr, "layerops bench: --device: at most %d devices\n", BENCH_MAX_DEVICES);
    return false;
  }
  struct bench_target *target = &s->targets[s->target_count];
  layerops_open_args args = {.device = device, .threads = threads};
  *target = (struct bench_target){0};
  if (layerops_open_with(&args, &target->ctx) != LAYEROPS_OK) {
    fprintf(stderr, "layerops bench: --device: %s\n", layerops_last_error());
    return false;
  }
  s->target_count++;
  if (layerops_context_info(target->ctx, &target->info) != LAYEROPS_OK) {
    fprintf(stderr, "layerops bench: %s\n", layerops_last_error());
    return false;
  }
  target->threads = thread_count(&target->info, threads);
  return find_bound(s, target);
}

bool bench_session_load_peers(struct bench_session *s) {
  char folder[4096];
  bench_peers_folder(folder, sizeof folder);
  s->peers = bench_peers_load(folder);
  for (const struct bench_peer_entry *p = s->peers; p->name; p++) {
    if (!p->peer) fprintf(stderr, "layerops bench: peer %s: %s\n", p->name, p->reason);
    if (!bench_report_peer(&s->report, p->name, p->peer ? NULL : p->reason)) return false;
  }
  return true;
}

/* ---- one row ---- */

static bool run_once(struct race *race, struct entrant *e) {
  if (e->peer) return e->peer->run(e->state, 1) && e->peer->fetch(e->state);
  return bench_call_run(e->call, 1) && bench_call_fetch(e->call, &race->operands) == LAYEROPS_OK;
}

/* False: it failed, and drops out. A wrong result is told, and measured nevertheless. */
static bool check_entrant(struct race *race, struct entrant *e) {
  bench_operands_poison(&race->operands);
  if (!run_once(race, e)) return false;
  e->check = bench_operands_check(&race->operands);
  if (!e->check.wrong) return true;
  char what[160];
  snprintf(what, sizeof what, "wrong: y[%lld,%lld] is %.9g, should be %.9g",
           (long long)e->check.row, (long long)e->check.col, e->check.got, e->check.expected);
  say(race->target->info.name, race->operands.row->id, e->name, what);
  if (!e->peer) race->session->faults++;
  return true;
}

/* The median time of a few. */
static double pack_time(const struct entrant *e) {
  double times[5];
  int count = sizeof times / sizeof *times;
  for (int i = 0; i < count; i++) {
    double start = bench_now();
    if (e->peer ? !e->peer->pack(e->state) : bench_call_pack(e->call)) return NAN;
    times[i] = bench_now() - start;
  }
  bench_sort(times, (size_t)count);
  return bench_percentile(times, (size_t)count, 0.5);
}

/* 1: the library takes part, 0: it has not got the operation, -1: it failed. */
static int enter_library(struct race *race, bool packed) {
  layerops_context *ctx = race->target->ctx;
  struct entrant *e = &race->entrants[race->count];
  *e = (struct entrant){
      .name = "layerops", .packed = packed, .call = &race->calls[packed], .pack_seconds = NAN};
  layerops_status status = bench_call_row(ctx, &race->operands, packed, e->call);
  if (status == LAYEROPS_OK) status = bench_call_prepare(e->call);
  if (status == LAYEROPS_ERROR_UNSUPPORTED) return 0;
  if (status != LAYEROPS_OK) return -1;
  snprintf(e->kernel, sizeof e->kernel, "%s", layerops_last_kernel(ctx));
  if (!check_entrant(race, e)) return -1;
  race->count++;
  if (packed) e->pack_seconds = pack_time(e);
  return 1;
}

/* With the weights that are wanted; block-sparse ones are never packed. False: it does not take
   part at all, or failed; which is told. */
static bool enter_library_ways(struct race *race) {
  int wanted = race->operands.row->block ? BENCH_PLAIN : race->session->weights;
  for (int packed = 0; packed < 2; packed++) {
    if (!(wanted & (packed ? BENCH_PACKED : BENCH_PLAIN))) continue;
    int entered = enter_library(race, packed);
    if (entered > 0) continue;
    race->session->faults += entered < 0;
    return false;
  }
  return true;
}

/* A peer's refusal is told once, not at each row of a suite. */
static bool refused(struct race *race, struct bench_peer_entry *p, const char *why) {
  struct bench_session *s = race->session;
  const char *id = race->operands.row->id, *device = race->target->info.name;
  if (strcmp(p->reason, why)) say(device, id, p->name, why);
  snprintf(p->reason, sizeof p->reason, "%s", why);
  return bench_report_skip(&s->report, id, device, p->name, why);
}

static bool enter_peer(struct race *race, struct bench_peer_entry *p, bool packed) {
  struct entrant *e = &race->entrants[race->count];
  char why[256];
  *e = (struct entrant){.name = p->name, .packed = packed, .peer = p->peer, .pack_seconds = NAN};
  race->layer.packed = packed;
  if (!p->peer->setup(&race->layer, &e->state, e->kernel, sizeof e->kernel, why, sizeof why))
    return refused(race, p, why);
  if (check_entrant(race, e)) {
    race->count++;
    if (packed) e->pack_seconds = pack_time(e);
    return true;
  }
  p->peer->close(e->state);
  return skip(race->session, race->operands.row->id, race->target, p->name, "its call failed");
}

static bool enter_peers(struct race *race) {
  const struct bench_target *target = race->target;
  char kind[32];
  device_kind(target->info.name, kind, sizeof kind);
  race->layer =
      (struct bench_layer){.row = race->operands.row,
                           .pattern = race->operands.row->block ? &race->operands.pattern : NULL,
                           .device = target->info.name,
                           .dtype = race->operands.type->name,
                           .threads = target->threads,
                           .x = race->operands.x,
                           .w = race->operands.w,
                           .bias = race->operands.bias,
                           .y = race->operands.y,
                           .scale_x = race->operands.scale_x,
                           .scale_w = race->operands.scale_w};
  for (struct bench_peer_entry *p = race->session->peers; p && p->name; p++)
    for (int packed = 0; packed < 2; packed++)
      if (p->peer &&
          p->peer->weights & race->session->weights & (packed ? BENCH_PACKED : BENCH_PLAIN) &&
          !strcmp(p->kind, kind) && race->count < MAX_CONTENDERS && !enter_peer(race, p, packed))
        return false;
  return true;
}

/* ---- what the times say ---- */

/* The index of the contender's entry with plain weights (or packed ones), -1 if there is none. */
static int find_entrant(const struct race *race, const struct bench_stats *stats, const char *name,
                        bool packed) {
  for (size_t i = 0; i < race->count; i++)
    if (!strcmp(race->entrants[i].name, name) && race->entrants[i].packed == packed &&
        !stats[i].failed)
      return (int)i;
  return -1;
}

/* The fastest of ours, or of the peers whose results are right. -1: there is none. */
static int find_fastest(const struct race *race, const struct bench_stats *stats, bool peers,
                        bool plain) {
  int best = -1;
  for (size_t i = 0; i < race->count; i++) {
    const struct entrant *e = &race->entrants[i];
    if (stats[i].failed || (e->peer != NULL) != peers || (plain && e->packed)) continue;
    if (peers && e->check.wrong) continue;
    if (best < 0 || stats[i].median < stats[best].median) best = (int)i;
  }
  return best;
}

static double ratio_of(const struct race *race, const struct bench_stats *stats, size_t i) {
  const struct entrant *e = &race->entrants[i];
  int ours = find_entrant(race, stats, "layerops", e->packed), best;
  if (!e->peer) {
    best = find_fastest(race, stats, true, !e->packed);
    return best < 0 ? NAN : bench_ratio(&stats[i], &stats[best]);
  }
  if (ours < 0) ours = find_fastest(race, stats, false, false);
  return ours < 0 ? NAN : bench_ratio(&stats[ours], &stats[i]);
}

static double repay_of(const struct race *race, const struct bench_stats *stats, size_t i) {
  const struct entrant *e = &race->entrants[i];
  int plain = find_entrant(race, stats, e->name, false);
  if (!e->packed || plain < 0) return NAN;
  double gain = stats[plain].median - stats[i].median;
  return gain > 0 ? ceil(e->pack_seconds / gain) : INFINITY;
}

static void summarise(struct race *race, const struct bench_stats *stats) {
  struct bench_target *target = &race->session->targets[race->target - race->session->targets];
  for (int kind = 0; kind < BENCH_SUMMARIES; kind++) {
    struct bench_summary *s = &target->summaries[kind];
    bool plain = kind == BENCH_PLAIN_SUMMARY;
    int ours = find_fastest(race, stats, false, plain),
        best = find_fastest(race, stats, true, plain);
    if (ours < 0 || best < 0) continue;
    s->device = target->info.name;
    s->dtype = race->operands.type->name;
    s->threads = target->threads;
    s->plain = plain;
    bench_summary_add(s, bench_ratio(&stats[ours], &stats[best]), race->operands.row->id,
                      race->entrants[best].kernel);
  }
}

static struct bench_result describe(const struct race *race, const struct entrant *e,
                                    const struct bench_stats *stats) {
  const struct bench_row *row = race->operands.row;
  const struct bench_pattern *pattern = row->block ? &race->operands.pattern : NULL;
  const struct bench_target *target = race->target;
  struct bench_result r = {.id = row->id,
                           .op = row->block ? "bsr_linear_forward" : "linear_forward",
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
                           .stats = stats};
  bench_work(row, pattern, race->operands.type->size, bench_type_y(race->operands.type)->size,
             &r.flops, &r.bytes);
  if (target->has_bound)
    r.bound = bench_bound(&target->bound, r.dtype, target->threads, r.flops, r.bytes);
  return r;
}

static bool report_entrant(struct race *race, const struct bench_stats *stats, size_t i) {
  struct entrant *e = &race->entrants[i];
  if (stats[i].failed) {
    if (!e->peer) race->session->faults++;
    return skip(race->session, race->operands.row->id, race->target, e->name,
                e->peer ? "its call failed" : layerops_last_error());
  }
  struct bench_result result = describe(race, e, &stats[i]);
  result.ratio = ratio_of(race, stats, i);
  result.repay = repay_of(race, stats, i);
  return bench_report_row(&race->session->report, &result);
}

static bool run_peer(void *state, int64_t calls) {
  struct entrant *e = state;
  return e->peer->run(e->state, calls);
}

static bool hold(struct race *race) {
  struct bench_contender contenders[MAX_CONTENDERS];
  struct bench_stats stats[MAX_CONTENDERS];
  for (size_t i = 0; i < race->count; i++)
    contenders[i] = race->entrants[i].peer
                        ? (struct bench_contender){run_peer, &race->entrants[i]}
                        : (struct bench_contender){bench_call_run, race->entrants[i].call};
  if (!bench_measure(contenders, race->count, &race->session->plan, stats)) return false;
  bool good = true;
  for (size_t i = 0; good && i < race->count; i++) good = report_entrant(race, stats, i);
  summarise(race, stats);
  bench_stats_free(stats, race->count);
  return good;
}

bool bench_session_row(struct bench_session *s, const struct bench_operands *operands, int t) {
  struct race race = {.session = s, .target = &s->targets[t], .operands = *operands};
  bool good = enter_library_ways(&race)
                  ? enter_peers(&race) && hold(&race)
                  : skip(s, operands->row->id, race.target, "layerops", layerops_last_error());
  for (size_t i = 0; i < race.count; i++)
    if (race.entrants[i].peer) race.entrants[i].peer->close(race.entrants[i].state);
  for (int packed = 0; packed < 2; packed++) bench_call_free(&race.calls[packed]);
  return good;
}

/* ---- a line of LAYEROPS_VERBOSE ---- */

static bool report_replay(struct bench_session *s, const struct bench_line *line,
                          const struct bench_target *target, const struct bench_stats *stats) {
  const char *op = layerops_op_name(line->op);
  struct bench_result r = {.id = op,
                           .op = op,
                           .device = target->info.name,
                           .dtype = layerops_type_name(line->type),
                           .contender = "layerops",
                           .kernel = layerops_last_kernel(target->ctx),
                           .activation = layerops_activation_name(line->activation),
                           .threads = target->threads,
                           .m = line->m,
                           .n = line->n,
                           .k = line->k,
                           .block = line->block,
                           .blocks = line->blocks,
                           .packed = line->packed,
                           .max_rel_err = NAN,
                           .repay = NAN,
                           .ratio = NAN,
                           .stats = stats};
  bench_line_work(line, &r.flops, &r.bytes);
  if (target->has_bound)
    r.bound = bench_bound(&target->bound, r.dtype, target->threads, r.flops, r.bytes);
  if (line->kernel[0] && strcmp(line->kernel, r.kernel))
    fprintf(stderr, "layerops bench: the line's kernel is %s, this call's %s\n", line->kernel,
            r.kernel);
  return bench_report_row(&s->report, &r);
}

bool bench_session_replay(struct bench_session *s, const struct bench_line *line, int t) {
  const struct bench_target *target = &s->targets[t];
  struct bench_call call;
  struct bench_stats stats;
  layerops_status status = bench_line_call(target->ctx, line, &call);
  if (status == LAYEROPS_OK) status = bench_call_prepare(&call);
  bool good = status == LAYEROPS_OK;
  if (!good) {
    s->faults++;
    fprintf(stderr, "layerops bench: --replay: %s: %s\n", layerops_status_text(status),
            layerops_last_error());
    bench_call_free(&call);
    return true;
  }
  good = bench_measure(&(struct bench_contender){bench_call_run, &call}, 1, &s->plan, &stats);
  if (good && stats.failed) {
    s->faults++;
    fprintf(stderr, "layerops bench: --replay: %s\n", layerops_last_error());
  } else if (good) {
    good = report_replay(s, line, target, &stats);
  }
  if (good) bench_stats_free(&stats, 1);
  bench_call_free(&call);
  return good;
}

/* ---- the end ---- */

bool bench_session_end(struct bench_session *s) {
  layerops_device_info devices[BENCH_MAX_DEVICES];
  for (int t = 0; t < s->target_count; t++) {
    devices[t] = s->targets[t].info;
    for (int i = 0; i < BENCH_SUMMARIES; i++)
      if (!bench_report_summary(&s->report, &s->targets[t].summaries[i])) return false;
  }
  return bench_report_end(&s->report, devices, (size_t)s->target_count, &s->plan);
}

void bench_session_close(struct bench_session *s) {
  for (int t = 0; t < s->target_count; t++) layerops_close(s->targets[t].ctx);
  s->target_count = 0;
  bench_report_free(&s->report);
}

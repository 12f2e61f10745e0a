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
struct race;

struct entrant {
  struct race *race;
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
  enum bench_residency residency;
  bool timed; /* by the device */
  struct bench_steps steps;
  struct bench_steps_list list; /* the same as peers take it */
  struct bench_call calls[2];   /* with plain and with packed weights */
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
static void find_kind(struct bench_target *target) {
  const char *name = strcmp(target->info.name, "reference") ? target->info.name : "cpu";
  const size_t length = strcspn(name, ":");
  memcpy(target->kind, name, length);
  target->kind[length] = 0;
}

static bool plan_peaks(const struct bench_target *target, struct bench_peaks *peaks) {
  int index;
  if (sscanf(target->info.name, "cuda:%d", &index) == 1) return bench_peaks_plan_cuda(peaks, index);
  return !strcmp(target->kind, "cpu") && bench_peaks_plan(peaks, target->threads);
}

/* What the device reaches now, in place of a device file: all of a CUDA device, of a processor what
   bench_peaks_device takes. */
static bool measure_bound(struct bench_target *target) {
  struct bench_peaks peaks;
  if (!plan_peaks(target, &peaks)) {
    fprintf(stderr, "layerops bench: --bound measure: %s: %s\n", target->info.name,
            strcmp(target->kind, "cpu") ? "only processors and CUDA devices can be measured"
                                        : "hwloc finds no topology of this machine");
    return false;
  }
  for (int i = 0; i < peaks.count; i++)
    if (!target->threads || peaks.list[i].fma || !strcmp(peaks.list[i].how, "read")) {
      if (bench_peaks_measure(&peaks.list[i])) continue;
      fprintf(stderr, "layerops bench: --bound measure: %s: out of memory, or it failed\n",
              target->info.name);
      return false;
    }
  bench_peaks_device(&peaks, target->threads, &target->bound);
  return target->has_bound = true;
}

static bool find_bound(const struct bench_session *s, struct bench_target *target) {
  char folder[4096], why[512], name[192];
  if (s->bound_file && !strcmp(s->bound_file, "measure")) return measure_bound(target);
  bench_devices_folder(folder, sizeof folder);
  snprintf(name, sizeof name, "%s", target->info.description);
  if (!target->info.is_gpu) bench_cpu_name(name, sizeof name);
  target->has_bound =
      s->bound_file
          ? bench_device_read(s->bound_file, &target->bound, why, sizeof why)
          : bench_device_find(folder, target->kind, name, &target->bound, why, sizeof why);
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

/* Opens it again in a stream that can be held, where there is one. */
static layerops_status open_gated(struct bench_target *target, layerops_open_args *args) {
  int index;
  if (sscanf(target->info.name, "cuda:%d", &index) != 1) return LAYEROPS_OK;
  target->gate = bench_gate_make(index);
  if (!target->gate) return LAYEROPS_OK;
  layerops_close(target->ctx);
  target->ctx = NULL;
  args->device = target->info.name;
  args->queue = bench_gate_stream(target->gate);
  return layerops_open_with(args, &target->ctx);
}

/* Then each call waits for its end, which must not lie behind a closed gate. */
static bool is_verbose(void) {
  const char *level = getenv("LAYEROPS_VERBOSE");
  return level && atoi(level) > 0;
}

static layerops_status open_target(struct bench_target *target, layerops_open_args *args) {
  layerops_status status = layerops_open_with(args, &target->ctx);
  if (status == LAYEROPS_OK) status = layerops_context_info(target->ctx, &target->info);
  if (status != LAYEROPS_OK) return status;
  find_kind(target);
  status = open_gated(target, args);
  return status == LAYEROPS_OK
             ? bench_clock_make(target->ctx, is_verbose() ? NULL : target->gate, &target->clock)
             : status;
}

bool bench_session_open(struct bench_session *s, const char *device, int threads) {
  if (s->target_count == BENCH_MAX_DEVICES) {
    fprintf(stderr, "layerops bench: --device: at most %d devices\n", BENCH_MAX_DEVICES);
    return false;
  }
  struct bench_target *target = &s->targets[s->target_count];
  layerops_open_args args = {.device = device, .threads = threads};
  *target = (struct bench_target){0};
  s->target_count++;
  if (open_target(target, &args) != LAYEROPS_OK) {
    fprintf(stderr, "layerops bench: --device: %s\n", layerops_last_error());
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

static bool replay(void *entrant) {
  struct entrant *e = entrant;
  return e->peer ? e->peer->replay(e->state) : bench_call_replay(e->call);
}

static double time_entrant(void *entrant) {
  struct entrant *e = entrant;
  return bench_clock_time(e->race->list.clock, replay, e);
}

/* Does the layer, with outputs that held no numbers before, and looks at them. */
static bool try_once(struct entrant *e, struct bench_latitude latitude) {
  struct race *race = e->race;
  if (e->peer && !race->timed) {
    bench_operands_poison(&race->operands);
    if (!e->peer->run(e->state, 1) || !e->peer->fetch(e->state)) return false;
    e->check = bench_operands_check_as(&race->operands, latitude);
    return true;
  }
  return bench_steps_poison(&race->steps) == LAYEROPS_OK &&
         (race->timed ? replay(e) : bench_call_run(e->call, 1)) &&
         bench_steps_check(&race->steps, latitude, &e->check) == LAYEROPS_OK;
}

/* A peer is right where a GPU's library adds parts of 16 bits up, and where it has the tanh form of
   GELU alone: so its users have it. */
static bool try_forms(struct entrant *e) {
  const int erf = bench_name_index(bench_activations, "gelu");
  struct bench_latitude latitude = {e->race->operands.row->activation, e->peer && e->race->timed};
  if (!try_once(e, latitude)) return false;
  if (!e->peer || !e->check.wrong || latitude.activation != erf) return true;
  struct bench_check check = e->check;
  latitude.activation = bench_name_index(bench_activations, "gelu_tanh");
  if (!try_once(e, latitude)) return false;
  if (e->check.wrong) e->check = check;
  return true;
}

/* False: it failed, and drops out. A wrong result is told, and measured nevertheless. */
static bool check_entrant(struct entrant *e) {
  struct race *race = e->race;
  if (!try_forms(e)) return false;
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

/* Records as many calls as the length of one asks for. */
static layerops_status record_library(struct entrant *e) {
  struct bench_steps *steps = &e->race->steps;
  layerops_status status = bench_call_record(e->call);
  if (status != LAYEROPS_OK || steps->count != BENCH_FEW_CALLS) return status;
  double seconds = time_entrant(e);
  if (seconds < 0 || seconds >= BENCH_SHORT_CALL * (double)steps->count) return status;
  steps->count = BENCH_MANY_CALLS;
  return bench_call_record(e->call);
}

/* 1: the library takes part, 0: it has not got the operation, -1: it failed. */
static int enter_library(struct race *race, bool packed) {
  struct entrant *e = &race->entrants[race->count];
  *e = (struct entrant){.race = race,
                        .name = "layerops",
                        .packed = packed,
                        .call = &race->calls[packed],
                        .pack_seconds = NAN};
  layerops_status status = bench_call_steps(&race->steps, packed, e->call);
  if (status == LAYEROPS_OK) status = race->timed ? record_library(e) : bench_call_prepare(e->call);
  if (status == LAYEROPS_ERROR_UNSUPPORTED) return 0;
  if (status != LAYEROPS_OK) return -1;
  snprintf(e->kernel, sizeof e->kernel, "%s", layerops_last_kernel(race->target->ctx));
  if (!check_entrant(e)) return -1;
  race->count++;
  if (packed) e->pack_seconds = pack_time(e);
  return 1;
}

/* Where not said: both; on CUDA devices, which keep packed weights as they are, plain ones. */
static int wanted_weights(const struct race *race) {
  int wanted = race->session->weights;
  if (race->operands.row->block) return BENCH_PLAIN; /* never packed */
  if (wanted) return wanted;
  return strcmp(race->target->kind, "cuda") ? BENCH_PLAIN | BENCH_PACKED : BENCH_PLAIN;
}

/* With the weights that are wanted. That it does not take part, or failed, is told. */
static bool enter_library_ways(struct race *race) {
  int wanted = wanted_weights(race);
  for (int packed = 0; packed < 2; packed++) {
    if (!(wanted & (packed ? BENCH_PACKED : BENCH_PLAIN))) continue;
    int entered = enter_library(race, packed);
    if (entered > 0) continue;
    race->session->faults += entered < 0;
    return skip(race->session, race->operands.row->id, race->target, "layerops",
                layerops_last_error());
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
  *e = (struct entrant){
      .race = race, .name = p->name, .packed = packed, .peer = p->peer, .pack_seconds = NAN};
  race->layer.packed = packed;
  if (race->timed && !p->peer->replay)
    return refused(race, p, "its adapter measures warm calls that do not depend on each other");
  if (!p->peer->setup(&race->layer, &e->state, e->kernel, sizeof e->kernel, why, sizeof why))
    return refused(race, p, why);
  if (check_entrant(e)) {
    race->count++;
    if (packed) e->pack_seconds = pack_time(e);
    return true;
  }
  p->peer->close(e->state);
  return skip(race->session, race->operands.row->id, race->target, p->name, "its call failed");
}

static struct bench_layer layer_of(const struct race *race) {
  const struct bench_operands *o = &race->operands;
  return (struct bench_layer){.row = o->row,
                              .pattern = o->row->block ? &o->pattern : NULL,
                              .device = race->target->info.name,
                              .dtype = o->type->name,
                              .threads = race->target->threads,
                              .x = o->x,
                              .w = o->w,
                              .bias = o->bias,
                              .y = o->y,
                              .scale_x = o->scale_x,
                              .scale_w = o->scale_w,
                              .scale_y = o->scale_y,
                              .list = race->timed ? &race->list : NULL};
}

static bool enter_peers(struct race *race) {
  struct bench_session *s = race->session;
  int wanted = s->weights ? s->weights : BENCH_PLAIN | BENCH_PACKED;
  race->layer = layer_of(race);
  if (race->timed && s->peers) {
    race->list.count = race->steps.count;
    race->list.stream = race->target->gate ? bench_gate_stream(race->target->gate) : NULL;
    race->list.time = bench_clock_time;
    race->list.steps = bench_steps_list(&race->steps);
    if (!race->list.steps) return false;
  }
  for (struct bench_peer_entry *p = s->peers; p && p->name; p++)
    for (int packed = 0; packed < 2; packed++)
      if (p->peer && p->peer->weights & wanted & (packed ? BENCH_PACKED : BENCH_PLAIN) &&
          !strcmp(p->kind, race->target->kind) && race->count < MAX_CONTENDERS &&
          !enter_peer(race, p, packed))
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
    struct bench_summary *s = &target->summaries[race->residency][kind];
    bool plain = kind == BENCH_PLAIN_SUMMARY;
    int ours = find_fastest(race, stats, false, plain),
        best = find_fastest(race, stats, true, plain);
    if (ours < 0 || best < 0) continue;
    s->device = target->info.name;
    s->dtype = race->operands.type->name;
    s->threads = target->threads;
    s->plain = plain;
    s->residency = bench_residencies[race->residency];
    s->way = bench_ways[race->session->way];
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
                           .residency = bench_residencies[race->residency],
                           .way = bench_ways[race->session->way],
                           .stats = stats};
  bench_work(row, pattern, race->operands.type->size, bench_type_y(race->operands.type)->size,
             &r.flops, &r.bytes);
  if (target->has_bound)
    r.bound = (race->residency == BENCH_COLD ? bench_bound_cold : bench_bound)(
        &target->bound, r.dtype, target->threads, r.flops, r.bytes);
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

static struct bench_contender contender_of(struct entrant *e) {
  if (e->race->timed)
    return (struct bench_contender){
        .timed = time_entrant, .state = e, .calls = e->race->steps.count};
  if (e->peer) return (struct bench_contender){.run = run_peer, .state = e};
  return (struct bench_contender){.run = bench_call_run, .state = e->call};
}

static bool hold(struct race *race) {
  const struct bench_session *s = race->session;
  struct bench_contender contenders[MAX_CONTENDERS];
  struct bench_stats stats[MAX_CONTENDERS];
  if (!race->count) return true;
  for (size_t i = 0; i < race->count; i++) contenders[i] = contender_of(&race->entrants[i]);
  if (!bench_measure(contenders, race->count, race->timed ? &s->timed_plan : &s->plan, stats))
    return false;
  bool good = true;
  for (size_t i = 0; good && i < race->count; i++) good = report_entrant(race, stats, i);
  summarise(race, stats);
  bench_stats_free(stats, race->count);
  return good;
}

/* What is larger than the cache is never warm in it. */
static bool fits_cache(const struct race *race) {
  const layerops_device_info *info = &race->target->info;
  return !info->is_gpu || info->l2 <= 0 || bench_steps_bytes(&race->operands) <= (double)info->l2;
}

static bool run_race(struct race *race) {
  struct bench_session *s = race->session;
  struct bench_clock *clock = &s->targets[race->target - s->targets].clock;
  const char *id = race->operands.row->id;
  if (race->timed && race->residency == BENCH_WARM && !fits_cache(race))
    return skip(s, id, race->target, "all", "it is not measured warm: it is larger than the L2");
  race->list.clock = clock;
  layerops_status status =
      race->timed ? bench_clock_set(clock, race->residency == BENCH_COLD) : LAYEROPS_OK;
  if (status == LAYEROPS_OK)
    status =
        bench_steps_make(race->target->ctx, &race->operands, race->residency, s->way, &race->steps);
  if (status == LAYEROPS_OK) return enter_library_ways(race) && enter_peers(race) && hold(race);
  s->faults += status != LAYEROPS_ERROR_UNSUPPORTED;
  return skip(s, id, race->target, "all",
              race->steps.why ? race->steps.why : layerops_last_error());
}

static void free_race(struct race *race) {
  for (size_t i = 0; i < race->count; i++)
    if (race->entrants[i].peer) race->entrants[i].peer->close(race->entrants[i].state);
  for (int packed = 0; packed < 2; packed++) bench_call_free(&race->calls[packed]);
  free((void *)(uintptr_t)race->list.steps);
  bench_steps_free(&race->steps);
}

bool bench_session_row(struct bench_session *s, const struct bench_operands *operands, int t) {
  const struct bench_target *target = &s->targets[t];
  const bool graphs = !strcmp(target->kind, "cuda");
  unsigned wanted = s->residencies ? s->residencies : 1u << (graphs ? BENCH_COLD : BENCH_WARM);
  bool good = true;
  for (int r = 0; good && r < BENCH_RESIDENCIES; r++) {
    if (!(wanted >> r & 1)) continue;
    struct race race = {.session = s,
                        .target = target,
                        .operands = *operands,
                        .residency = (enum bench_residency)r,
                        .timed = graphs || r == BENCH_COLD || s->way != BENCH_GRAPH};
    good = run_race(&race);
    free_race(&race);
  }
  return good;
}

/* ---- one call again and again ---- */

static double time_repeated(void *state) {
  struct bench_repeated *r = state;
  return bench_clock_time(r->clock, bench_call_replay, r->call);
}

struct bench_contender bench_session_repeat(struct bench_session *s, int t, struct bench_call *call,
                                            struct bench_repeated *repeated,
                                            const struct bench_plan **plan) {
  struct bench_target *target = &s->targets[t];
  *repeated = (struct bench_repeated){call, &target->clock};
  *plan = target->gate ? &s->timed_plan : &s->plan;
  if (!target->gate) return (struct bench_contender){.run = bench_call_run, .state = call};
  return (struct bench_contender){
      .timed = time_repeated, .state = repeated, .calls = BENCH_FEW_CALLS};
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
                           .max_rel_err = NAN,
                           .repay = NAN,
                           .ratio = NAN,
                           .residency = bench_residencies[BENCH_WARM],
                           .way = bench_ways[BENCH_GRAPH],
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
  struct bench_repeated repeated;
  const struct bench_plan *plan;
  struct bench_contender contender = bench_session_repeat(s, t, &call, &repeated, &plan);
  good = bench_measure(&contender, 1, plan, &stats);
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
    const struct bench_summary *summaries = s->targets[t].summaries[0];
    for (int i = 0; i < BENCH_RESIDENCIES * BENCH_SUMMARIES; i++)
      if (!bench_report_summary(&s->report, &summaries[i])) return false;
  }
  return bench_report_end(&s->report, devices, (size_t)s->target_count, &s->plan, &s->timed_plan);
}

void bench_session_close(struct bench_session *s) {
  for (int t = 0; t < s->target_count; t++) {
    bench_clock_free(&s->targets[t].clock);
    layerops_close(s->targets[t].ctx);
    bench_gate_free(s->targets[t].gate);
  }
  s->target_count = 0;
  bench_report_free(&s->report);
}

#include <config.h>

#include "bench/race.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const struct bench_race *race, const char *who, const char *what) {
  fprintf(stderr, "layerops bench: %s on %s: %s: %s\n", race->operands.name,
          race->target->info.name, who, what);
}

bool bench_race_skip(const struct bench_race *race, const char *who, const char *why) {
  say(race, who, why);
  return bench_report_skip(&race->session->report, race->operands.name, race->target->info.name,
                           who, why);
}

/* ---- who takes part ---- */

static bool replay(void *entrant) {
  struct bench_entrant *e = entrant;
  return e->peer ? e->peer->replay(e->state) : bench_call_replay(e->call);
}

static double time_entrant(void *entrant) {
  struct bench_entrant *e = entrant;
  return bench_clock_time(e->race->list.clock, replay, e);
}

/* Does the layer, with outputs that held no numbers before, and looks at them. */
static bool try_once(struct bench_entrant *e, struct bench_latitude latitude) {
  struct bench_race *race = e->race;
  if (e->peer && !race->timed) {
    bench_operands_poison(&race->operands);
    if (!e->peer->run(e->state, 1) || !e->peer->fetch(e->state)) return false;
    e->check = bench_operands_check_as(&race->operands, latitude);
    return true;
  }
  return bench_steps_poison(e->steps) == LAYEROPS_OK &&
         (race->timed ? replay(e) : bench_call_run(e->call, 1)) &&
         (!e->peer || !e->peer->fetch || e->peer->fetch(e->state)) &&
         bench_steps_check(e->steps, latitude, &e->check) == LAYEROPS_OK;
}

/* A peer is right where a GPU's library adds parts of 16 bits up, and where it has the tanh form of
   GELU alone: so its users have it. */
static bool try_forms(struct bench_entrant *e) {
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
static bool check_entrant(struct bench_entrant *e) {
  static const char *const outputs[] = {"y", "dx", "dw"};
  struct bench_race *race = e->race;
  if (!try_forms(e)) return false;
  if (!e->check.wrong) return true;
  char what[160];
  snprintf(what, sizeof what, "wrong: %s[%lld,%lld] is %.9g, should be %.9g",
           outputs[race->operands.product], (long long)e->check.row, (long long)e->check.col,
           e->check.got, e->check.expected);
  say(race, e->name, what);
  if (!e->peer) race->session->faults++;
  return true;
}

/* The median time of a few. */
static double pack_time(const struct bench_entrant *e) {
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
static layerops_status record_library(struct bench_entrant *e) {
  struct bench_steps *steps = e->steps;
  if (!bench_call_run(e->call, 1)) return e->call->failed;
  if (steps->count == BENCH_FEW_CALLS && !e->dense) {
    double seconds = bench_clock_time(e->race->list.clock, bench_call_issue, e->call);
    if (seconds >= 0 && seconds < BENCH_SHORT_CALL) steps->count = BENCH_MANY_CALLS;
  }
  return bench_call_record(e->call);
}

/* 1: the library takes part, 0: it has not got the operation, -1: it failed. */
static int enter(struct bench_race *race, const struct bench_entrant *entrant) {
  struct bench_entrant *e = &race->entrants[race->count];
  *e = *entrant;
  layerops_status status = bench_call_steps(e->steps, e->packed, e->call);
  if (status == LAYEROPS_OK) status = race->timed ? record_library(e) : bench_call_prepare(e->call);
  if (status == LAYEROPS_ERROR_UNSUPPORTED) return 0;
  if (status != LAYEROPS_OK) return -1;
  snprintf(e->kernel, sizeof e->kernel, "%s", layerops_last_kernel(race->target->ctx));
  if (!check_entrant(e)) return -1;
  if (!*e->kernel) /* elsewhere than on CUDA a recording chooses none */
    snprintf(e->kernel, sizeof e->kernel, "%s", layerops_last_kernel(race->target->ctx));
  race->count++;
  if (e->packed) e->pack_seconds = pack_time(e);
  return 1;
}

static int enter_library(struct bench_race *race, bool packed) {
  const struct bench_entrant e = {.race = race,
                                  .name = "layerops",
                                  .packed = packed,
                                  .call = &race->calls[packed],
                                  .steps = &race->steps,
                                  .pack_seconds = NAN};
  return enter(race, &e);
}

/* With as many calls as the sparse product. */
static bool enter_dense(struct bench_race *race) {
  const struct bench_entrant e = {.race = race,
                                  .name = "dense",
                                  .dense = true,
                                  .call = &race->wide_call,
                                  .steps = &race->wide_steps,
                                  .pack_seconds = NAN};
  if (!race->operands.row->block || !race->session->peers || race->operands.scale_w) return true;
  if (!bench_operands_widen(&race->operands, &race->wide_row, &race->wide)) return false;
  layerops_status status = bench_steps_make(race->target->ctx, &race->wide, race->residency,
                                            race->session->way, &race->wide_steps);
  race->wide_steps.count = race->steps.count;
  if (status == LAYEROPS_OK && enter(race, &e) > 0) return true;
  return bench_race_skip(race, e.name, layerops_last_error());
}

/* Where not said: both; plain ones on CUDA devices, which keep packed weights as they are, and of
 * i8 beside 16 bits, which are packed for integers alone. */
static int wanted_weights(const struct bench_race *race) {
  int wanted = race->session->weights;
  if (race->operands.row->block) return BENCH_PLAIN; /* never packed */
  if (wanted) return wanted;
  const struct bench_type *type = race->operands.type;
  if (type->size == 2 && bench_element(bench_type_w(type)) == LAYEROPS_I8) return BENCH_PLAIN;
  return strcmp(race->target->kind, "cuda") ? BENCH_PLAIN | BENCH_PACKED : BENCH_PLAIN;
}

/* With the weights that are wanted. That it does not take part, or failed, is told. */
static bool enter_library_ways(struct bench_race *race) {
  int wanted = wanted_weights(race);
  for (int packed = 0; packed < 2; packed++) {
    if (!(wanted & (packed ? BENCH_PACKED : BENCH_PLAIN))) continue;
    int entered = enter_library(race, packed);
    if (entered > 0) continue;
    race->session->faults += entered < 0;
    return bench_race_skip(race, "layerops", layerops_last_error());
  }
  return true;
}

/* A peer's refusal is told once, not at each row of a suite. */
static bool refused(struct bench_race *race, struct bench_peer_entry *p, const char *why) {
  struct bench_session *s = race->session;
  if (strcmp(p->reason, why)) say(race, p->name, why);
  snprintf(p->reason, sizeof p->reason, "%s", why);
  return bench_report_skip(&s->report, race->operands.name, race->target->info.name, p->name, why);
}

static bool enter_peer(struct bench_race *race, struct bench_peer_entry *p, bool packed) {
  struct bench_entrant *e = &race->entrants[race->count];
  char why[256];
  *e = (struct bench_entrant){.race = race,
                              .name = p->name,
                              .packed = packed,
                              .peer = p->peer,
                              .steps = &race->steps,
                              .pack_seconds = NAN};
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
  return bench_race_skip(race, p->name, "its call failed");
}

static struct bench_layer layer_of(const struct bench_race *race) {
  const struct bench_operands *o = &race->operands;
  return (struct bench_layer){.row = o->row,
                              .product = o->product,
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

static bool enter_peers(struct bench_race *race) {
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
          !strcmp(p->kind, race->target->kind) && race->count < BENCH_MAX_ENTRANTS &&
          !enter_peer(race, p, packed))
        return false;
  return true;
}

/* ---- turns ---- */

static bool run_peer(void *state, int64_t calls) {
  struct bench_entrant *e = state;
  return e->peer->run(e->state, calls);
}

static struct bench_contender contender_of(struct bench_entrant *e) {
  if (e->race->timed)
    return (struct bench_contender){
        .timed = time_entrant, .state = e, .calls = e->race->steps.count};
  if (e->peer) return (struct bench_contender){.run = run_peer, .state = e};
  return (struct bench_contender){.run = bench_call_run, .state = e->call};
}

static bool hold(struct bench_race *race) {
  const struct bench_session *s = race->session;
  struct bench_contender contenders[BENCH_MAX_ENTRANTS];
  struct bench_stats stats[BENCH_MAX_ENTRANTS];
  if (!race->count) return true;
  for (size_t i = 0; i < race->count; i++) contenders[i] = contender_of(&race->entrants[i]);
  if (!bench_measure(contenders, race->count, race->timed ? &s->timed_plan : &s->plan, stats))
    return false;
  bool good = bench_race_verdict(race, stats);
  bench_stats_free(stats, race->count);
  return good;
}

/* What is larger than the cache is never warm in it. */
static bool fits_cache(const struct bench_race *race) {
  const layerops_device_info *info = &race->target->info;
  return !info->is_gpu || info->l2 <= 0 || bench_steps_bytes(&race->operands) <= (double)info->l2;
}

static bool run_race(struct bench_race *race) {
  struct bench_session *s = race->session;
  struct bench_clock *clock = &s->targets[race->target - s->targets].clock;
  if (race->timed && race->residency == BENCH_WARM && !fits_cache(race))
    return bench_race_skip(race, "all", "it is not measured warm: it is larger than the L2");
  race->list.clock = clock;
  layerops_status status =
      race->timed ? bench_clock_set(clock, race->residency == BENCH_COLD) : LAYEROPS_OK;
  if (status == LAYEROPS_OK)
    status =
        bench_steps_make(race->target->ctx, &race->operands, race->residency, s->way, &race->steps);
  if (status == LAYEROPS_OK)
    return enter_library_ways(race) && enter_dense(race) && enter_peers(race) && hold(race);
  s->faults += status != LAYEROPS_ERROR_UNSUPPORTED;
  return bench_race_skip(race, "all", race->steps.why ? race->steps.why : layerops_last_error());
}

static void free_race(struct bench_race *race) {
  for (size_t i = 0; i < race->count; i++)
    if (race->entrants[i].peer) race->entrants[i].peer->close(race->entrants[i].state);
  for (int packed = 0; packed < 2; packed++) bench_call_free(&race->calls[packed]);
  bench_call_free(&race->wide_call);
  free((void *)(uintptr_t)race->list.steps);
  bench_steps_free(&race->wide_steps);
  bench_steps_free(&race->steps);
  if (race->wide.row) free(race->wide.w);
}

bool bench_session_row(struct bench_session *s, const struct bench_operands *operands, int t) {
  const struct bench_target *target = &s->targets[t];
  const bool graphs = !strcmp(target->kind, "cuda");
  unsigned wanted = s->residencies ? s->residencies : 1u << (graphs ? BENCH_COLD : BENCH_WARM);
  bool good = true;
  for (int r = 0; good && r < BENCH_RESIDENCIES; r++) {
    if (!(wanted >> r & 1)) continue;
    struct bench_race race = {.session = s,
                              .target = target,
                              .operands = *operands,
                              .residency = (enum bench_residency)r,
                              .timed = graphs || r == BENCH_COLD || s->way != BENCH_GRAPH};
    good = run_race(&race);
    free_race(&race);
  }
  return good;
}

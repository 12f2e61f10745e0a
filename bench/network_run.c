#include <config.h>

#include "bench/network_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/training.h"

#define MAX_PEERS 8

static const int64_t widths[] = {BENCH_INPUTS, BENCH_HIDDEN, BENCH_OUTPUTS};

static bool complain(const struct bench_target *target, const char *what) {
  fprintf(stderr, "layerops bench: network on %s: %s\n", target->info.name, what);
  return false;
}

static layerops_status make_network(struct bench_session *s, const struct bench_target *target,
                                    layerops_network **network) {
  layerops_network_args args = {.widths = widths,
                                .count = sizeof widths / sizeof *widths,
                                .activation = LAYEROPS_RELU,
                                .seed = s->seed};
  return layerops_network_create(target->ctx, &args, network);
}

/* ---- an epoch ---- */

struct ours {
  layerops_network *network;
  layerops_network_train_args args;
  layerops_buffer *x, *labels;
  double loss;
};

static bool run_ours(void *state, int64_t epochs) {
  struct ours *o = state;
  layerops_network_result result;
  for (int64_t i = 0; i < epochs; i++) {
    if (layerops_network_train(o->network, &o->args, &result)) return false;
    o->loss = result.loss;
  }
  return true;
}

static layerops_status make_ours(struct bench_session *s, const struct bench_target *target,
                                 const struct bench_samples *samples, int64_t batch,
                                 struct ours *o) {
  int64_t x_bytes = (int64_t)sizeof(float) * BENCH_SAMPLES * BENCH_INPUTS;
  layerops_status status = make_network(s, target, &o->network);
  if (!status) status = layerops_buffer_from(target->ctx, samples->x, x_bytes, &o->x);
  if (!status)
    status = layerops_buffer_from(target->ctx, samples->labels,
                                  (int64_t)sizeof(int32_t) * BENCH_SAMPLES, &o->labels);
  o->args = (layerops_network_train_args){
      .x = layerops_matrix_f32(o->x, BENCH_SAMPLES, BENCH_INPUTS),
      .labels = layerops_matrix_of(o->labels, LAYEROPS_I32, 1, BENCH_SAMPLES),
      .batch = batch,
      .optimizer = LAYEROPS_OPTIMIZER_SGD,
      .keep_order = 1,
      .lr = layerops_value(bench_training_rate(batch))};
  return status;
}

static void free_ours(struct ours *o) {
  layerops_network_destroy(o->network);
  layerops_buffer_destroy(o->x);
  layerops_buffer_destroy(o->labels);
}

static layerops_status read_view(layerops_context *ctx, layerops_matrix view, float *to) {
  layerops_copy_args copy = {.x = view,
                             .y = layerops_host_matrix(to, LAYEROPS_F32, view.rows, view.cols)};
  layerops_status status = layerops_copy(ctx, &copy);
  return status ? status : layerops_sync(ctx);
}

/* The network's initial weights, for the peers. */
static layerops_status read_parameters(const struct bench_target *target, struct ours *o,
                                       float *to) {
  static const int at[2][2] = {{BENCH_W1, BENCH_B1}, {BENCH_W2, BENCH_B2}};
  layerops_status status = LAYEROPS_OK;
  for (int i = 0; i < 2 && !status; i++) {
    layerops_matrix w, bias;
    status = layerops_network_layer(o->network, i, &w, &bias);
    if (!status) status = read_view(target->ctx, w, to + at[i][0]);
    if (!status) status = read_view(target->ctx, bias, to + at[i][1]);
  }
  return status;
}

struct epoch_race {
  struct bench_session *session;
  struct bench_target *target;
  struct bench_samples samples;
  float *initial; /* BENCH_PARAMETERS */
  int64_t batch;
  struct ours ours;
  struct bench_trainer trainers[MAX_PEERS];
  char names[MAX_PEERS + 1][96], labels[MAX_PEERS + 1][128];
  int peers;
};

static bool enter_peer(struct epoch_race *r, const struct bench_peer_entry *p) {
  struct bench_trainer *t = &r->trainers[r->peers++];
  if (!bench_trainer_make(t, p->peer->blas, &r->samples, r->batch, r->target->threads))
    return complain(r->target, "out of memory");
  memcpy(t->parameters, r->initial, sizeof(float) * BENCH_PARAMETERS);
  bench_trainer_run(t, 1);
  snprintf(r->names[r->peers], sizeof r->names[0], "%s", p->name);
  p->peer->blas->label(r->labels[r->peers], sizeof r->labels[0]);
  return true;
}

/* The first epoch of each, from the same weights. */
static bool enter_all(struct epoch_race *r) {
  layerops_status status = make_ours(r->session, r->target, &r->samples, r->batch, &r->ours);
  if (!status) status = read_parameters(r->target, &r->ours, r->initial);
  if (status || !run_ours(&r->ours, 1)) {
    r->session->faults++;
    return complain(r->target, layerops_last_error());
  }
  strcpy(r->names[0], "layerops");
  strcpy(r->labels[0], "network");
  for (struct bench_peer_entry *p = r->session->peers; p && p->name; p++)
    if (p->peer && p->peer->blas && !strcmp(r->target->info.name, "cpu") && r->peers < MAX_PEERS &&
        !enter_peer(r, p))
      return false;
  return true;
}

/* 0: there is none. */
static int fastest_peer(const struct epoch_race *r, const struct bench_stats *stats) {
  int best = 0;
  for (int p = 1; p <= r->peers; p++)
    if (!best || stats[p].median < stats[best].median) best = p;
  return best;
}

/* How far a peer's loss is from ours, for the column of errors. A step's gradient is a chain of
   BENCH_INPUTS roundings, some sqrt(BENCH_INPUTS) units of f32 of it, and so much as the square
   root of their number those of the steps add up. What is further away computes something else. */
static double compare_losses(const struct epoch_race *r, const double *losses, int i) {
  double steps = ceil((double)BENCH_SAMPLES / (double)r->batch);
  double difference = fabs(losses[i] / losses[0] - 1);
  if (difference <= sqrt(steps * BENCH_INPUTS) * 0x1p-24) return difference;
  char what[160];
  snprintf(what, sizeof what, "the first epoch's loss is %.9g, with %s %.9g", losses[0],
           r->names[i], losses[i]);
  complain(r->target, what);
  r->session->faults++;
  return difference;
}

static bool report_epoch(struct epoch_race *r, const struct bench_stats *stats,
                         const double *losses, int i) {
  char id[64];
  snprintf(id, sizeof id, "train_784_128_10_b%" PRId64, r->batch);
  /* forward, weights' gradient, and for the second layer the inputs' */
  double flops = 2.0 * BENCH_SAMPLES * BENCH_HIDDEN * (2 * BENCH_INPUTS + 3 * BENCH_OUTPUTS);
  struct bench_result result = {.id = id,
                                .op = "train_epoch",
                                .device = r->target->info.name,
                                .dtype = "f32",
                                .contender = r->names[i],
                                .kernel = r->labels[i],
                                .activation = "relu",
                                .threads = r->target->threads,
                                .m = r->batch,
                                .n = BENCH_HIDDEN,
                                .k = BENCH_INPUTS,
                                .flops = flops,
                                .max_rel_err = i ? compare_losses(r, losses, i) : NAN,
                                .repay = NAN,
                                .residency = bench_residencies[BENCH_WARM],
                                .way = bench_ways[BENCH_GRAPH],
                                .ratio = bench_ratio(&stats[0], &stats[i]),
                                .stats = &stats[i]};
  int best = fastest_peer(r, stats);
  if (!i) result.ratio = best ? bench_ratio(&stats[0], &stats[best]) : NAN;
  if (r->target->has_bound)
    result.bound = bench_bound(&r->target->bound, "f32", r->target->threads, flops, 0);
  return bench_report_row(&r->session->report, &result);
}

static bool hold_epochs(struct epoch_race *r) {
  struct bench_contender contenders[MAX_PEERS + 1] = {{.run = run_ours, .state = &r->ours}};
  struct bench_stats stats[MAX_PEERS + 1];
  struct bench_plan plan = r->session->plan;
  double losses[MAX_PEERS + 1] = {r->ours.loss};
  plan.samples = 1;                                     /* an epoch is a long sample, */
  plan.longest_seconds = fmin(plan.longest_seconds, 1); /* and of a slow one a round will do */
  for (int i = 0; i < r->peers; i++) {
    contenders[i + 1] =
        (struct bench_contender){.run = bench_trainer_run, .state = &r->trainers[i]};
    losses[i + 1] = r->trainers[i].loss;
  }
  if (!bench_measure(contenders, (size_t)r->peers + 1, &plan, stats)) return false;
  bool good = !stats[0].failed;
  if (!good) {
    r->session->faults++;
    complain(r->target, layerops_last_error());
  }
  for (int i = 0; good && i <= r->peers; i++) good = report_epoch(r, stats, losses, i);
  bench_stats_free(stats, (size_t)r->peers + 1);
  return good;
}

bool bench_session_train(struct bench_session *s, int64_t batch, int t) {
  struct epoch_race race = {.session = s, .target = &s->targets[t], .batch = batch};
  race.initial = malloc(sizeof(float) * BENCH_PARAMETERS);
  bool good = race.initial && bench_samples_make(s->seed, &race.samples);
  if (!good) complain(race.target, "out of memory");
  good = good && enter_all(&race) && hold_epochs(&race);
  for (int i = 0; i < race.peers; i++) bench_trainer_free(&race.trainers[i]);
  free_ours(&race.ours);
  free(race.initial);
  bench_samples_free(&race.samples);
  return good;
}

/* ---- latency ---- */

static layerops_status time_calls(layerops_context *ctx, layerops_network *network,
                                  const layerops_matrix *x, const layerops_matrix *y, int64_t calls,
                                  double *seconds) {
  layerops_status status = LAYEROPS_OK;
  for (int64_t i = -calls / 100 - 1; i < calls && !status; i++) { /* the first warm up */
    double start = bench_now();
    status = layerops_network_predict(network, x, y);
    if (!status) status = layerops_sync(ctx);
    if (i >= 0) seconds[i] = bench_now() - start;
  }
  return status;
}

static bool measure_latency(struct bench_session *s, struct bench_target *target, int64_t calls,
                            double *seconds) {
  layerops_network *network = NULL;
  layerops_buffer *x = NULL, *y = NULL;
  float sample[BENCH_INPUTS];
  bench_normal(bench_types, sample, BENCH_INPUTS, 1, s->seed, 0);
  layerops_status status = make_network(s, target, &network);
  if (!status) status = layerops_buffer_from(target->ctx, sample, sizeof sample, &x);
  if (!status) status = layerops_buffer_create(target->ctx, sizeof(float) * BENCH_OUTPUTS, &y);
  if (!status) {
    layerops_matrix x_view = layerops_matrix_f32(x, 1, BENCH_INPUTS);
    layerops_matrix y_view = layerops_matrix_f32(y, 1, BENCH_OUTPUTS);
    status = time_calls(target->ctx, network, &x_view, &y_view, calls, seconds);
  }
  layerops_network_destroy(network);
  layerops_buffer_destroy(x);
  layerops_buffer_destroy(y);
  if (!status) return true;
  s->faults++;
  return complain(target, layerops_last_error());
}

bool bench_session_latency(struct bench_session *s, int64_t calls, int t) {
  struct bench_target *target = &s->targets[t];
  double *seconds =
      (uint64_t)calls < SIZE_MAX / sizeof *seconds ? malloc((size_t)calls * sizeof *seconds) : NULL;
  if (!seconds) return complain(target, "out of memory");
  bool good = measure_latency(s, target, calls, seconds);
  if (good) {
    bench_sort(seconds, (size_t)calls);
    struct bench_latency latency = {.id = "predict_784_128_10_b1",
                                    .device = target->info.name,
                                    .threads = target->threads,
                                    .calls = calls,
                                    .p50 = bench_percentile(seconds, (size_t)calls, 0.5),
                                    .p90 = bench_percentile(seconds, (size_t)calls, 0.9),
                                    .p99 = bench_percentile(seconds, (size_t)calls, 0.99),
                                    .max = seconds[calls - 1]};
    good = bench_report_latency(&s->report, &latency);
  }
  free(seconds);
  return good;
}

/* Tuning a product: the plans that are not refused are timed on copies of the call's operands, the
 * fastest is verified, and kept.
 *
 * A time is that of one launch with operands that no cache holds, as in a network whose weights
 * are larger than the second-level cache: a graph of launches, each with copies of its own, behind
 * a reading of twice that cache. (Writing would leave it full of lines that must go to memory
 * before another can come.) */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/plan.h"
#include "common/cache_file.h"
#include "common/call.h"

enum { CANDIDATES = 40, LAUNCHES = 20, FINALISTS = 4, SAMPLES = 12, FIRST_ROUND = 3, ROUNDS = 7 };

static const double dearest = 3;        /* times the rule's estimate of its best: not measured */
static const double hopeless = 1.25;    /* times the best after one sample: no more samples */
static const double close_enough = 1.1; /* times the best: measured once more, in turns */
static const double enough = 0.95;      /* of the bound: no other needs a try */
static const double clear_gain = 0.98;  /* of the rule's choice: below it, noise chooses */

struct lo_cuda_tuning {
  layerops_tune_args args;
  double end; /* of the time, by now() */
  double clock, bandwidth;
  int64_t l2;
  cudaEvent_t start, stop;
  cudaStream_t capture;
  lo_cu_column_sum flush; /* of 2 l2 bytes */
  char unsaved[LO_CACHE_WHY];
};

typedef struct candidate {
  lo_cuda_plan plan;
  cudaGraphExec_t graph;
  double samples[SAMPLES]; /* seconds of one launch */
  int count;
  double seconds; /* their median; 0: out */
} candidate;

/* A product on trial. */
typedef struct trial {
  layerops_context *ctx;
  struct lo_cuda_tuning *tuning;
  const lo_product *p;
  lo_product sets[LAUNCHES]; /* the same with copied operands and outputs in scratch memory */
  int launches;
  char *memory, *parts; /* all scratch memory; of it what plans ask for */
  double bound;         /* seconds, of the bytes */
  candidate list[CANDIDATES];
  int count;
  candidate *order[CANDIDATES]; /* by time */
  int ordered;
  const candidate *best;
  char reason[256]; /* why it is left untuned */
} trial;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Scratch memory */
static uintptr_t round_up(uintptr_t at) {
  return (at + 255) / 256 * 256;
}

/* The view at `at`, aligned as it is; elements that rows skip are skipped there too. */
static layerops_matrix place(const layerops_matrix *m, uintptr_t *at) {
  layerops_matrix out = *m;
  if (!lo_present(m)) return out;
  int64_t last = (m->batch - 1) * m->batch_stride + (m->rows - 1) * m->stride + m->cols;
  uintptr_t start = round_up(*at) + (uintptr_t)lo_address(m) % 256;
  out.buffer = NULL;
  out.offset = 0;
  out.host = (void *)start; /* an address without a buffer of its own */
  *at = start + (uintptr_t)(last * (int64_t)layerops_type_size(m->type));
  return out;
}

/* Gives all scratch memory its place behind `at`, and returns its end. */
static uintptr_t lay_out(trial *t, uintptr_t at) {
  int64_t most = 0;
  for (int i = 0; i < t->count; i++)
    if (t->list[i].plan.bytes > most) most = t->list[i].plan.bytes;
  t->parts = (char *)at;
  at = round_up(at + (uintptr_t)most);
  lo_product first = *t->p;
  first.c = place(&t->p->c, &at);
  first.row_sum = place(&t->p->row_sum, &at);
  first.epilogue.preact = place(&t->p->epilogue.preact, &at);
  for (int i = 0; i < t->launches; i++) {
    t->sets[i] = first;
    if (!i) continue; /* reads the call's own */
    t->sets[i].a = place(&t->p->a, &at);
    t->sets[i].b = place(&t->p->b, &at);
  }
  return round_up(at);
}

static layerops_status copy(layerops_context *ctx, const layerops_matrix *from,
                            const layerops_matrix *to) {
  layerops_copy_args args = {.x = *from, .y = *to};
  args.x.batch = args.y.batch = 1;
  for (int64_t i = 0; i < from->batch; i++) {
    LO_TRY(lo_cuda_copy(ctx, &args));
    args.x.offset += from->batch_stride;
    args.y.offset += to->batch_stride;
  }
  return LAYEROPS_OK;
}

/* C and the sums too where beta wants the old ones. */
static layerops_status fill(trial *t) {
  const lo_product *p = t->p;
  const layerops_scalar *beta = &p->epilogue.beta;
  bool reads = beta->kind == 2 || beta->value != 0;
  if (reads) LO_TRY(copy(t->ctx, &p->c, &t->sets[0].c));
  if (reads && lo_present(&p->row_sum)) LO_TRY(copy(t->ctx, &p->row_sum, &t->sets[0].row_sum));
  for (int i = 1; i < t->launches; i++) {
    LO_TRY(copy(t->ctx, &p->a, &t->sets[i].a));
    LO_TRY(copy(t->ctx, &p->b, &t->sets[i].b));
  }
  return LAYEROPS_OK;
}

static double bytes_of(const layerops_matrix *m) {
  return (double)m->batch * (double)m->rows * (double)m->cols * (double)layerops_type_size(m->type);
}

/* As many launches a graph as take 0.3 ms, with copies of four times the cache at most. */
static int choose_launches(const trial *t) {
  const lo_cuda_plan *first = &t->list[0].plan;
  double clocks = lo_cuda_cost(lo_cuda(t->ctx), t->p, first->kernel, first->split, first->slice);
  double copies = 4 * (double)t->tuning->l2 / (bytes_of(&t->p->a) + bytes_of(&t->p->b));
  double wanted = fmin(3e-4 * t->tuning->clock / clocks, copies);
  return wanted < 1 ? 1 : wanted > LAUNCHES ? LAUNCHES : (int)wanted;
}

static layerops_status allocate(trial *t) {
  t->launches = choose_launches(t);
  size_t bytes = (size_t)lay_out(t, 0);
  LO_TRY(lo_cuda_check(t->ctx, cudaMalloc((void **)&t->memory, bytes), "tune"));
  lay_out(t, (uintptr_t)t->memory);
  return fill(t);
}

/* ---- Times */
static layerops_status launch_all(trial *t, const lo_cuda_plan *plan) {
  for (int i = 0; i < t->launches; i++)
    LO_TRY(lo_cuda_run_product(t->ctx, &t->sets[i], plan, t->parts, "tune"));
  return LAYEROPS_OK;
}

static layerops_status capture(trial *t, candidate *c, cudaGraph_t *graph) {
  lo_cuda_state *s = lo_cuda(t->ctx);
  struct CUstream_st *stream = s->stream;
  LO_TRY(lo_cuda_check(
      t->ctx, cudaStreamBeginCapture(t->tuning->capture, cudaStreamCaptureModeRelaxed), "tune"));
  s->stream = t->tuning->capture;
  layerops_status status = launch_all(t, &c->plan);
  s->stream = stream;
  layerops_status ended =
      lo_cuda_check(t->ctx, cudaStreamEndCapture(t->tuning->capture, graph), "tune");
  return status == LAYEROPS_OK ? ended : status;
}

/* Runs once, which loads the kernel, then makes the graph. */
static layerops_status prepare(trial *t, candidate *c) {
  cudaGraph_t graph = NULL;
  LO_TRY(lo_cuda_run_product(t->ctx, &t->sets[0], &c->plan, t->parts, "tune"));
  layerops_status status = capture(t, c, &graph);
  if (status == LAYEROPS_OK)
    status = lo_cuda_check(t->ctx, cudaGraphInstantiate(&c->graph, graph, 0), "tune");
  if (graph) cudaGraphDestroy(graph);
  LO_TRY(status);
  return lo_cuda_check(t->ctx, cudaGraphUpload(c->graph, lo_cuda(t->ctx)->stream), "tune");
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static layerops_status sample(trial *t, candidate *c) {
  const struct lo_cuda_tuning *u = t->tuning;
  struct CUstream_st *stream = lo_cuda(t->ctx)->stream;
  float ms = 0;
  int error = lo_cu_run_column_sum(&u->flush, stream);
  if (!error) error = cudaEventRecord(u->start, stream);
  if (!error) error = cudaGraphLaunch(c->graph, stream);
  if (!error) error = cudaEventRecord(u->stop, stream);
  if (!error) error = cudaEventSynchronize(u->stop);
  if (!error) error = cudaEventElapsedTime(&ms, u->start, u->stop);
  LO_TRY(lo_cuda_check(t->ctx, error, "tune"));
  if (c->count == SAMPLES) return LAYEROPS_OK;
  double sorted[SAMPLES];
  c->samples[c->count++] = 1e-3 * (double)ms / t->launches;
  memcpy(sorted, c->samples, sizeof sorted);
  qsort(sorted, (size_t)c->count, sizeof *sorted, compare_doubles);
  c->seconds = 0.5 * (sorted[c->count / 2] + sorted[(c->count - 1) / 2]);
  return LAYEROPS_OK;
}

/* ---- The race */
static bool over(trial *t) {
  if (now() < t->tuning->end) return false;
  snprintf(t->reason, sizeof t->reason, "the time is over");
  return true;
}

/* A kernel that cannot be launched is out; without the device nothing goes on. */
static layerops_status drop(trial *t, candidate *c, layerops_status status) {
  c->seconds = 0;
  if (atomic_load(&t->ctx->device->lost)) return status;
  lo_log(t->ctx, 1, "layerops: tune: dropped %s in %d parts: %s", c->plan.kernel->name,
         c->plan.split, layerops_last_error());
  return LAYEROPS_OK;
}

static layerops_status try_once(trial *t, candidate *c, double best) {
  layerops_status status = prepare(t, c);
  for (int i = 0; i < FIRST_ROUND && status == LAYEROPS_OK; i++) {
    status = sample(t, c);
    if (best > 0 && c->seconds > hopeless * best) break;
    if (c->seconds * t->launches > 2e-3) break; /* long enough for one to tell */
  }
  return status == LAYEROPS_OK ? status : drop(t, c, status);
}

static bool worth_a_try(const trial *t, const candidate *c, double best) {
  double clock = t->tuning->clock;
  return !(best > 0) ||
         lo_cuda_unit_seconds(lo_cuda(t->ctx), t->p, c->plan.kernel->unit, clock) < best;
}

/* Each by itself, the cheapest by the rule first. */
static layerops_status first_round(trial *t) {
  const lo_cuda_state *s = lo_cuda(t->ctx);
  double best = 0, cheapest = 0;
  for (int i = 0; i < t->count; i++) {
    candidate *c = &t->list[i];
    double cost = lo_cuda_cost(s, t->p, c->plan.kernel, c->plan.split, c->plan.slice);
    if (!i) cheapest = cost;
    if (cost > dearest * cheapest) break;
    if (!worth_a_try(t, c, best)) continue;
    if (over(t)) return LAYEROPS_OK;
    LO_TRY(try_once(t, c, best));
    if (!(c->seconds > 0)) continue;
    if (!(best > 0) || c->seconds < best) best = c->seconds;
    double unit = lo_cuda_unit_seconds(s, t->p, c->plan.kernel->unit, t->tuning->clock);
    if (best * enough <= fmax(t->bound, unit)) break;
  }
  return LAYEROPS_OK;
}

static int compare_candidates(const void *a, const void *b) {
  const candidate *x = *(candidate *const *)a, *y = *(candidate *const *)b;
  return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* Those with a time, the fastest first; the rule's choice before those that barely beat it. */
static void rank(trial *t) {
  t->ordered = 0;
  for (int i = 0; i < t->count; i++)
    if (t->list[i].seconds > 0) t->order[t->ordered++] = &t->list[i];
  qsort(t->order, (size_t)t->ordered, sizeof *t->order, compare_candidates);
  candidate *rule = &t->list[0];
  if (!t->ordered || !(rule->seconds > 0) || t->order[0]->seconds < clear_gain * rule->seconds)
    return;
  int at = 0;
  while (t->order[at] != rule) at++;
  memmove(t->order + 1, t->order, (size_t)at * sizeof *t->order);
  t->order[0] = rule;
}

/* The best few and the rule's choice, in turns, so that what disturbs one disturbs all. */
static layerops_status second_round(trial *t) {
  candidate *list[FINALISTS + 1];
  int count = 0;
  rank(t);
  if (t->ordered < 2) return LAYEROPS_OK;
  double limit = close_enough * t->order[t->order[0] == &t->list[0]]->seconds;
  for (int i = 0; i < t->ordered; i++)
    if (t->order[i] == &t->list[0] || (count < FINALISTS && t->order[i]->seconds <= limit))
      list[count++] = t->order[i];
  int rounds = t->order[0]->seconds * t->launches > 2e-3 ? 2 : ROUNDS;
  for (int r = 0; r < rounds; r++)
    for (int i = 0; i < count; i++) LO_TRY(sample(t, list[i]));
  rank(t);
  return LAYEROPS_OK;
}

/* The first in order that computes what it must. */
static layerops_status elect(trial *t) {
  char why[256] = "";
  for (int i = 0; i < t->ordered; i++) {
    const candidate *c = t->order[i];
    lo_cuda_verdict verdict = LO_VERDICT_NONE;
    LO_TRY(lo_cuda_verify(t->ctx, t->p, &c->plan, t->parts, &verdict, why, sizeof why));
    if (verdict == LO_VERDICT_RIGHT) t->best = c;
    if (verdict == LO_VERDICT_NONE)
      snprintf(t->reason, sizeof t->reason, "its operands are not finite");
    if (verdict != LO_VERDICT_WRONG) return LAYEROPS_OK;
    lo_log(t->ctx, 1, "layerops: tune: dropped %s in %d parts: %s", c->plan.kernel->name,
           c->plan.split, why);
  }
  snprintf(t->reason, sizeof t->reason, "no kernel was right: %.200s", why);
  return LAYEROPS_OK;
}

static layerops_status race(trial *t) {
  if (over(t)) return LAYEROPS_OK;
  LO_TRY(allocate(t));
  LO_TRY(first_round(t));
  if (*t->reason) return LAYEROPS_OK;
  LO_TRY(second_round(t));
  return elect(t);
}

/* ---- What comes of it */
static lo_tuned_choice choice_of(const candidate *c) {
  lo_tuned_choice choice = {.parts = c->plan.split, .ns = llround(1e9 * c->seconds)};
  snprintf(choice.kernel, sizeof choice.kernel, "%s", c->plan.kernel->name);
  return choice;
}

static void log_result(layerops_context *ctx, const lo_tuned_row *row, const char *reason) {
  const lo_tuned_key *k = &row->key;
  lo_log(ctx, 1,
         "layerops: tune device=%s m=%lld n=%lld k=%lld batch=%lld type=%s kernel=%s parts=%d "
         "us=%.2f rule=%s rule_parts=%d rule_us=%.2f%s%s",
         ctx->device->name, (long long)k->m, (long long)k->n, (long long)k->k, (long long)k->batch,
         layerops_type_name(k->type), row->best.kernel, (int)row->best.parts,
         1e-3 * (double)row->best.ns, row->rule.kernel, (int)row->rule.parts,
         1e-3 * (double)row->rule.ns, reason ? " left=" : "", reason ? reason : "");
}

/* Left untuned, it has a row without kernels, so that it is not tried, nor told of, again. */
static layerops_status keep(trial *t, const lo_tuned_key *key) {
  struct lo_cuda_tuning *u = t->tuning;
  lo_cuda_state *s = lo_cuda(t->ctx);
  lo_tuned_row row = {.key = *key, .fresh = true};
  const char *reason = t->best ? NULL : t->reason;
  if (t->best) {
    row.best = choice_of(t->best);
    row.rule = choice_of(&t->list[0]);
  }
  if (!lo_tuned_put(&s->tuned, &row))
    return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "tune: no memory");
  char why[LO_CACHE_WHY] = "";
  if (t->best && !lo_tuned_save(&s->tuned, &t->ctx->args, why) && *why) strcpy(u->unsaved, why);
  lo_cuda_plans_forget(t->ctx);
  log_result(t->ctx, &row, reason);
  if (u->args.told) lo_tuned_tell(&row, reason, u->args.told, u->args.user);
  return LAYEROPS_OK;
}

static void find_candidates(trial *t) {
  lo_cuda_plan *plans = malloc(CANDIDATES * sizeof *plans);
  if (!plans) return;
  t->count = lo_cuda_plan_candidates(t->ctx, t->p, plans, CANDIDATES);
  for (int i = 0; i < t->count; i++) t->list[i].plan = plans[i];
  free(plans);
}

static layerops_status tune(trial *t, const lo_tuned_key *key) {
  t->bound = (bytes_of(&t->p->a) + bytes_of(&t->p->b) + bytes_of(&t->p->c)) / t->tuning->bandwidth;
  find_candidates(t);
  if (!t->count) return LAYEROPS_OK; /* the call itself will say why */
  layerops_status status = race(t);
  if (status == LAYEROPS_ERROR_OUT_OF_MEMORY) {
    snprintf(t->reason, sizeof t->reason, "no scratch memory");
    status = LAYEROPS_OK;
  }
  for (int i = 0; i < t->count; i++)
    if (t->list[i].graph) cudaGraphExecDestroy(t->list[i].graph);
  cudaFree(t->memory);
  cudaGetLastError();
  LO_TRY(status);
  return keep(t, key);
}

/* Whether there is nothing to do: found here already, or read and still possible. */
static bool is_tuned(layerops_context *ctx, const lo_product *p, const lo_tuned_key *key) {
  const lo_cuda_state *s = lo_cuda(ctx);
  const lo_tuned_row *row = lo_tuned_find(&s->tuned, key);
  lo_cuda_plan plan;
  if (!row || row->fresh) return row != NULL;
  return !s->tuning->args.again &&
         !lo_cuda_plan_named(ctx, p, row->best.kernel, row->best.parts, &plan);
}

static bool capturing(layerops_context *ctx) {
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(lo_cuda(ctx)->stream, &status) != cudaSuccess) cudaGetLastError();
  return status != cudaStreamCaptureStatusNone;
}

layerops_status lo_cuda_tune_product(layerops_context *ctx, const lo_product *p) {
  struct lo_cuda_tuning *tuning = lo_cuda(ctx)->tuning;
  if (!tuning || !p->m || !p->n || !p->k || !p->batch || !lo_present(&p->c)) return LAYEROPS_OK;
  lo_tuned_key key = lo_cuda_plan_key(p);
  if (is_tuned(ctx, p, &key) || capturing(ctx)) return LAYEROPS_OK;
  trial *t = calloc(1, sizeof *t);
  if (!t) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "tune: no memory");
  t->ctx = ctx;
  t->tuning = tuning;
  t->p = p;
  const char *kernel = ctx->kernel;
  int verbose = ctx->verbose;
  char error[1024]; /* what fails here without consequence leaves no trace */
  snprintf(error, sizeof error, "%s", layerops_last_error());
  if (verbose > 1) ctx->verbose = 1; /* refusals are told by the call itself */
  layerops_status status = tune(t, &key);
  if (status == LAYEROPS_OK) lo_fail(LAYEROPS_OK, "%s", error);
  ctx->verbose = verbose;
  ctx->kernel = kernel;
  free(t);
  return status;
}

/* ---- On and off */
static void find_rates(layerops_context *ctx, struct lo_cuda_tuning *u) {
  const lo_cuda_driver *driver = lo_cuda_driver_get();
  int clock = 0, memory = 0, width = 0, l2 = 0;
  CUdevice device;
  if (driver->cuDeviceGet(&device, ctx->device->index) == CUDA_SUCCESS) {
    driver->cuDeviceGetAttribute(&clock, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device);
    driver->cuDeviceGetAttribute(&memory, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device);
    driver->cuDeviceGetAttribute(&width, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device);
    driver->cuDeviceGetAttribute(&l2, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device);
  }
  /* Where the driver does not say: so fast that no bound ends a trial early. */
  u->clock = clock ? 1e3 * clock : 1e10;
  u->bandwidth = memory && width ? 2 * 1e3 * (double)memory * width / 8 : 1e14;
  u->l2 = l2 ? l2 : 32 << 20;
}

/* Sums of columns read all and write little. */
static int make_flush(lo_cu_column_sum *f, int64_t bytes, struct CUstream_st *stream) {
  enum { COLS = 4096, PARTS = 64 };
  int64_t rows = bytes / (4 * COLS);
  size_t all = sizeof(float) * COLS * (size_t)(rows + PARTS + 1);
  float *memory = NULL;
  int error = cudaMalloc((void **)&memory, all);
  if (error) return error;
  f->x = (lo_cu_view){memory, rows, COLS, COLS, 0, LAYEROPS_F32, 1};
  f->parts = memory + rows * COLS;
  f->y = (lo_cu_view){f->parts + PARTS * COLS, 1, COLS, COLS, 0, LAYEROPS_F32, 1};
  f->parts_count = PARTS;
  f->rows_each = lo_ceil_div(rows, PARTS);
  return cudaMemsetAsync(memory, 0, all, stream);
}

layerops_status lo_cuda_tune_begin(layerops_context *ctx, const layerops_tune_args *args) {
  lo_cuda_state *s = lo_cuda(ctx);
  if (*s->forced)
    return lo_fail(LAYEROPS_ERROR_UNSUPPORTED, "tune_begin: LAYEROPS_CUDA_KERNEL is \"%s\"",
                   s->forced);
  struct lo_cuda_tuning *u = calloc(1, sizeof *u);
  if (!u) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "tune_begin: no memory");
  lo_tuned_settle(&s->tuned);
  u->args = *args;
  u->end = now() + args->seconds;
  find_rates(ctx, u);
  s->tuning = u;
  int error = cudaStreamCreateWithFlags(&u->capture, cudaStreamNonBlocking);
  if (!error) error = cudaEventCreate(&u->start);
  if (!error) error = cudaEventCreate(&u->stop);
  if (!error) error = make_flush(&u->flush, 2 * u->l2, s->stream);
  layerops_status status = lo_cuda_check(ctx, error, "tune_begin");
  if (status != LAYEROPS_OK) lo_cuda_tune_end(ctx);
  return status;
}

layerops_status lo_cuda_tune_end(layerops_context *ctx) {
  lo_cuda_state *s = lo_cuda(ctx);
  struct lo_cuda_tuning *u = s->tuning;
  if (!u) return LAYEROPS_OK;
  s->tuning = NULL;
  cudaFree(u->flush.x.p);
  if (u->stop) cudaEventDestroy(u->stop);
  if (u->start) cudaEventDestroy(u->start);
  if (u->capture) cudaStreamDestroy(u->capture);
  cudaGetLastError();
  layerops_status status = LAYEROPS_OK;
  if (*u->unsaved)
    status = lo_fail(LAYEROPS_ERROR_IO, "tune_end: what was found is not kept: %s", u->unsaved);
  free(u);
  return status;
}

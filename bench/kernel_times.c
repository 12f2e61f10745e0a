/* Times of single kernels for products, for the rule that chooses among them
 * (backends/cuda/cost.c): bench/fit_cost.py fits the rule's numbers to them. On the first CUDA
 * device, cold, in a graph.
 *
 *   kernel_times SUITE SECONDS SEED TYPE...
 *
 * The rows of a suite, each size times 0.7 to 1.4, half of them made odd, where SEED is not 0. A
 * line for each way to run a row that the rule does not think hopeless:
 * m n k type kernel parts slice seconds clocks_by_the_rule.
 * Before them, a line for each kernel: kernel unit bm bn bk blocks align few cluster
 * meets rate wait fixed. */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/plan.h"
#include "bench/clock.h"
#include "bench/operands.h"
#include "bench/steps.h"
#include "bench/suite.h"
#include "bench/timing.h"
#include "bench/vary.h"

enum { PLANS = 1000, LAUNCHES = 20, SAMPLES = 3, PARTS = 4, RANDOM = 1 << 22, SCALES = 1 << 17 };
static const double hopeless = 4;  /* times the rule's best, or its kernel's best */
static const double slow = 1.6;    /* times the best time: no more samples */
static const double enough = 2e-4; /* seconds of a graph */
static const double guessed_clock = 1.7e9;
#define POOL ((int64_t)1 << 27) /* bytes of copies of operands */

static layerops_context *ctx;
static struct bench_gate *gate;
static struct bench_clock device_clock;
static cudaStream_t capture;
static char *scales; /* on the device, of 8-bit integers: floats as they occur */
static double end;

typedef struct trial {
  const struct bench_row *row;
  const struct bench_type *type;
  lo_product sets[LAUNCHES];
  int launches;
  char *random, *pool, *scratch;
  int64_t scratch_bytes;
  cudaGraphExec_t graph;
} trial;

static bool fail(const char *what) {
  fprintf(stderr, "kernel_times: %s: %s\n", what, layerops_last_error());
  return false;
}

/* ---- Operands */
static layerops_matrix place(const struct bench_type *type, int64_t rows, int64_t cols, char *pool,
                             int64_t *at) {
  layerops_matrix m = layerops_host_matrix(pool + *at, bench_element(type), rows, cols);
  *at = (*at + rows * cols * (int64_t)type->size + 255) / 256 * 256;
  return m;
}

/* The set that begins at *at. */
static lo_product set_at(const trial *t, int64_t *at) {
  const struct bench_row *r = t->row;
  const struct bench_type *f32 = bench_type_find("f32");
  int64_t none[3] = {0};
  layerops_linear_forward_args a = {.alpha = layerops_value(1), .activation = r->activation};
  a.x = place(t->type, r->m, r->k, t->pool, at);
  a.w = place(bench_type_w(t->type), r->n, r->k, t->pool, at);
  a.bias = place(bench_type_bias(t->type), 1, r->n, t->pool, at);
  a.y = place(bench_type_y(t->type), r->m, r->n, t->pool, at);
  if (bench_element(t->type) == LAYEROPS_I8 || bench_element(t->type) == LAYEROPS_U8) {
    a.scale_x = place(f32, 1, 1, scales, &none[0]);
    a.scale_w = place(f32, 1, r->n < SCALES ? r->n : 1, scales, &none[1]);
    a.scale_y = place(f32, 1, 1, scales, &none[2]);
  }
  if (t->type->truncation > 0) a.flags = LAYEROPS_ALLOW_TF32;
  if (t->type->fast) a.flags |= LAYEROPS_FAST_ACCUM;
  lo_product p;
  lo_product_linear(&a, &p);
  return p;
}

/* Random elements, the same again and again. */
static bool fill(const trial *t, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += RANDOM) {
    size_t each = (size_t)(bytes - at < RANDOM ? bytes - at : RANDOM);
    if (cudaMemcpy(t->pool + at, t->random, each, cudaMemcpyDeviceToDevice)) return false;
  }
  return true;
}

static char *make_random(const struct bench_type *type) {
  char *host = malloc(RANDOM), *device = NULL;
  if (!host || cudaMalloc((void **)&device, RANDOM)) return NULL;
  bench_normal(type, host, RANDOM / (int64_t)type->size, 1, 1, 0);
  cudaMemcpy(device, host, RANDOM, cudaMemcpyHostToDevice);
  free(host);
  return device;
}

static bool make_sets(trial *t, double seconds, int64_t scratch) {
  int64_t each = 0;
  t->sets[0] = set_at(t, &each);
  double wanted = fmin(enough / seconds, (double)POOL / (double)each);
  t->launches = wanted < 1 ? 1 : wanted > LAUNCHES ? LAUNCHES : (int)wanted;
  t->scratch_bytes = scratch + 256;
  if (cudaMalloc((void **)&t->pool, (size_t)(each * t->launches)) ||
      cudaMalloc((void **)&t->scratch, (size_t)t->scratch_bytes))
    return false;
  int64_t at = 0;
  for (int i = 0; i < t->launches; i++) t->sets[i] = set_at(t, &at);
  return fill(t, at);
}

/* ---- Times */
static bool capture_all(trial *t, const lo_cuda_plan *plan, cudaGraph_t *graph) {
  if (cudaStreamBeginCapture(capture, cudaStreamCaptureModeRelaxed)) return false;
  struct CUstream_st *stream = lo_cuda(ctx)->stream;
  bool good = true;
  lo_cuda(ctx)->stream = capture;
  for (int i = 0; i < t->launches && good; i++)
    good = lo_cuda_run_product(ctx, &t->sets[i], plan, t->scratch, "kernel_times") == LAYEROPS_OK;
  lo_cuda(ctx)->stream = stream;
  return cudaStreamEndCapture(capture, graph) == cudaSuccess && good;
}

static bool enqueue(void *of) {
  return cudaGraphLaunch(((trial *)of)->graph, lo_cuda(ctx)->stream) == cudaSuccess;
}

/* Seconds of one launch; negative: it failed. */
static double measure(trial *t, const lo_cuda_plan *plan, double best) {
  cudaGraph_t graph = NULL;
  double samples[SAMPLES], first = -1;
  int count = 0;
  bool good =
      lo_cuda_run_product(ctx, &t->sets[0], plan, t->scratch, "kernel_times") == LAYEROPS_OK &&
      capture_all(t, plan, &graph) && !cudaGraphInstantiate(&t->graph, graph, 0) &&
      !cudaGraphUpload(t->graph, lo_cuda(ctx)->stream);
  if (graph) cudaGraphDestroy(graph);
  if (!good) return -1;
  while (count < SAMPLES && !(best > 0 && count && first > slow * best)) {
    double seconds = bench_clock_time(&device_clock, enqueue, t);
    if (seconds < 0) break;
    samples[count++] = first = seconds / t->launches;
  }
  cudaGraphExecDestroy(t->graph);
  bench_sort(samples, (size_t)count);
  return count ? bench_percentile(samples, (size_t)count, 0.5) : -1;
}

/* ---- Rows */

/* The few cheapest numbers of parts of each kernel, unless all are hopeless. `plans` are in order.
 */
static bool worth(const lo_product *p, const lo_cuda_plan *plans, int i) {
  const lo_cuda_plan *first = &plans[i];
  int cheaper = 0;
  for (int j = i - 1; j >= 0; j--)
    if (plans[j].kernel == plans[i].kernel) {
      first = &plans[j];
      cheaper++;
    }
  double least = lo_cuda_cost(lo_cuda(ctx), p, first->kernel, first->split, first->slice);
  double cost = lo_cuda_cost(lo_cuda(ctx), p, plans[i].kernel, plans[i].split, plans[i].slice);
  double best = lo_cuda_cost(lo_cuda(ctx), p, plans[0].kernel, plans[0].split, plans[0].slice);
  return cheaper < PARTS && least < hopeless * best && cost < 2 * least;
}

static bool run_row(trial *t, lo_cuda_plan *plans) {
  int64_t at = 0, scratch = 0;
  lo_product p = set_at(t, &at);
  int count = lo_cuda_plan_candidates(ctx, &p, plans, PLANS);
  if (!count) return fail(t->row->id);
  for (int i = 0; i < count; i++)
    if (plans[i].bytes > scratch && worth(&p, plans, i)) scratch = plans[i].bytes;
  double least = lo_cuda_cost(lo_cuda(ctx), &p, plans[0].kernel, plans[0].split, plans[0].slice);
  if (!make_sets(t, least / guessed_clock, scratch)) return fail("no memory");
  double best = 0;
  for (int i = 0; i < count && bench_now() < end; i++) {
    if (!worth(&p, plans, i)) continue;
    double seconds = measure(t, &plans[i], best);
    if (seconds < 0) return fail(plans[i].kernel->name);
    if (!(best > 0) || seconds < best) best = seconds;
    printf("%lld %lld %lld %s %s %d %lld %.4g %.0f %d\n", (long long)p.m, (long long)p.n,
           (long long)p.k, t->type->name, plans[i].kernel->name, plans[i].split,
           (long long)plans[i].slice, seconds,
           lo_cuda_cost(lo_cuda(ctx), &p, plans[i].kernel, plans[i].split, plans[i].slice),
           plans[i].tail.split);
  }
  return true;
}

static bool run(const struct bench_suite *suite, const char *name) {
  const struct bench_type *type = bench_type_find(name);
  if (!type) return fail(name);
  type = bench_type_on(type, "cuda");
  lo_cuda_plan *plans = malloc(PLANS * sizeof *plans);
  char *random = make_random(type);
  bool good = plans && random;
  for (size_t i = 0; i < suite->count && good && bench_now() < end; i++) {
    trial t = {.row = &suite->rows[i], .type = type, .random = random};
    good = run_row(&t, plans);
    cudaFree(t.pool);
    cudaFree(t.scratch);
    fflush(stdout);
  }
  cudaFree(random);
  free(plans);
  return good;
}

static void print_kernels(void) {
  for (int i = 0; i < lo_cuda_kernel_count; i++) {
    const lo_cuda_kernel *k = &lo_cuda_kernels[i];
    lo_cuda_time t = lo_cuda_time_of(k);
    printf("%s %d %d %d %d %d %d %d %d %d %d %d %d\n", k->name, k->unit, k->bm, k->bn, k->bk,
           k->blocks, k->align, k->few, k->cluster ? k->cluster : 1, k->meets, t.rate, t.wait,
           t.fixed);
  }
}

static bool make_scales(void) {
  float *host = malloc(SCALES * sizeof *host);
  for (int i = 0; host && i < SCALES; i++) host[i] = 0.02f;
  bool good = host && !cudaMalloc((void **)&scales, SCALES * sizeof *host) &&
              !cudaMemcpy(scales, host, SCALES * sizeof *host, cudaMemcpyHostToDevice);
  free(host);
  return good;
}

static bool open_device(void) {
  gate = bench_gate_make(0);
  layerops_open_args args = {.device = "cuda:0", .no_cache = true};
  if (gate) args.queue = bench_gate_stream(gate);
  return layerops_open_with(&args, &ctx) == LAYEROPS_OK &&
         bench_clock_make(ctx, gate, &device_clock) == LAYEROPS_OK &&
         bench_clock_set(&device_clock, true) == LAYEROPS_OK &&
         cudaStreamCreateWithFlags(&capture, cudaStreamNonBlocking) == cudaSuccess && make_scales();
}

int main(int argc, char **argv) {
  struct bench_suite suite;
  char why[256];
  if (argc < 5) {
    fprintf(stderr, "usage: kernel_times SUITE SECONDS SEED TYPE...\n");
    return 2;
  }
  if (!bench_suite_read(argv[1], &suite, why, sizeof why)) {
    fprintf(stderr, "kernel_times: %s\n", why);
    return 1;
  }
  uint64_t seed = strtoull(argv[3], NULL, 10);
  for (size_t i = 0; i < suite.count; i++)
    if (seed && !bench_vary(&suite.rows[i], seed)) return 1;
  if (!open_device()) return !fail("cuda:0");
  print_kernels();
  double each = atof(argv[2]) / (argc - 4);
  bool good = true;
  for (int i = 4; i < argc && good; i++) {
    end = bench_now() + each;
    good = run(&suite, argv[i]);
  }
  return !good;
}

/* cuBLASLt: every algorithm that its heuristic offers for a 64 MiB workspace, the fastest kept, as
   warm or cold as the row is measured; bias, ReLU and GELU (its tanh form) in its own epilogue, the
   activations that it lacks in one more kernel; of block-sparse rows the dense product. 8-bit
   integers: a matmul to int32, and one kernel that scales, adds the bias, activates and rounds to 8
   bits. 8-bit floats end in bf16. */
#include <config.h>

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/copies.h"
#include "bench/peers/cublaslt_activation.h"
#include "bench/peers/dense.h"

#define WORKSPACE      ((size_t)64 << 20)
#define MAX_ALGORITHMS 16
#define TRIAL_CALLS    2 /* of a graph that tries an algorithm, at least, */
#define TRIAL_SECONDS  0.004
#define TRIALS         5

/* A, B and their product, what is summed in, and what alpha is. */
struct type {
  const char *name;
  cudaDataType_t in, out, scale;
  cublasComputeType_t compute;
  int8_t fast; /* sums of 8-bit floats */
};

static const struct type types[] = {
    {"f32", CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 0},
    {"tf32", CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 0},
    {"f16", CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 0},
    {"bf16", CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, 0},
    {"int8", CUDA_R_8I, CUDA_R_32I, CUDA_R_32I, CUBLAS_COMPUTE_32I, 0},
    {"f8e4m3", CUDA_R_8F_E4M3, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, 0},
    {"f8e4m3:fast", CUDA_R_8F_E4M3, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, 1},
};

enum { NONE, RELU, LEAKY_RELU, GELU, GELU_TANH };

/* From [m,k] to [m,n]; a chain has a second product that leads back. cuBLASLt is column-major: it
   sees C^T = B'^T A'^T. */
struct product {
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t b, a, c;
  cublasLtMatmulHeuristicResult_t found[MAX_ALGORITHMS];
  int count, fastest;
  int64_t m, n;
};

struct state {
  struct bench_layer layer;
  const struct type *type;
  int after; /* the activation that a kernel of its own does, 0: none */
  cublasLtHandle_t handle;
  cublasLtMatmulPreference_t preference;
  struct product products[2];
  int product_count;
  void *workspace, *sums;   /* sums: of integers, int32 */
  struct bench_copies wide; /* W of a block-sparse row, expanded */
  cudaGraphExec_t graph;
};

/* ---- one call ---- */

static bool set(struct product *p, cublasLtMatmulDescAttributes_t attribute, const void *value,
                size_t size) {
  return !cublasLtMatmulDescSetAttribute(p->operation, attribute, value, size);
}

static cublasLtEpilogue_t epilogue_of(const struct state *s) {
  const int activation = s->layer.row->activation;
  if (s->type->out == CUDA_R_32I || s->layer.pattern) return CUBLASLT_EPILOGUE_DEFAULT;
  return activation == RELU                              ? CUBLASLT_EPILOGUE_RELU_BIAS
         : activation == GELU || activation == GELU_TANH ? CUBLASLT_EPILOGUE_GELU_BIAS
                                                         : CUBLASLT_EPILOGUE_BIAS;
}

static bool describe_matrix(cublasLtMatrixLayout_t *layout, cudaDataType_t type, bool transposed,
                            int64_t rows, int64_t cols, int64_t stride) {
  return !cublasLtMatrixLayoutCreate(layout, type, (uint64_t)(transposed ? rows : cols),
                                     (uint64_t)(transposed ? cols : rows), stride);
}

static bool describe(struct state *s, struct product *p, int64_t n, int64_t k) {
  const struct type *t = s->type;
  const struct bench_dense d = bench_dense_shape(s->layer.product, s->layer.row->m, n, k);
  const cublasOperation_t of_b = d.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t of_a = d.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasLtEpilogue_t epilogue = epilogue_of(s);
  s->after = epilogue == CUBLASLT_EPILOGUE_BIAS ? s->layer.row->activation : NONE;
  p->m = s->layer.row->m;
  p->n = n;
  return !cublasLtMatmulDescCreate(&p->operation, t->compute, t->scale) &&
         set(p, CUBLASLT_MATMUL_DESC_TRANSA, &of_b, sizeof of_b) &&
         set(p, CUBLASLT_MATMUL_DESC_TRANSB, &of_a, sizeof of_a) &&
         set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue) &&
         (!t->fast || set(p, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &t->fast, sizeof t->fast)) &&
         describe_matrix(&p->b, t->in, d.transpose_b, d.depth, d.cols, d.ldb) &&
         describe_matrix(&p->a, t->in, d.transpose_a, d.rows, d.depth, d.lda) &&
         describe_matrix(&p->c, t->out, false, d.rows, d.cols, d.ldc);
}

static bool finish(struct state *s, const struct product *p, const struct bench_step *step) {
  const cudaStream_t stream = s->layer.list->stream;
  if (s->sums)
    return bench_cuda_requantise(s->sums, step->y, p->m, p->n, s->layer.scale_x, step->scale_w,
                                 step->bias, s->layer.scale_y, s->layer.row->activation, stream);
  const char *y = s->type->out == CUDA_R_16BF ? "bf16" : s->layer.dtype;
  return !s->after || bench_cuda_activation(step->y, p->m * p->n, y, s->after, stream);
}

/* Where a step's C, A and B lie. */
struct places {
  void *c;
  const void *a, *b;
};

static struct places places_of(const struct state *s, const struct bench_step *step) {
  void *w = s->layer.pattern ? bench_copies_at(&s->wide, s->layer.list, step) : step->w;
  switch (s->layer.product) {
  case BENCH_DGRAD:
    return (struct places){step->x, step->y, w};
  case BENCH_WGRAD:
    return (struct places){w, step->y, step->x};
  default:
    return (struct places){s->sums ? s->sums : step->y, step->x, w};
  }
}

static bool call(struct state *s, const struct bench_step *step, int way) {
  struct product *p = &s->products[step->layer];
  const struct places at = places_of(s, step);
  const float one = 1, zero = 0;
  const int32_t one_of_integers = 1, zero_of_integers = 0;
  const bool integers = s->sums != NULL;
  if (!integers && step->bias &&
      !set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &step->bias, sizeof step->bias))
    return false;
  const void *alpha = integers ? (const void *)&one_of_integers : &one;
  const void *beta = integers ? (const void *)&zero_of_integers : &zero;
  return !cublasLtMatmul(s->handle, p->operation, alpha, at.b, p->b, at.a, p->a, beta, at.c, p->c,
                         at.c, p->c, &p->found[way].algo, s->workspace, WORKSPACE,
                         s->layer.list->stream) &&
         finish(s, p, step);
}

/* ---- graphs ---- */

static void drop_graph(struct state *s) {
  if (s->graph) cudaGraphExecDestroy(s->graph);
  s->graph = NULL;
}

/* The first `count` steps; all of them in the fastest ways, or those of one layer in one way. */
static bool record(struct state *s, int64_t count, int layer, int way) {
  const struct bench_steps_list *list = s->layer.list;
  const cudaStream_t stream = list->stream;
  cudaGraph_t graph = NULL;
  bool good = true;
  drop_graph(s);
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)) return false;
  for (int64_t i = 0; good && i < count; i++) {
    const struct bench_step *step = &list->steps[i];
    if (layer < 0 || step->layer == layer)
      good = call(s, step, layer < 0 ? s->products[step->layer].fastest : way);
  }
  good =
      !cudaStreamEndCapture(stream, &graph) && good && !cudaGraphInstantiate(&s->graph, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  return good;
}

static bool replay(void *state) {
  struct state *s = state;
  return !cudaGraphLaunch(s->graph, s->layer.list->stream);
}

static double time_graph(struct state *s) {
  return s->layer.list->time(s->layer.list->clock, replay, s);
}

/* ---- the fastest algorithm ---- */

/* So many calls that a repetition lasts some milliseconds, if the list has them. */
static int64_t trial_calls(struct state *s, int layer, int way) {
  const int64_t all = s->layer.list->count;
  int64_t few = TRIAL_CALLS < all ? TRIAL_CALLS : all;
  if (!record(s, few, layer, way)) return 0;
  if (time_graph(s) < 0) return 0; /* loads the kernel */
  double seconds = time_graph(s);
  if (seconds < 0) return 0;
  double wanted = TRIAL_SECONDS * (double)few / fmax(seconds, 1e-7);
  return wanted >= (double)all ? all : wanted > (double)few ? (int64_t)wanted : few;
}

/* The least of a few repetitions behind a first one, which loads the kernel; of that one alone
   where it is long. Negative: it failed. */
static double try_way(struct state *s, int layer, int way, int64_t calls, double best) {
  if (!record(s, calls, layer, way)) return -1;
  double least = time_graph(s);
  for (int i = 0; i < TRIALS && least >= 0 && least < 2 * TRIAL_SECONDS; i++) {
    double seconds = time_graph(s);
    if (seconds < 0) return -1;
    least = fmin(least, seconds);
    if (least > 1.3 * best) break;
  }
  return least;
}

static bool pick(struct state *s, int layer) {
  struct product *p = &s->products[layer];
  double best = INFINITY;
  int64_t calls = 0;
  p->fastest = -1;
  for (int way = 0; way < p->count; way++) {
    if (!calls) calls = trial_calls(s, layer, way);
    double seconds = calls ? try_way(s, layer, way, calls, best) : -1;
    cudaGetLastError(); /* an algorithm that cannot be launched leaves none behind */
    if (seconds < 0 || seconds >= best) continue;
    best = seconds;
    p->fastest = way;
  }
  return p->fastest >= 0;
}

static bool find(struct state *s, struct product *p) {
  return !cublasLtMatmulAlgoGetHeuristic(s->handle, p->operation, p->b, p->a, p->c, p->c,
                                         s->preference, MAX_ALGORITHMS, p->found, &p->count) &&
         p->count > 0;
}

/* ---- beginning and end ---- */

static void close_product(struct product *p) {
  cublasLtMatrixLayout_t layouts[] = {p->b, p->a, p->c};
  for (int i = 0; i < 3; i++)
    if (layouts[i]) cublasLtMatrixLayoutDestroy(layouts[i]);
  if (p->operation) cublasLtMatmulDescDestroy(p->operation);
}

static void close_state(void *state) {
  struct state *s = state;
  drop_graph(s);
  for (int i = 0; i < 2; i++) close_product(&s->products[i]);
  cudaFree(s->workspace);
  cudaFree(s->sums);
  bench_copies_free(&s->wide);
  if (s->preference) cublasLtMatmulPreferenceDestroy(s->preference);
  if (s->handle) cublasLtDestroy(s->handle);
  free(s);
}

static bool allocate(struct state *s) {
  const struct bench_row *row = s->layer.row;
  const int64_t widest = row->n > row->k ? row->n : row->k;
  int device = 0;
  size_t workspace = WORKSPACE;
  return sscanf(s->layer.device, "cuda:%d", &device) == 1 && !cudaSetDevice(device) &&
         !cublasLtCreate(&s->handle) && !cudaMalloc(&s->workspace, WORKSPACE) &&
         (s->type->out != CUDA_R_32I ||
          !cudaMalloc(&s->sums, (size_t)(row->m * widest) * sizeof(int32_t))) &&
         !cublasLtMatmulPreferenceCreate(&s->preference) &&
         !cublasLtMatmulPreferenceSetAttribute(
             s->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
}

static size_t size_of(const struct state *s) {
  return s->type->in == CUDA_R_32F ? sizeof(float) : 2;
}

static bool expand(struct state *s) {
  struct bench_dense dense;
  if (!s->layer.pattern) return true;
  const size_t bytes = (size_t)(s->layer.row->n * s->layer.row->k) * size_of(s);
  bool good = bench_dense_make(&s->layer, size_of(s), &dense) &&
              bench_copies_make(s->layer.list, dense.expanded, bytes, &s->wide);
  bench_dense_free(&dense);
  return good;
}

/* What wgrad made, of the kept blocks, to where the last step has them. */
static bool fetch(void *state) {
  const struct state *s = state;
  const struct bench_pattern *p = s->layer.pattern;
  if (!p || s->layer.product != BENCH_WGRAD) return true;
  const struct bench_step *last = &s->layer.list->steps[s->layer.list->count - 1];
  const size_t size = size_of(s), b = (size_t)s->layer.row->block, k = (size_t)s->layer.row->k;
  const char *wide = bench_copies_at(&s->wide, s->layer.list, last);
  bool good = true;
  for (int64_t r = 0; r < p->rows; r++)
    for (int32_t e = p->row_start[r]; good && e < p->row_start[r + 1]; e++)
      good = !cudaMemcpy2DAsync((char *)last->w + (size_t)e * b * b * size, b * size,
                                wide + ((size_t)r * b * k + (size_t)p->col[e] * b) * size, k * size,
                                b * size, b, cudaMemcpyDeviceToDevice, s->layer.list->stream);
  return good && !cudaStreamSynchronize(s->layer.list->stream);
}

static const char *build(struct state *s) {
  const struct bench_row *row = s->layer.row;
  if (!allocate(s) || !expand(s)) return "the device refused its memory";
  for (int64_t i = 0; i < s->layer.list->count && i < 2; i++)
    if (s->layer.list->steps[i].layer) s->product_count = 1;
  s->product_count++;
  for (int i = 0; i < s->product_count; i++) {
    struct product *p = &s->products[i];
    if (!describe(s, p, i ? row->k : row->n, i ? row->n : row->k) || !find(s, p))
      return s->sums ? "it has no algorithm for 8 bits in these sizes"
                     : "it has no algorithm for this layer";
    if (!pick(s, i)) return "none of its algorithms runs";
  }
  return record(s, s->layer.list->count, -1, 0) ? NULL : "its calls cannot be recorded";
}

static const char *prepare(struct state *s) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!strcmp(types[i].name, s->layer.dtype)) s->type = &types[i];
  if (!s->type) return "its product is dense, of f32, tf32, f16, bf16, int8 or f8e4m3";
  if (s->layer.pattern && s->type->in != s->type->out) return "it has no blocks of 8 bits";
  if (!s->layer.list || !s->layer.list->stream) return "its adapter measures recorded calls";
  return build(s);
}

static void label_it(const struct state *s, char *label, size_t size) {
  const size_t version = cublasLtGetVersion();
  const struct product *p = s->products;
  int used =
      snprintf(label, size, "cublaslt-%zu.%zu.%zu:%s%d-of-%d", version / 10000, version / 100 % 100,
               version % 100, s->layer.pattern ? "dense-" : "", p[0].fastest + 1, p[0].count);
  if (s->product_count == 2 && used > 0 && (size_t)used < size)
    used += snprintf(label + used, size - (size_t)used, ",%d-of-%d", p[1].fastest + 1, p[1].count);
  if (used > 0 && (size_t)used < size)
    snprintf(label + used, size - (size_t)used, "%s",
             s->sums    ? "+requantise"
             : s->after ? "+activation"
                        : "");
}

static bool setup(const struct bench_layer *layer, void **state, char *label, size_t label_size,
                  char *why, size_t why_size) {
  struct state *s = calloc(1, sizeof *s);
  if (!s) {
    snprintf(why, why_size, "out of memory");
    return false;
  }
  s->layer = *layer;
  const char *refusal = prepare(s);
  if (refusal) {
    snprintf(why, why_size, "%s", refusal);
    cudaGetLastError();
    close_state(s);
    return false;
  }
  label_it(s, label, label_size);
  *state = s;
  return true;
}

BENCH_PEER_EXPORT extern const struct bench_peer layerops_bench_peer;
const struct bench_peer layerops_bench_peer = {.abi = BENCH_PEER_ABI,
                                               .name = "cublaslt",
                                               .weights = BENCH_PLAIN,
                                               .setup = setup,
                                               .fetch = fetch,
                                               .replay = replay,
                                               .close = close_state};

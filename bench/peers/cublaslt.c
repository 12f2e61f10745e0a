/* cuBLASLt: every algorithm that its heuristic offers for a 64 MiB workspace, the fastest kept;
   bias, ReLU and tanh GELU in its own epilogue, the activations that it lacks in one more kernel.
   Measured as graphs of launches, so that the host does not show. */
#include <config.h>

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/common.h"
#include "bench/peers/cublaslt_activation.h"

#define WORKSPACE      ((size_t)64 << 20)
#define MAX_ALGORITHMS 32
#define GRAPH_CALLS    20

struct type {
  const char *name;
  cudaDataType_t type;
  size_t size;
};

static const struct type types[] = {
    {"f32", CUDA_R_32F, 4}, {"f16", CUDA_R_16F, 2}, {"bf16", CUDA_R_16BF, 2}};

struct state {
  struct bench_layer layer;
  const struct type *type;
  int after; /* the activation that a kernel of its own does, 0: none */
  cublasLtHandle_t handle;
  cudaStream_t stream;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t w_layout, x_layout, y_layout;
  cublasLtMatmulPreference_t preference;
  void *x, *w, *bias, *y, *workspace;
  cublasLtMatmulHeuristicResult_t found[MAX_ALGORITHMS];
  int count, fastest;
  cudaGraphExec_t graph; /* GRAPH_CALLS calls of the algorithm graph_way */
  int graph_way;
};

static bool set(struct state *s, cublasLtMatmulDescAttributes_t attribute, const void *value,
                size_t size) {
  return !cublasLtMatmulDescSetAttribute(s->operation, attribute, value, size);
}

/* cuBLASLt is column-major: it sees Y^T = W X^T, W^T [k,n] transposed. */
static bool describe(struct state *s) {
  const struct bench_row *row = s->layer.row;
  uint64_t m = (uint64_t)row->m, n = (uint64_t)row->n, k = (uint64_t)row->k;
  cublasOperation_t transposed = CUBLAS_OP_T;
  cublasLtEpilogue_t epilogue = row->activation == 1   ? CUBLASLT_EPILOGUE_RELU_BIAS
                                : row->activation == 4 ? CUBLASLT_EPILOGUE_GELU_BIAS
                                                       : CUBLASLT_EPILOGUE_BIAS;
  s->after = epilogue == CUBLASLT_EPILOGUE_BIAS ? row->activation : 0;
  size_t workspace = WORKSPACE;
  return !cublasLtMatmulDescCreate(&s->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F) &&
         set(s, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed) &&
         set(s, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue) &&
         set(s, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &s->bias, sizeof s->bias) &&
         !cublasLtMatrixLayoutCreate(&s->w_layout, s->type->type, k, n, (int64_t)k) &&
         !cublasLtMatrixLayoutCreate(&s->x_layout, s->type->type, k, m, (int64_t)k) &&
         !cublasLtMatrixLayoutCreate(&s->y_layout, s->type->type, n, m, (int64_t)n) &&
         !cublasLtMatmulPreferenceCreate(&s->preference) &&
         !cublasLtMatmulPreferenceSetAttribute(
             s->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
}

static bool upload(const struct state *s, void **device, const void *host, int64_t elements) {
  size_t bytes = (size_t)elements * s->type->size;
  return !cudaMalloc(device, bytes) &&
         (!host || !cudaMemcpy(*device, host, bytes, cudaMemcpyHostToDevice));
}

static bool call(struct state *s, int way) {
  float one = 1, zero = 0;
  if (cublasLtMatmul(s->handle, s->operation, &one, s->w, s->w_layout, s->x, s->x_layout, &zero,
                     s->y, s->y_layout, s->y, s->y_layout, &s->found[way].algo, s->workspace,
                     WORKSPACE, s->stream))
    return false;
  return !s->after || bench_cuda_activation(s->y, s->layer.row->m * s->layer.row->n, s->layer.dtype,
                                            s->after, s->stream);
}

static void drop_graph(struct state *s) {
  if (s->graph) cudaGraphExecDestroy(s->graph);
  s->graph = NULL;
}

static bool make_graph(struct state *s, int way) {
  cudaGraph_t graph = NULL;
  bool good = true;
  drop_graph(s);
  s->graph_way = way;
  if (cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal)) return false;
  for (int i = 0; good && i < GRAPH_CALLS; i++) good = call(s, way);
  good = !cudaStreamEndCapture(s->stream, &graph) && good &&
         !cudaGraphInstantiate(&s->graph, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  return good;
}

static bool run_way(void *state, int way, int64_t calls) {
  struct state *s = state;
  if (calls >= GRAPH_CALLS && (!s->graph || s->graph_way != way) && !make_graph(s, way))
    return false;
  for (; calls >= GRAPH_CALLS; calls -= GRAPH_CALLS)
    if (cudaGraphLaunch(s->graph, s->stream)) return false;
  for (; calls > 0; calls--)
    if (!call(s, way)) return false;
  return !cudaStreamSynchronize(s->stream);
}

static bool run(void *state, int64_t calls) {
  return run_way(state, ((struct state *)state)->fastest, calls);
}

static bool fetch(void *state) {
  struct state *s = state;
  size_t bytes = (size_t)(s->layer.row->m * s->layer.row->n) * s->type->size;
  return !cudaMemcpy(s->layer.y, s->y, bytes, cudaMemcpyDeviceToHost);
}

static void close_state(void *state) {
  struct state *s = state;
  void *buffers[] = {s->x, s->w, s->bias, s->y, s->workspace};
  cublasLtMatrixLayout_t layouts[] = {s->w_layout, s->x_layout, s->y_layout};
  drop_graph(s);
  for (int i = 0; i < 5; i++) cudaFree(buffers[i]);
  for (int i = 0; i < 3; i++)
    if (layouts[i]) cublasLtMatrixLayoutDestroy(layouts[i]);
  if (s->preference) cublasLtMatmulPreferenceDestroy(s->preference);
  if (s->operation) cublasLtMatmulDescDestroy(s->operation);
  if (s->handle) cublasLtDestroy(s->handle);
  if (s->stream) cudaStreamDestroy(s->stream);
  free(s);
}

static bool build(struct state *s) {
  const struct bench_row *row = s->layer.row;
  int device = 0;
  if (sscanf(s->layer.device, "cuda:%d", &device) != 1 || cudaSetDevice(device)) return false;
  if (cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking) || cublasLtCreate(&s->handle) ||
      cudaMalloc(&s->workspace, WORKSPACE) || !upload(s, &s->x, s->layer.x, row->m * row->k) ||
      !upload(s, &s->w, s->layer.w, row->n * row->k) ||
      !upload(s, &s->bias, s->layer.bias, row->n) || !upload(s, &s->y, s->layer.y, row->m * row->n))
    return false;
  if (!describe(s) || cublasLtMatmulAlgoGetHeuristic(
                          s->handle, s->operation, s->w_layout, s->x_layout, s->y_layout,
                          s->y_layout, s->preference, MAX_ALGORITHMS, s->found, &s->count))
    return false;
  s->fastest = bench_pick(s, run_way, s->count);
  return s->fastest >= 0;
}

static bool setup(const struct bench_layer *layer, void **state, char *label, size_t label_size,
                  char *why, size_t why_size) {
  struct state *s = calloc(1, sizeof *s);
  if (!s) {
    snprintf(why, why_size, "out of memory");
    return false;
  }
  s->layer = *layer;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!strcmp(types[i].name, layer->dtype)) s->type = &types[i];
  if (!s->type || layer->pattern || !build(s)) {
    snprintf(why, why_size,
             layer->pattern || !s->type
                 ? "its product is dense f32, f16 or bf16"
                 : "it has no algorithm for this layer, or the device refused");
    close_state(s);
    return false;
  }
  size_t version = cublasLtGetVersion();
  snprintf(label, label_size, "cublaslt-%zu.%zu.%zu:%d-of-%d%s", version / 10000,
           version / 100 % 100, version % 100, s->fastest + 1, s->count,
           s->after ? "+activation" : "");
  *state = s;
  return true;
}

BENCH_PEER_EXPORT extern const struct bench_peer layerops_bench_peer;
const struct bench_peer layerops_bench_peer = {.abi = BENCH_PEER_ABI,
                                               .name = "cublaslt",
                                               .weights = BENCH_PLAIN,
                                               .setup = setup,
                                               .run = run,
                                               .fetch = fetch,
                                               .close = close_state};

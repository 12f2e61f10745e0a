/* Every operation, once it is prepared, inside a graph that the user captures from his own stream.
 * The mode of the capture refuses whatever allocates or waits, in any thread: so this is also the
 * test that a warm call does neither. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include <layerops/layerops.h>

#include "t/any_call.h"
#include "t/devices.h"

#ifdef HAVE_CUDA
#include <dlfcn.h>

#include <cuda.h>

#define STRING_(name) #name
#define STRING(name)  STRING_(name)
#define DRIVER(name)  ((__typeof__(name) *)dlsym(library, STRING(name)))

static int is_ok(layerops_status status, const char *what) {
  return ok(status == LAYEROPS_OK, "%s%s%s", what, status ? ": " : "",
            status ? layerops_last_error() : "");
}

static void *library;
static CUstream stream;
static layerops_context *ctx;

/* ---- Operands: each operation finds its own among them. */
enum { M = 70, N = 40, K = 50, LARGEST = M * K };
enum { A, B, C, D, INDEX, BUFFERS };
static layerops_buffer *buffers[BUFFERS];
static float numbers[BUFFERS][LARGEST];

static layerops_status reset(void) {
  layerops_status status = LAYEROPS_OK;
  for (int i = 0; i < BUFFERS && !status; i++)
    status = layerops_buffer_write(ctx, buffers[i], numbers[i], sizeof numbers[i]);
  return status;
}

static layerops_status make_operands(void) {
  for (int i = 0; i < BUFFERS; i++)
    for (int j = 0; j < LARGEST; j++) numbers[i][j] = 0.001f * (float)((j * 37 + i * 11) % 997);
  for (int j = 0; j < LARGEST; j++) ((int32_t *)numbers[INDEX])[j] = j * 7 % N;
  layerops_status status = LAYEROPS_OK;
  for (int i = 0; i < BUFFERS && !status; i++)
    status = layerops_buffer_create(ctx, sizeof numbers[i], &buffers[i]);
  return status ? status : reset();
}

static layerops_matrix of(int which, int64_t rows, int64_t cols) {
  return layerops_matrix_f32(buffers[which], rows, cols);
}

static layerops_bsr *make_bsr(void) {
  static const int32_t row_start[] = {0, 2, 3}, column[] = {0, 2, 1};
  layerops_bsr_args args = {.rows = 32,
                            .cols = 48,
                            .block = 16,
                            .count = 3,
                            .row_start = row_start,
                            .column = column,
                            .values = numbers[B],
                            .type = LAYEROPS_F32};
  layerops_bsr *bsr = NULL;
  is_ok(layerops_bsr_create(ctx, &args, &bsr), "block-sparse weights");
  return bsr;
}

static any_call call_of(layerops_op op, const layerops_bsr *bsr) {
  layerops_matrix a = of(A, M, K), b = of(B, M, K), c = of(C, M, K), d = of(D, M, K);
  layerops_matrix labels = layerops_vector_i32(buffers[INDEX], M);
  any_call call = {.op = op};
  switch (op) {
#define CALL(name, ...)                                                                            \
  case LAYEROPS_OP_##name:                                                                         \
    call.args.name = (layerops_##name##_args){__VA_ARGS__};                                        \
    break;
    CALL(gemm, .a = a, .b = of(B, K, N), .c = of(C, M, N), .beta = layerops_value(1))
    CALL(linear_forward, .x = a, .w = of(B, N, K), .bias = of(D, 1, N), .y = of(C, M, N),
         .activation = LAYEROPS_GELU)
    CALL(linear_backward, .dy = a, .saved = b, .x = d, .dw = of(C, K, K), .dbias = of(INDEX, 1, K),
         .activation = LAYEROPS_GELU)
    CALL(activation_forward, .x = a, .y = c, .activation = LAYEROPS_SILU)
    CALL(activation_backward, .dy = a, .saved = b, .dx = c, .activation = LAYEROPS_SILU)
    CALL(softmax, .x = a, .y = c)
    CALL(cross_entropy, .logits = a, .labels = labels, .dlogits = c, .loss = of(D, 1, 1),
         .reduction = LAYEROPS_MEAN)
    CALL(mse, .y = a, .target = b, .dy = c, .loss = of(D, 1, 1))
    CALL(sgd, .w = c, .g = a, .velocity = d, .lr = layerops_value(0.1),
         .momentum = layerops_value(0.9))
    CALL(adam, .w = c, .g = a, .m = b, .v = d, .lr = layerops_value(0.1), .step = layerops_value(1))
    CALL(fill, .y = c, .value = layerops_value(2))
    CALL(copy, .x = a, .y = c)
    CALL(transpose, .x = a, .y = of(C, K, M))
    CALL(gather, .x = of(A, N, K), .index = labels, .y = c)
    CALL(bsr_linear_forward, .x = of(A, M, 48), .w = bsr, .y = of(C, M, 32))
    CALL(bsr_linear_backward, .dy = of(A, M, 32), .saved = of(B, M, 32), .x = of(D, M, 48),
         .w = bsr, .dx = of(C, M, 48), .dbias = of(INDEX, 1, 32), .activation = LAYEROPS_GELU)
#undef CALL
  default:
    break;
  }
  return call;
}

/* ---- Capturing */
static int capture(const any_call *call, layerops_status *status, CUgraph *graph, size_t *nodes) {
  *nodes = 0;
  if (DRIVER(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) return 0;
  *status = run_any_call(ctx, call);
  return !DRIVER(cuStreamEndCapture)(stream, graph) &&
         !DRIVER(cuGraphGetNodes)(*graph, NULL, nodes);
}

static layerops_status read_results(float results[BUFFERS][LARGEST]) {
  layerops_status status = LAYEROPS_OK;
  for (int i = 0; i < BUFFERS && !status; i++)
    status = layerops_buffer_read(ctx, buffers[i], results[i], sizeof results[i]);
  return status;
}

/* Whether a launch of the graph does what a call does. */
static int launches(CUgraph graph, const any_call *call) {
  static float called[BUFFERS][LARGEST], launched[BUFFERS][LARGEST];
  CUgraphExec exec = NULL;
  int good = !reset() && !run_any_call(ctx, call) && !read_results(called) && !reset() &&
             !DRIVER(cuGraphInstantiateWithFlags)(&exec, graph, 0) &&
             !DRIVER(cuGraphLaunch)(exec, stream) && !read_results(launched) &&
             !memcmp(called, launched, sizeof called);
  if (exec) DRIVER(cuGraphExecDestroy)(exec);
  return good;
}

/* New to the context, as it becomes known, and known (common/again.h). */
static void test_operation(const char *name, const any_call *call) {
  static const char *const times[] = {"warm", "for the third time", "for the fifth"};
  if (!is_ok(layerops_prepare(ctx, call->op, &call->args), name)) return;
  for (int i = 0; i < 3; i++) {
    layerops_status status = LAYEROPS_OK;
    CUgraph graph = NULL;
    size_t nodes;
    int captured = capture(call, &status, &graph, &nodes);
    ok(captured && !status && nodes, "%s: %s, it is captured (%zu nodes)%s%s", name, times[i],
       nodes, status ? ": " : "", status ? layerops_last_error() : "");
    ok(captured && launches(graph, call), "%s: and does what the call does", name);
    if (graph) DRIVER(cuGraphDestroy)(graph);
  }
}

static void test_cold(const any_call *call) {
  layerops_open_args args = {.device = "cuda:0", .queue = stream};
  layerops_context *warm = ctx;
  layerops_status status = LAYEROPS_OK;
  CUgraph graph = NULL;
  size_t nodes;
  if (!is_ok(layerops_open_with(&args, &ctx), "a context without a workspace")) return;
  int captured = capture(call, &status, &graph, &nodes);
  ok(status == LAYEROPS_ERROR_STATE && strstr(layerops_last_error(), "layerops_prepare"),
     "a cold call is refused: %s", status ? layerops_last_error() : "not refused");
  ok(captured && !nodes, "and the user's capture is as it was");
  if (graph) DRIVER(cuGraphDestroy)(graph);
  is_ok(layerops_prepare(ctx, call->op, &call->args), "prepared");
  captured = capture(call, &status, &graph, &nodes);
  ok(captured && !status && nodes, "it is captured");
  if (graph) DRIVER(cuGraphDestroy)(graph);
  layerops_close(ctx);
  ctx = warm;
}

/* A graph of ours records while the user captures: his capture has nothing of it. */
static void test_recording(const any_call *call) {
  CUgraph graph = NULL;
  size_t nodes = 1;
  layerops_graph *ours = NULL;
  is_ok(layerops_prepare(ctx, call->op, &call->args), "prepared");
  int captured = !DRIVER(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  layerops_status status = layerops_record_begin(ctx);
  if (!status) status = run_any_call(ctx, call);
  if (!status) status = layerops_record_end(ctx, &ours);
  is_ok(status, "recording while the user captures");
  captured = captured && !DRIVER(cuStreamEndCapture)(stream, &graph) &&
             !DRIVER(cuGraphGetNodes)(graph, NULL, &nodes);
  ok(captured && !nodes, "his capture is empty");
  is_ok(layerops_graph_replay(ours), "ours replays");
  is_ok(layerops_sync(ctx), "and is done");
  layerops_graph_destroy(ours);
  if (graph) DRIVER(cuGraphDestroy)(graph);
}

static void test_all(void) {
  layerops_open_args args = {.device = "cuda:0", .queue = stream};
  if (!is_ok(layerops_open_with(&args, &ctx), "a context on the user's stream") ||
      !is_ok(make_operands(), "operands"))
    return;
  layerops_bsr *bsr = make_bsr();
  for (layerops_op op = 1; op < LAYEROPS_OP_COUNT; op++) {
    any_call call = call_of(op, bsr);
    test_operation(layerops_op_name(op), &call);
  }
  any_call backward = call_of(LAYEROPS_OP_linear_backward, bsr);
  test_cold(&backward);
  test_recording(&backward);
  layerops_bsr_destroy(bsr);
  for (int i = 0; i < BUFFERS; i++) layerops_buffer_destroy(buffers[i]);
  layerops_close(ctx);
}

static void test_device(const char *name) {
  CUdevice device;
  CUcontext primary, popped;
  if (strcmp(name, "cuda:0")) return;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!ok(!DRIVER(cuDeviceGet)(&device, 0) && !DRIVER(cuDevicePrimaryCtxRetain)(&primary, device) &&
              !DRIVER(cuCtxPushCurrent)(primary) &&
              !DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING),
          "the user's own stream"))
    return;
  test_all();
  DRIVER(cuStreamDestroy)(stream);
  DRIVER(cuCtxPopCurrent)(&popped);
  DRIVER(cuDevicePrimaryCtxRelease)(device);
}
#else
static void test_device(const char *name) {
  (void)name;
}
#endif

int main(void) {
  for_each_device(test_device);
  return done();
}

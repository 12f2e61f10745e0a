/* Recorded calls as a CUDA graph. They are captured on a stream of our own, where nothing runs, so
 * the user's stream may be any, even one that cannot be captured. A call is warmed by capturing it
 * for nothing: it has then made its plan, asked for its workspace and loaded its kernels. */
#include <config.h>

#include <stdlib.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/cuda.h"
#include "common/call.h"

typedef struct graph {
  cudaGraphExec_t exec;
  layerops_buffer *workspace; /* what its kernels use: kept when the context's grows */
  const char *kernel;
  lo_cuda_armed armed; /* by its calls */
} graph;

/* Calls may do while captured what only blocks, as loading a kernel: the mode lets them. */
static layerops_status begin(layerops_context *ctx, const char *what) {
  lo_cuda_state *s = lo_cuda(ctx);
  if (!s->capture)
    LO_TRY(lo_cuda_check(ctx, cudaStreamCreateWithFlags(&s->capture, cudaStreamNonBlocking), what));
  return lo_cuda_check(ctx, cudaStreamBeginCapture(s->capture, cudaStreamCaptureModeRelaxed), what);
}

/* Whatever comes of the calls, the capture ends, and the stream and the error word are as before.
 */
static layerops_status capture(layerops_context *ctx, const lo_call *calls, size_t count,
                               const char *what, cudaGraph_t *out, lo_cuda_armed *armed) {
  lo_cuda_state *s = lo_cuda(ctx);
  LO_TRY(begin(ctx, what));
  struct CUstream_st *stream = s->stream;
  lo_cuda_armed before = s->armed;
  s->stream = s->capture;
  s->armed = (lo_cuda_armed){0};
  layerops_status status = LAYEROPS_OK;
  for (size_t i = 0; i < count && status == LAYEROPS_OK; i++)
    status = lo_call_dispatch(ctx, &calls[i]);
  *armed = s->armed;
  s->armed = before;
  s->stream = stream;
  *out = NULL;
  cudaError_t error = cudaStreamEndCapture(s->capture, out);
  if (status == LAYEROPS_OK) return lo_cuda_check(ctx, error, what);
  if (*out) cudaGraphDestroy(*out);
  cudaGetLastError();
  return status;
}

static layerops_status capture_for_nothing(layerops_context *ctx, const lo_call *call) {
  cudaGraph_t captured;
  lo_cuda_armed armed;
  LO_TRY(capture(ctx, call, 1, "prepare", &captured, &armed));
  return lo_cuda_check(ctx, cudaGraphDestroy(captured), "prepare");
}

layerops_status lo_cuda_graph_prepare(layerops_context *ctx, const lo_call *call) {
  ctx->workspace_wanted = 0;
  layerops_status status = capture_for_nothing(ctx, call);
  if (!ctx->workspace_wanted) return status;
  LO_TRY(lo_workspace_grow(ctx, ctx->workspace_wanted));
  return capture_for_nothing(ctx, call);
}

bool lo_cuda_graph_capturing(layerops_context *ctx) {
  lo_cuda_state *s = lo_cuda(ctx);
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(s->stream, &status) != cudaSuccess) cudaGetLastError();
  return status != cudaStreamCaptureStatusNone;
}

/* Instantiates what was captured, and takes it to the device. */
static layerops_status make_exec(layerops_context *ctx, cudaGraph_t captured, graph *g) {
  LO_TRY(lo_cuda_check(ctx, cudaGraphInstantiate(&g->exec, captured, 0), "record_end"));
  lo_cuda_state *s = lo_cuda(ctx);
  LO_TRY(lo_cuda_check(ctx, cudaGraphUpload(g->exec, s->capture), "record_end"));
  return lo_cuda_check(ctx, cudaStreamSynchronize(s->capture), "record_end");
}

layerops_status lo_cuda_graph_create(layerops_context *ctx, const lo_call *calls, size_t count,
                                     void **native) {
  graph *g = calloc(1, sizeof *g);
  cudaGraph_t captured;
  if (!g) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "record_end: no memory");
  layerops_status status = capture(ctx, calls, count, "record_end", &captured, &g->armed);
  if (status == LAYEROPS_OK) {
    status = make_exec(ctx, captured, g);
    cudaGraphDestroy(captured);
  }
  g->kernel = ctx->kernel;
  g->workspace = ctx->workspace;
  if (g->workspace) atomic_fetch_add(&g->workspace->references, 1);
  if (status == LAYEROPS_OK)
    *native = g;
  else
    lo_cuda_graph_release(g);
  return status;
}

layerops_status lo_cuda_graph_replay(layerops_context *ctx, void *native) {
  const graph *g = native;
  LO_TRY(lo_cuda_check(ctx, cudaGraphLaunch(g->exec, lo_cuda(ctx)->stream), "graph_replay"));
  lo_cuda_arm(ctx, g->armed);
  ctx->kernel = g->kernel;
  return LAYEROPS_OK;
}

/* An executable graph that still runs goes when it is done. */
void lo_cuda_graph_release(void *native) {
  graph *g = native;
  if (g->exec && cudaGraphExecDestroy(g->exec) != cudaSuccess) cudaGetLastError();
  layerops_buffer_destroy(g->workspace);
  free(g);
}

/* A call that comes again is its launches, as they were made before: no operation does anything
 * else on the device. */
#include <config.h>

#include <stdlib.h>

#include "backends/cuda/cuda.h"
#include "common/call.h"

typedef struct again {
  lo_cu_keeper launches;
  const char *kernel;
  uint64_t scratch; /* the number of the buffer in which they have scratch memory; 0: none */
  lo_cuda_armed armed;
} again;

/* They hold addresses of scratch memory: it must be where it was. */
static bool can_repeat(layerops_context *ctx, const again *a) {
  const layerops_buffer *now = ctx->args.workspace ? ctx->args.workspace : ctx->workspace;
  return a && !a->launches.failed && (!a->scratch || now->number == a->scratch);
}

static CUresult launch(const lo_cuda_driver *driver, const lo_cu_kept *l, CUstream stream) {
  const lo_cu_grid *g = &l->grid;
  void *params[] = {(void *)l->params};
  CUlaunchAttribute attributes[2];
  CUlaunchConfig config = {.gridDimX = (unsigned)g->x,
                           .gridDimY = (unsigned)g->y,
                           .gridDimZ = (unsigned)g->z,
                           .blockDimX = g->threads,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .sharedMemBytes = g->shared,
                           .hStream = stream,
                           .attrs = attributes};
  if (g->follows)
    attributes[config.numAttrs++] =
        (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                            .value.programmaticStreamSerializationAllowed = 1};
  if (g->cluster_x * g->cluster_y > 1)
    attributes[config.numAttrs++] =
        (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                            .value.clusterDim = {g->cluster_x, g->cluster_y, 1}};
  return driver->cuLaunchKernelEx(&config, (CUfunction)l->function, params, NULL);
}

static layerops_status repeat(layerops_context *ctx, const again *a, const char *what) {
  const lo_cuda_driver *driver = lo_cuda_driver_get();
  CUstream stream = (CUstream)lo_cuda(ctx)->stream;
  ctx->kernel = a->kernel;
  lo_cuda_arm(ctx, a->armed);
  for (const lo_cu_kept *l = a->launches.first; l; l = l->next) {
    CUresult error = launch(driver, l, stream);
    if (error != CUDA_SUCCESS) /* the runtime's numbers are the driver's */
      return lo_cuda_check(ctx, (int)error, what);
  }
  return LAYEROPS_OK;
}

static layerops_status run_and_keep(layerops_context *ctx, const lo_call *call, again *a) {
  lo_cuda_state *s = lo_cuda(ctx);
  const lo_cuda_armed before = s->armed;
  s->scratch = 0;
  s->armed = (lo_cuda_armed){0};
  lo_cu_keep(&a->launches);
  layerops_status status = lo_call_dispatch(ctx, call);
  lo_cu_keep(NULL);
  a->launches.failed |= status != LAYEROPS_OK;
  a->kernel = ctx->kernel;
  a->scratch = s->scratch;
  a->armed = s->armed;
  s->armed = before;
  lo_cuda_arm(ctx, a->armed);
  return status;
}

layerops_status lo_cuda_again_run(layerops_context *ctx, const lo_call *call, void **kept) {
  if (can_repeat(ctx, *kept)) return repeat(ctx, *kept, layerops_op_name(call->op));
  lo_cuda_again_release(*kept);
  *kept = calloc(1, sizeof(again));
  return *kept ? run_and_keep(ctx, call, *kept) : lo_call_dispatch(ctx, call);
}

void lo_cuda_again_release(void *kept) {
  again *a = kept;
  if (a) lo_cu_forget(&a->launches);
  free(a);
}

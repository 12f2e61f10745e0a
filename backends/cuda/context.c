/* Contexts: a stream, events, the error word, errors. */
#include <config.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/plan.h"

/* ---- Errors */

/* After these nothing works any more on the device in this process. */
static bool loses_device(int error) {
  switch (error) {
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchFailure:
  case cudaErrorLaunchTimeout:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorAssert:
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable:
  case cudaErrorContextIsDestroyed:
  case cudaErrorExternalDevice:
  case cudaErrorUnknown:
    return true;
  default:
    return false;
  }
}

layerops_status lo_cuda_check(layerops_context *ctx, int error, const char *what) {
  if (error == cudaSuccess) return LAYEROPS_OK;
  const char *name = cudaGetErrorName((cudaError_t)error);
  const char *text = cudaGetErrorString((cudaError_t)error);
  cudaGetLastError(); /* leaves none behind for the user's own calls */
  if (loses_device(error)) return lo_device_lost(ctx, "%s: %s (%s)", what, text, name);
  if (error == cudaErrorMemoryAllocation)
    return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "%s: out of memory on %s", what,
                   ctx->device->name);
  return lo_fail(LAYEROPS_ERROR_DEVICE, "%s: %s: %s (%s)", what, ctx->device->name, text, name);
}

static layerops_status check_driver(layerops_context *ctx, CUresult error, const char *what) {
  if (error == CUDA_SUCCESS) return LAYEROPS_OK;
  return lo_fail(error == CUDA_ERROR_OUT_OF_MEMORY ? LAYEROPS_ERROR_OUT_OF_MEMORY
                                                   : LAYEROPS_ERROR_DEVICE,
                 "%s: %s: %s", what, ctx->device->name, lo_cuda_driver_error(error));
}

/* ---- The device that contexts share */
static layerops_status make_device(layerops_context *ctx, int index, lo_cuda_device **out) {
  const lo_cuda_driver *driver = lo_cuda_driver_get();
  CUdevice device;
  if (index >= driver->count)
    return lo_fail(LAYEROPS_ERROR_NO_DEVICE, "open: %s: %s", ctx->device->name, driver->reason);
  lo_cuda_device *d = calloc(1, sizeof *d);
  if (!d) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "open: no memory");
  CUresult error = driver->cuDeviceGet(&device, index);
  if (error == CUDA_SUCCESS) error = driver->cuDevicePrimaryCtxRetain(&d->primary, device);
  if (error == CUDA_SUCCESS)
    error = driver->cuDeviceGetAttribute(&d->sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  if (error == CUDA_SUCCESS)
    error = driver->cuDeviceGetAttribute(
        &d->shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
  if (error != CUDA_SUCCESS) {
    free(d);
    return check_driver(ctx, error, "open");
  }
  d->architecture = lo_cuda_architecture(device);
  *out = d;
  return LAYEROPS_OK;
}

/* The first context of a device makes it; it stays, as lo_device does. */
static layerops_status get_device(layerops_context *ctx, int index, lo_cuda_device **out) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  layerops_status status = LAYEROPS_OK;
  pthread_mutex_lock(&lock);
  *out = atomic_load(&ctx->device->state);
  if (!*out) {
    status = make_device(ctx, index, out);
    if (status == LAYEROPS_OK) atomic_store(&ctx->device->state, (void *)*out);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

layerops_status lo_cuda_enter(lo_device *device, bool *pushed) {
  const lo_cuda_driver *driver = lo_cuda_driver_get();
  const lo_cuda_device *d = atomic_load_explicit(&device->state, memory_order_acquire);
  CUcontext current = NULL;
  *pushed = driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != d->primary;
  CUresult error = *pushed ? driver->cuCtxPushCurrent(d->primary) : CUDA_SUCCESS;
  if (error == CUDA_SUCCESS) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_DEVICE, "%s: cannot enter its context: %s", device->name,
                 lo_cuda_driver_error(error));
}

void lo_cuda_leave(bool pushed) {
  CUcontext ours;
  if (pushed) lo_cuda_driver_get()->cuCtxPopCurrent(&ours);
}

/* ---- Opening and closing */

/* Kernels of an instruction are empty where the code was compiled for an architecture without it:
 * so what counts is that of the code, which is older than the device where the driver compiled PTX.
 * LAYEROPS_CUDA_ARCH=75 runs the kernels of that architecture on a later GPU: how a test without a
 * T4 tests its kernels. */
static layerops_status choose_architecture(layerops_context *ctx, lo_cuda_state *s) {
  const char *text = getenv("LAYEROPS_CUDA_ARCH");
  int code;
  LO_TRY(lo_cuda_check(ctx, lo_cu_code_architecture(&code), "open"));
  s->architecture = code < s->device->architecture ? code : s->device->architecture;
  if (!text || !*text) return LAYEROPS_OK;
  char *end;
  long wanted = strtol(text, &end, 10);
  if (*end || wanted < 75 || wanted > s->device->architecture)
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "open: LAYEROPS_CUDA_ARCH is \"%s\", but must lie in [75, %d] on this device",
                   text, s->device->architecture);
  if (wanted < s->architecture) s->architecture = (int)wanted;
  return LAYEROPS_OK;
}

static layerops_status choose_stream(layerops_context *ctx, lo_cuda_state *s, void *queue) {
  if (!queue) {
    s->own_stream = true;
    return lo_cuda_check(ctx, cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), "open");
  }
  CUcontext theirs;
  LO_TRY(check_driver(ctx, lo_cuda_driver_get()->cuStreamGetCtx((CUstream)queue, &theirs),
                      "open: queue"));
  if (theirs != s->device->primary)
    return lo_fail(
        LAYEROPS_ERROR_INVALID,
        "open: queue is a stream of another device or CUDA context than %s's primary one",
        ctx->device->name);
  s->stream = queue;
  return LAYEROPS_OK;
}

static layerops_status start(layerops_context *ctx, lo_cuda_state *s, void *queue) {
  const char *forced = getenv("LAYEROPS_CUDA_KERNEL");
  if (forced) snprintf(s->forced, sizeof s->forced, "%s", forced);
  char *parts = strchr(s->forced, ':');
  if (parts) {
    s->forced_split = atoi(parts + 1);
    *parts = 0;
  }
  LO_TRY(choose_architecture(ctx, s));
  lo_cuda_tuned_open(ctx);
  LO_TRY(choose_stream(ctx, s, queue));
  LO_TRY(lo_cuda_check(ctx, cudaEventCreateWithFlags(&s->mark, cudaEventDisableTiming), "open"));
  size_t counters = LO_CUDA_COUNTERS * sizeof *s->counters;
  LO_TRY(lo_cuda_check(ctx, cudaMalloc((void **)&s->counters, counters), "open"));
  LO_TRY(lo_cuda_check(ctx, cudaMemsetAsync(s->counters, 0, counters, s->stream), "open"));
  LO_TRY(lo_cuda_check(ctx, cudaMalloc((void **)&s->faults, sizeof *s->faults), "open"));
  LO_TRY(lo_cuda_check(ctx, cudaMalloc((void **)&s->meeting, sizeof *s->meeting), "open"));
  LO_TRY(lo_cuda_check(ctx, cudaMemsetAsync(s->meeting, 0, sizeof *s->meeting, s->stream), "open"));
  return lo_cuda_check(ctx, cudaMemsetAsync(s->faults, 0xff, sizeof *s->faults, s->stream), "open");
}

layerops_status lo_cuda_open(layerops_context *ctx, int index, const layerops_open_args *args) {
  lo_cuda_device *device;
  bool pushed;
  LO_TRY(get_device(ctx, index, &device));
  LO_TRY(lo_cuda_enter(ctx->device, &pushed));
  lo_cuda_state *s = calloc(1, sizeof *s);
  layerops_status status =
      s ? LAYEROPS_OK : lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "open: no memory");
  if (s) {
    s->device = device;
    ctx->state = s;
    status = start(ctx, s, args->queue);
    if (status != LAYEROPS_OK) lo_cuda_close(ctx);
  }
  lo_cuda_leave(pushed);
  return status;
}

/* Errors are of no use here: what can be given back is. */
void lo_cuda_close(layerops_context *ctx) {
  lo_cuda_state *s = lo_cuda(ctx);
  lo_cuda_tune_end(ctx);
  lo_tuned_free(&s->tuned);
  free(s->plans);
  cudaFree(s->faults);
  cudaFree(s->counters);
  cudaFree(s->meeting);
  cudaFreeHost(s->pinned);
  for (int i = 0; i < 2; i++)
    if (s->used[i]) cudaEventDestroy(s->used[i]);
  if (s->mark) cudaEventDestroy(s->mark);
  if (s->capture) cudaStreamDestroy(s->capture);
  if (s->own_stream && s->stream) cudaStreamDestroy(s->stream);
  cudaGetLastError();
  free(s);
  ctx->state = NULL;
}

layerops_status lo_cuda_wait(layerops_context *ctx, layerops_context *other) {
  lo_cuda_state *s = lo_cuda(ctx), *o = lo_cuda(other);
  LO_TRY(lo_cuda_check(ctx, cudaEventRecord(o->mark, o->stream), "wait"));
  return lo_cuda_check(ctx, cudaStreamWaitEvent(s->stream, o->mark, 0), "wait");
}

/* ---- The error word */
static void keep_limit(int64_t *kept, int64_t limit) {
  if (limit) *kept = *kept && *kept != limit ? -1 : limit;
}

void lo_cuda_arm(layerops_context *ctx, lo_cuda_armed armed) {
  lo_cuda_armed *all = &lo_cuda(ctx)->armed;
  all->any = all->any || armed.any;
  keep_limit(&all->label_limit, armed.label_limit);
  keep_limit(&all->index_limit, armed.index_limit);
}

lo_u64 *lo_cuda_label_fault(layerops_context *ctx, int64_t limit) {
  lo_cuda_arm(ctx, (lo_cuda_armed){.any = true, .label_limit = limit});
  return &lo_cuda(ctx)->faults->label;
}

lo_u64 *lo_cuda_index_fault(layerops_context *ctx, int64_t limit) {
  lo_cuda_arm(ctx, (lo_cuda_armed){.any = true, .index_limit = limit});
  return &lo_cuda(ctx)->faults->index;
}

static void tell(layerops_context *ctx, const char *what, lo_u64 fault, int64_t limit) {
  int value = (int)(unsigned)fault;
  if (limit > 0)
    lo_fault(ctx, LAYEROPS_ERROR_LABEL, "%s[%llu] is %d, but must lie in [0, %lld)", what,
             fault >> 32, value, (long long)limit);
  else
    lo_fault(ctx, LAYEROPS_ERROR_LABEL, "%s[%llu] is %d, which is out of range", what, fault >> 32,
             value);
}

layerops_status lo_cuda_finish(layerops_context *ctx) {
  lo_cuda_state *s = lo_cuda(ctx);
  lo_cu_fault found = {~0ull, ~0ull};
  if (s->armed.any)
    LO_TRY(lo_cuda_check(
        ctx, cudaMemcpyAsync(&found, s->faults, sizeof found, cudaMemcpyDeviceToHost, s->stream),
        "sync"));
  LO_TRY(lo_cuda_check(ctx, cudaStreamSynchronize(s->stream), "sync"));
  if (found.label != ~0ull) tell(ctx, "cross_entropy: labels", found.label, s->armed.label_limit);
  if (found.index != ~0ull) tell(ctx, "gather: index", found.index, s->armed.index_limit);
  s->armed = (lo_cuda_armed){0};
  if (found.label == ~0ull && found.index == ~0ull) return LAYEROPS_OK;
  return lo_cuda_check(ctx, cudaMemsetAsync(s->faults, 0xff, sizeof *s->faults, s->stream), "sync");
}

layerops_status lo_cuda_sync(layerops_context *ctx) {
  return lo_cuda_finish(ctx);
}

/* ---- Events */
typedef struct event {
  cudaEvent_t event;
  bool recorded;
} event;

layerops_status lo_cuda_event_create(layerops_context *ctx, void **out) {
  event *e = calloc(1, sizeof *e);
  if (!e) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "event_create: no memory");
  layerops_status status = lo_cuda_check(ctx, cudaEventCreate(&e->event), "event_create");
  if (status != LAYEROPS_OK)
    free(e);
  else
    *out = e;
  return status;
}

layerops_status lo_cuda_event_record(layerops_context *ctx, void *native) {
  event *e = native;
  LO_TRY(lo_cuda_check(ctx, cudaEventRecord(e->event, lo_cuda(ctx)->stream), "event_record"));
  e->recorded = true;
  return LAYEROPS_OK;
}

static layerops_status check_recorded(const event *e, const char *function) {
  if (!e->recorded) return lo_fail(LAYEROPS_ERROR_STATE, "%s: the event is not recorded", function);
  return LAYEROPS_OK;
}

layerops_status lo_cuda_event_wait(layerops_context *ctx, void *native) {
  event *e = native;
  LO_TRY(check_recorded(e, "event_wait"));
  return lo_cuda_check(ctx, cudaEventSynchronize(e->event), "event_wait");
}

layerops_status lo_cuda_event_elapsed(layerops_context *ctx, void *start_event, void *stop_event,
                                      double *ms) {
  event *a = start_event, *b = stop_event;
  LO_TRY(check_recorded(a, "event_elapsed"));
  LO_TRY(check_recorded(b, "event_elapsed"));
  float value = 0;
  cudaError_t error = cudaEventElapsedTime(&value, a->event, b->event);
  if (error == cudaErrorNotReady) {
    cudaGetLastError();
    return lo_fail(LAYEROPS_ERROR_STATE,
                   "event_elapsed: an event is not reached yet: wait for it first");
  }
  LO_TRY(lo_cuda_check(ctx, error, "event_elapsed"));
  *ms = value;
  return LAYEROPS_OK;
}

void lo_cuda_event_destroy(layerops_context *ctx, void *native) {
  (void)ctx;
  event *e = native;
  cudaEventDestroy(e->event);
  free(e);
}

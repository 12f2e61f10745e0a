/* The backend's entry: its devices, and its functions with our CUDA context current, so that the
 * thread's current device is afterwards what it was. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>

#include "backends/cuda/bsr_plan.h"
#include "backends/cuda/cuda.h"
#include "common/door.h"

/* ---- Devices */
static int count(char *reason, size_t reason_size) {
  const lo_cuda_driver *driver = lo_cuda_driver_get();
  if (driver->count == 0) snprintf(reason, reason_size, "%s", driver->reason);
  return driver->count;
}

static int index_of(const char *rest) {
  char *end;
  long index = strtol(rest, &end, 10);
  return *rest >= '0' && *rest <= '9' && !*end && index < 1 << 20 ? (int)index : -1;
}

static int attribute(const lo_cuda_driver *driver, CUdevice_attribute which, CUdevice device) {
  int value = 0;
  return driver->cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

static layerops_status info(int index, layerops_device_info *out) {
  const lo_cuda_driver *driver = lo_cuda_driver_get();
  snprintf(out->name, sizeof out->name, "cuda:%d", index);
  CUdevice device;
  if (index >= driver->count || driver->cuDeviceGet(&device, index) != CUDA_SUCCESS)
    return lo_fail(LAYEROPS_ERROR_NO_DEVICE, "cuda:%d: %s", index,
                   driver->count ? "there is no such device" : driver->reason);
  size_t memory = 0;
  int architecture = lo_cuda_architecture(device);
  if (driver->cuDeviceGetName(out->description, sizeof out->description, device) != CUDA_SUCCESS)
    out->description[0] = 0;
  if (driver->cuDeviceTotalMem(&memory, device) != CUDA_SUCCESS) memory = 0;
  snprintf(out->driver, sizeof out->driver, "%s", driver->text);
  snprintf(out->isa, sizeof out->isa, "sm_%d", architecture);
  out->units = attribute(driver, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  out->clock_mhz = attribute(driver, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device) / 1000;
  out->is_gpu = 1;
  out->memory = (int64_t)memory;
  out->l2 = attribute(driver, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device);
  if (attribute(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device) == CU_COMPUTEMODE_PROHIBITED)
    return lo_fail(LAYEROPS_ERROR_NO_DEVICE,
                   "its compute mode is \"prohibited\" (nvidia-smi -c 0)");
  char text[256];
  if (lo_cuda_lacks_code(architecture, text, sizeof text))
    return lo_fail(LAYEROPS_ERROR_NO_DEVICE, "%s", text);
  return LAYEROPS_OK;
}

/* ---- With our CUDA context current */
#define WITHIN(ctx, call)                                                                          \
  bool pushed;                                                                                     \
  LO_TRY(lo_cuda_enter((ctx)->device, &pushed));                                                   \
  layerops_status status = call;                                                                   \
  lo_cuda_leave(pushed);                                                                           \
  return status
#define WITHIN_VOID(device, call)                                                                  \
  bool pushed;                                                                                     \
  if (lo_cuda_enter(device, &pushed) != LAYEROPS_OK) return;                                       \
  call;                                                                                            \
  lo_cuda_leave(pushed)

#define OPERATION(name, number)                                                                    \
  static layerops_status run_##name(layerops_context *ctx, const layerops_##name##_args *args) {   \
    WITHIN(ctx, lo_cuda_##name(ctx, args));                                                        \
  }
LAYEROPS_OP_LIST(OPERATION)
#undef OPERATION

static void close_context(layerops_context *ctx) {
  WITHIN_VOID(ctx->device, lo_cuda_close(ctx));
}
static layerops_status sync_context(layerops_context *ctx) {
  WITHIN(ctx, lo_cuda_sync(ctx));
}
static layerops_status wait_for(layerops_context *ctx, layerops_context *other) {
  WITHIN(ctx, lo_cuda_wait(ctx, other));
}
static layerops_status buffer_create(layerops_context *ctx, layerops_buffer *buffer) {
  WITHIN(ctx, lo_cuda_buffer_create(ctx, buffer));
}
static layerops_status buffer_wrap(layerops_context *ctx, layerops_buffer *buffer) {
  WITHIN(ctx, lo_cuda_buffer_wrap(ctx, buffer));
}
static void buffer_release(layerops_buffer *buffer) {
  WITHIN_VOID(buffer->device, lo_cuda_buffer_release(buffer));
}
static layerops_status write_buffer(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                                    const void *host, int64_t bytes) {
  WITHIN(ctx, lo_cuda_write(ctx, buffer, offset, host, bytes));
}
static layerops_status read_buffer(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                                   void *host, int64_t bytes) {
  WITHIN(ctx, lo_cuda_read(ctx, buffer, offset, host, bytes));
}
static layerops_status event_create(layerops_context *ctx, void **event) {
  WITHIN(ctx, lo_cuda_event_create(ctx, event));
}
static layerops_status event_record(layerops_context *ctx, void *event) {
  WITHIN(ctx, lo_cuda_event_record(ctx, event));
}
static layerops_status event_wait(layerops_context *ctx, void *event) {
  WITHIN(ctx, lo_cuda_event_wait(ctx, event));
}
static layerops_status event_elapsed(layerops_context *ctx, void *start, void *stop, double *ms) {
  WITHIN(ctx, lo_cuda_event_elapsed(ctx, start, stop, ms));
}
static void event_destroy(layerops_context *ctx, void *event) {
  WITHIN_VOID(ctx->device, lo_cuda_event_destroy(ctx, event));
}

static layerops_status tune_begin(layerops_context *ctx, const layerops_tune_args *args) {
  WITHIN(ctx, lo_cuda_tune_begin(ctx, args));
}
static layerops_status tune_end(layerops_context *ctx) {
  WITHIN(ctx, lo_cuda_tune_end(ctx));
}

static const struct lo_tuning_form tuning = {
    .begin = tune_begin, .end = tune_end, .list = lo_cuda_tune_list, .clear = lo_cuda_tune_clear};

static layerops_status graph_prepare(layerops_context *ctx, const lo_call *call) {
  WITHIN(ctx, lo_cuda_graph_prepare(ctx, call));
}
static layerops_status graph_create(layerops_context *ctx, const lo_call *calls, size_t count,
                                    void **native) {
  WITHIN(ctx, lo_cuda_graph_create(ctx, calls, count, native));
}
static layerops_status graph_replay(layerops_context *ctx, void *native) {
  WITHIN(ctx, lo_cuda_graph_replay(ctx, native));
}
static void graph_release(lo_device *device, void *native) {
  WITHIN_VOID(device, lo_cuda_graph_release(native));
}

static const struct lo_graph_form graphs = {.prepare = graph_prepare,
                                            .capturing = lo_cuda_graph_capturing,
                                            .create = graph_create,
                                            .replay = graph_replay,
                                            .release = graph_release};

static const char *refuses(layerops_context *ctx, layerops_op op, layerops_type type,
                           layerops_type second) {
  (void)ctx, (void)second; /* whatever the door lets in beside the first */
  bool moves = op == LAYEROPS_OP_fill || op == LAYEROPS_OP_copy || op == LAYEROPS_OP_transpose ||
               op == LAYEROPS_OP_gather;
  bool products = op == LAYEROPS_OP_gemm || op == LAYEROPS_OP_linear_forward;
  if (LO_FLOAT & LO_BIT(type)) return NULL;
  if (products && LO_BYTES & LO_BIT(type)) return NULL;
  if (!moves) return "supported: f32, f16, bf16";
  return LO_COPYABLE & LO_BIT(type) ? NULL
                                    : "supported: f32, f16, bf16, i32, i8, u8, f8e4m3, f8e5m2";
}

static layerops_status again_run(layerops_context *ctx, const lo_call *call, void **kept) {
  WITHIN(ctx, lo_cuda_again_run(ctx, call, kept));
}

static const struct lo_again_form again = {.run = again_run, .release = lo_cuda_again_release};

const struct lo_backend lo_backend_cuda = {
    .name = "cuda",
    .count = count,
    .info = info,
    .index_of = index_of,
    .open = lo_cuda_open,
    .close = close_context,
    .sync = sync_context,
    .wait = wait_for,
    .buffer_create = buffer_create,
    .buffer_wrap = buffer_wrap,
    .buffer_release = buffer_release,
    .write = write_buffer,
    .read = read_buffer,
    .event_create = event_create,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_elapsed = event_elapsed,
    .event_destroy = event_destroy,
    .bsr = &lo_cuda_bsr_form,
    .graphs = &graphs,
    .tuning = &tuning,
    .again = &again,
    .refuses = refuses,
    .ops =
        {
#define ENTRY(name, number) .name = run_##name,
            LAYEROPS_OP_LIST(ENTRY)
#undef ENTRY
        },
};

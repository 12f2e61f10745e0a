/* Buffers, and copies between them and host memory. */
#include <config.h>

#include <string.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/cuda.h"

/* Device memory is one address space: the alias check compares addresses. */
static void set_root(layerops_buffer *buffer) {
  buffer->root = NULL;
  buffer->root_offset = (int64_t)(intptr_t)buffer->native;
}

layerops_status lo_cuda_buffer_create(layerops_context *ctx, layerops_buffer *buffer) {
  cudaError_t error = cudaMalloc(&buffer->native, (size_t)buffer->bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "buffer_create: no memory for %lld bytes on %s",
                   (long long)buffer->bytes, ctx->device->name);
  }
  LO_TRY(lo_cuda_check(ctx, error, "buffer_create"));
  set_root(buffer);
  return LAYEROPS_OK;
}

/* Only an address that kernels of this device may use: they would fault on another, and lose the
 * device. */
layerops_status lo_cuda_buffer_wrap(layerops_context *ctx, layerops_buffer *buffer) {
  struct cudaPointerAttributes a = {0};
  LO_TRY(lo_cuda_check(ctx, cudaPointerGetAttributes(&a, buffer->native), "buffer_wrap"));
  bool ours = a.type == cudaMemoryTypeManaged ||
              (a.type == cudaMemoryTypeDevice && a.device == ctx->device->index);
  if (!ours)
    return lo_fail(LAYEROPS_ERROR_INVALID, "buffer_wrap: native is %p, no memory of %s",
                   buffer->native, ctx->device->name);
  size_t start = 0, size = 0;
  const lo_cuda_driver *driver = lo_cuda_driver_get();
  CUdeviceptr at = (CUdeviceptr)(uintptr_t)buffer->native;
  if (driver->cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) ==
          CUDA_SUCCESS &&
      driver->cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at) == CUDA_SUCCESS &&
      (uint64_t)buffer->bytes > start + size - at)
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "buffer_wrap: bytes is %lld, but the memory at native ends after %lld",
                   (long long)buffer->bytes, (long long)(start + size - at));
  set_root(buffer);
  return LAYEROPS_OK;
}

/* cudaFree waits for queued work. */
void lo_cuda_buffer_release(layerops_buffer *buffer) {
  if (cudaFree(buffer->native) != cudaSuccess) cudaGetLastError();
}

/* ---- Copies */
#define HALF  ((int64_t)2 << 20)
#define SMALL ((int64_t)1 << 20) /* copies up to this size go through pinned memory */

static layerops_status make_pinned(layerops_context *ctx) {
  lo_cuda_state *s = lo_cuda(ctx);
  if (s->pinned) return LAYEROPS_OK;
  for (int i = 0; i < 2; i++)
    if (!s->used[i])
      LO_TRY(lo_cuda_check(ctx, cudaEventCreateWithFlags(&s->used[i], cudaEventDisableTiming),
                           "copy"));
  return lo_cuda_check(ctx, cudaMallocHost((void **)&s->pinned, (size_t)(2 * HALF)), "copy");
}

/* The next `bytes` of pinned memory. A half is used again when the queue has passed what was in it.
 */
static layerops_status take_pinned(layerops_context *ctx, int64_t bytes, char **out) {
  lo_cuda_state *s = lo_cuda(ctx);
  LO_TRY(make_pinned(ctx));
  if (s->filled + bytes > HALF) {
    LO_TRY(lo_cuda_check(ctx, cudaEventRecord(s->used[s->half], s->stream), "copy"));
    s->half = !s->half;
    s->filled = 0;
    LO_TRY(lo_cuda_check(ctx, cudaEventSynchronize(s->used[s->half]), "copy"));
  }
  *out = s->pinned + s->half * HALF + s->filled;
  s->filled += (bytes + 63) / 64 * 64;
  return LAYEROPS_OK;
}

layerops_status lo_cuda_write(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                              const void *host, int64_t bytes) {
  lo_cuda_state *s = lo_cuda(ctx);
  void *to = (char *)buffer->native + offset;
  if (bytes <= SMALL) {
    char *pinned;
    LO_TRY(take_pinned(ctx, bytes, &pinned));
    memcpy(pinned, host, (size_t)bytes);
    return lo_cuda_check(
        ctx, cudaMemcpyAsync(to, pinned, (size_t)bytes, cudaMemcpyHostToDevice, s->stream),
        "buffer_write");
  }
  /* The user's memory may be pinned, and is then read when the copy runs: wait for it. */
  LO_TRY(lo_cuda_check(ctx,
                       cudaMemcpyAsync(to, host, (size_t)bytes, cudaMemcpyHostToDevice, s->stream),
                       "buffer_write"));
  return lo_cuda_check(ctx, cudaStreamSynchronize(s->stream), "buffer_write");
}

layerops_status lo_cuda_read(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                             void *host, int64_t bytes) {
  lo_cuda_state *s = lo_cuda(ctx);
  const void *from = (const char *)buffer->native + offset;
  char *pinned = NULL;
  if (bytes <= SMALL) LO_TRY(take_pinned(ctx, bytes, &pinned));
  LO_TRY(lo_cuda_check(ctx,
                       cudaMemcpyAsync(pinned ? pinned : host, from, (size_t)bytes,
                                       cudaMemcpyDeviceToHost, s->stream),
                       "buffer_read"));
  LO_TRY(lo_cuda_finish(ctx));
  if (pinned) memcpy(host, pinned, (size_t)bytes);
  return LAYEROPS_OK;
}

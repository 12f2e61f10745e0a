#include <config.h>

#include <stdlib.h>

#include "common/door.h"
#include "common/process.h"

static layerops_status make(layerops_context *ctx, const char *function, int64_t bytes,
                            layerops_buffer **buffer) {
  LO_TRY(lo_enter(ctx, function));
  if (!buffer) return lo_fail(LAYEROPS_ERROR_INVALID, "%s: buffer is NULL", function);
  *buffer = NULL;
  if (bytes < 0)
    return lo_fail(LAYEROPS_ERROR_INVALID, "%s: bytes is %lld", function, (long long)bytes);
  layerops_buffer *b = calloc(1, sizeof *b);
  if (!b) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "%s: no memory", function);
  b->device = ctx->device;
  b->bytes = bytes;
  b->fork_generation = lo_fork_generation();
  b->number = lo_next_number();
  atomic_init(&b->references, 1);
  *buffer = b;
  return LAYEROPS_OK;
}

/* Keeps the buffer if status is OK, else frees its struct. */
static layerops_status keep(layerops_status status, layerops_buffer **buffer) {
  if (status != LAYEROPS_OK) {
    free(*buffer);
    *buffer = NULL;
  }
  return status;
}

layerops_status layerops_buffer_create(layerops_context *ctx, int64_t bytes,
                                       layerops_buffer **buffer) {
  LO_TRY(make(ctx, "buffer_create", bytes, buffer));
  (*buffer)->owned = true;
  return keep(bytes ? ctx->backend->buffer_create(ctx, *buffer) : LAYEROPS_OK, buffer);
}

layerops_status layerops_buffer_from(layerops_context *ctx, const void *host, int64_t bytes,
                                     layerops_buffer **buffer) {
  LO_TRY(layerops_buffer_create(ctx, bytes, buffer));
  layerops_status status = layerops_buffer_write(ctx, *buffer, host, bytes);
  if (status != LAYEROPS_OK) {
    layerops_buffer_destroy(*buffer);
    *buffer = NULL;
  }
  return status;
}

layerops_status layerops_buffer_wrap(layerops_context *ctx, void *native, int64_t bytes,
                                     layerops_buffer **buffer) {
  LO_TRY(make(ctx, "buffer_wrap", bytes, buffer));
  if (!native && bytes)
    return keep(lo_fail(LAYEROPS_ERROR_INVALID, "buffer_wrap: native is NULL, but bytes is %lld",
                        (long long)bytes),
                buffer);
  (*buffer)->native = native;
  return keep(bytes ? ctx->backend->buffer_wrap(ctx, *buffer) : LAYEROPS_OK, buffer);
}

void layerops_buffer_destroy(layerops_buffer *buffer) {
  if (!buffer || atomic_fetch_sub(&buffer->references, 1) != 1) return;
  bool ours =
      buffer->device->backend->host_memory || buffer->fork_generation == lo_fork_generation();
  if (buffer->owned && buffer->native && ours) buffer->device->backend->buffer_release(buffer);
  free(buffer);
}

static layerops_status check_range(layerops_context *ctx, const char *function,
                                   layerops_buffer *buffer, int64_t offset, const void *host,
                                   int64_t bytes) {
  LO_TRY(lo_enter(ctx, function));
  LO_TRY(lo_not_recording(ctx, function));
  if (!buffer) return lo_fail(LAYEROPS_ERROR_INVALID, "%s: buffer is NULL", function);
  if (buffer->device != ctx->device)
    return lo_fail(LAYEROPS_ERROR_INVALID, "%s: the buffer is on %s, the context on %s", function,
                   buffer->device->name, ctx->device->name);
  if (offset < 0 || bytes < 0 || offset > buffer->bytes || bytes > buffer->bytes - offset)
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "%s: offset %lld and bytes %lld leave the buffer of %lld bytes", function,
                   (long long)offset, (long long)bytes, (long long)buffer->bytes);
  if (!host && bytes)
    return lo_fail(LAYEROPS_ERROR_INVALID, "%s: host is NULL, but bytes is %lld", function,
                   (long long)bytes);
  return LAYEROPS_OK;
}

layerops_status layerops_buffer_write_at(layerops_context *ctx, layerops_buffer *buffer,
                                         int64_t offset, const void *host, int64_t bytes) {
  LO_TRY(check_range(ctx, "buffer_write", buffer, offset, host, bytes));
  return bytes ? ctx->backend->write(ctx, buffer, offset, host, bytes) : LAYEROPS_OK;
}

layerops_status layerops_buffer_read_at(layerops_context *ctx, layerops_buffer *buffer,
                                        int64_t offset, void *host, int64_t bytes) {
  LO_TRY(check_range(ctx, "buffer_read", buffer, offset, host, bytes));
  if (!bytes) return layerops_sync(ctx);
  LO_TRY(ctx->backend->read(ctx, buffer, offset, host, bytes));
  return lo_take_fault(ctx);
}

void *layerops_buffer_native(layerops_buffer *buffer) {
  return buffer ? buffer->native : NULL;
}
int64_t layerops_buffer_bytes(const layerops_buffer *buffer) {
  return buffer ? buffer->bytes : 0;
}

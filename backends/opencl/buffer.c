#include <config.h>

#include "backends/opencl/opencl.h"

layerops_status lo_cl_buffer_create(layerops_context *ctx, layerops_buffer *buffer) {
  lo_cl_context *c = lo_cl_of(ctx);
  cl_int error = CL_SUCCESS;
  if (buffer->bytes > c->device->largest_buffer)
    return lo_fail(
        LAYEROPS_ERROR_OUT_OF_MEMORY, "buffer_create: %lld bytes, but %s allows %lld in one buffer",
        (long long)buffer->bytes, ctx->device->name, (long long)c->device->largest_buffer);
  cl_mem memory = lo_cl.clCreateBuffer(c->world->context, CL_MEM_READ_WRITE, (size_t)buffer->bytes,
                                       NULL, &error);
  if (!memory) return lo_cl_failed(ctx, "clCreateBuffer", error, false);
  buffer->native = buffer->root = memory;
  return LAYEROPS_OK;
}

/* Two sub-buffers of one buffer share memory: the root tells. */
layerops_status lo_cl_buffer_wrap(layerops_context *ctx, layerops_buffer *buffer) {
  cl_mem memory = buffer->native, parent = NULL;
  cl_mem_object_type type = 0;
  size_t size = 0, offset = 0;
  cl_context owner = NULL;
  LO_CL_TRY(ctx, lo_cl.clGetMemObjectInfo(memory, CL_MEM_TYPE, sizeof type, &type, NULL));
  LO_CL_TRY(ctx, lo_cl.clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof size, &size, NULL));
  LO_CL_TRY(ctx, lo_cl.clGetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof owner, &owner, NULL));
  LO_CL_TRY(ctx, lo_cl.clGetMemObjectInfo(memory, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof parent,
                                          &parent, NULL));
  LO_CL_TRY(ctx, lo_cl.clGetMemObjectInfo(memory, CL_MEM_OFFSET, sizeof offset, &offset, NULL));
  if (type != CL_MEM_OBJECT_BUFFER)
    return lo_fail(LAYEROPS_ERROR_INVALID, "buffer_wrap: the cl_mem is not a buffer");
  if ((uint64_t)buffer->bytes > size)
    return lo_fail(LAYEROPS_ERROR_INVALID, "buffer_wrap: bytes is %lld, but the cl_mem has %zu",
                   (long long)buffer->bytes, size);
  if (owner != lo_cl_of(ctx)->world->context)
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "buffer_wrap: the cl_mem is not of the context's cl_context");
  buffer->root = parent ? parent : memory;
  buffer->root_offset = (int64_t)offset;
  return LAYEROPS_OK;
}

void lo_cl_buffer_release(layerops_buffer *buffer) {
  lo_cl.clReleaseMemObject(buffer->native); /* OpenCL keeps it until queued work is done */
}

layerops_status lo_cl_write(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                            const void *host, int64_t bytes) {
  LO_CL_TRY_WAIT(ctx,
                 lo_cl.clEnqueueWriteBuffer(lo_cl_of(ctx)->queue, buffer->native, CL_TRUE,
                                            (size_t)offset, (size_t)bytes, host, 0, NULL, NULL));
  return LAYEROPS_OK;
}

layerops_status lo_cl_read(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                           void *host, int64_t bytes) {
  LO_CL_TRY_WAIT(ctx,
                 lo_cl.clEnqueueReadBuffer(lo_cl_of(ctx)->queue, buffer->native, CL_TRUE,
                                           (size_t)offset, (size_t)bytes, host, 0, NULL, NULL));
  return lo_cl_fault_read(ctx);
}

/* Running a kernel. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"

static const int no_numbers[LO_CL_NUMBERS];

static layerops_status make_kernel(layerops_context *ctx, lo_cl_source source, const int *number,
                                   const char *name, lo_cl_kernel **kernel) {
  lo_cl_context *c = lo_cl_of(ctx);
  cl_program program;
  cl_int error = CL_SUCCESS;
  LO_TRY(lo_cl_program_get(ctx, c->world, source, number, &program));
  lo_cl_kernel *k = calloc(1, sizeof *k);
  if (!k) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "no memory for a kernel");
  k->source = source;
  k->name = name;
  memcpy(k->number, number, sizeof k->number);
  k->kernel = lo_cl.clCreateKernel(program, name, &error);
  if (!k->kernel) {
    free(k);
    return lo_cl_failed(ctx, "clCreateKernel", error, false);
  }
  k->next = c->kernels;
  *kernel = c->kernels = k;
  return LAYEROPS_OK;
}

static layerops_status get_kernel(layerops_context *ctx, lo_cl_source source, const int *number,
                                  const char *name, cl_kernel *kernel) {
  lo_cl_kernel *k = lo_cl_of(ctx)->kernels;
  while (k && (k->source != source || strcmp(k->name, name) ||
               memcmp(k->number, number, sizeof k->number)))
    k = k->next;
  if (!k) LO_TRY(make_kernel(ctx, source, number, name, &k));
  *kernel = k->kernel;
  return LAYEROPS_OK;
}

lo_cl_launch lo_cl_start(layerops_context *ctx, lo_cl_source source, const int *number,
                         const char *name) {
  lo_cl_launch l = {.ctx = ctx, .name = name};
  l.status = get_kernel(ctx, source, number ? number : no_numbers, name, &l.kernel);
  return l;
}

void lo_cl_bytes(lo_cl_launch *l, size_t size, const void *bytes) {
  if (l->status != LAYEROPS_OK) return;
  cl_int error = lo_cl.clSetKernelArg(l->kernel, l->next++, size, bytes);
  if (error != CL_SUCCESS) l->status = lo_cl_failed(l->ctx, "clSetKernelArg", error, false);
}

/* With several cl_contexts on a device, a buffer may be of another one than the queue. */
static layerops_status check_world(layerops_context *ctx, cl_mem memory) {
  lo_cl_context *c = lo_cl_of(ctx);
  cl_context owner = NULL;
  if (atomic_load_explicit(&c->device->world_count, memory_order_relaxed) == 1) return LAYEROPS_OK;
  LO_CL_TRY(ctx, lo_cl.clGetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof owner, &owner, NULL));
  if (owner == c->world->context) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_INVALID,
                 "a buffer belongs to another cl_context of %s than the context's queue",
                 ctx->device->name);
}

void lo_cl_memory(lo_cl_launch *l, const layerops_buffer *buffer) {
  if (l->status != LAYEROPS_OK) return;
  cl_mem memory = lo_cl_of(l->ctx)->world->nothing;
  if (buffer && buffer->native) {
    memory = buffer->native;
    l->status = check_world(l->ctx, memory);
  }
  lo_cl_bytes(l, sizeof memory, &memory);
}

void lo_cl_view_memory(lo_cl_launch *l, const layerops_matrix *view) {
  lo_cl_memory(l, lo_present(view) ? view->buffer : NULL);
}

void lo_cl_scalar_memory(lo_cl_launch *l, const layerops_scalar *scalar) {
  lo_cl_memory(l, scalar->kind == 2 ? scalar->buffer : NULL);
}

void lo_cl_fault_memory(lo_cl_launch *l) {
  cl_mem word = NULL;
  if (l->status == LAYEROPS_OK) l->status = lo_cl_fault_word(l->ctx, &word);
  lo_cl_bytes(l, sizeof word, &word);
}

void lo_cl_local(lo_cl_launch *l, int64_t count, size_t size) {
  lo_cl_bytes(l, (size_t)count * size, NULL);
}

layerops_status lo_cl_run(lo_cl_launch *l, int group, int64_t x, int64_t y, int64_t z) {
  if (l->status != LAYEROPS_OK) return l->status;
  size_t global[3] = {(size_t)x * (size_t)group, (size_t)y, (size_t)z};
  size_t local[3] = {(size_t)group, 1, 1};
  LO_CL_TRY(l->ctx, lo_cl.clEnqueueNDRangeKernel(lo_cl_of(l->ctx)->queue, l->kernel, 3, NULL,
                                                 global, local, 0, NULL, NULL));
  return LAYEROPS_OK;
}

lo_cl_view lo_cl_view_of(const layerops_matrix *m) {
  if (!lo_present(m)) return (lo_cl_view){0};
  return (lo_cl_view){m->offset, m->stride, m->batch_stride, m->type, 0};
}

lo_cl_scalar lo_cl_scalar_of(const layerops_scalar *s) {
  return s->kind == 2 ? (lo_cl_scalar){s->offset, 0, 0} : (lo_cl_scalar){-1, (float)s->value, 0};
}

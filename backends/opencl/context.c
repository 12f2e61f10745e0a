/* Queues, waiting, and what OpenCL's errors mean. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"

layerops_status lo_cl_failed(layerops_context *ctx, const char *call, cl_int error, bool waited) {
  const char *name = lo_cl_error_name(error);
  if (!strncmp(call, "lo_cl.", 6)) call += 6;
  int length = (int)strcspn(call, "(");
  switch (error) {
  case CL_OUT_OF_RESOURCES:
    if (waited) break;
    /* fall through */
  case CL_MEM_OBJECT_ALLOCATION_FAILURE:
  case CL_OUT_OF_HOST_MEMORY:
    return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "%s: %.*s: %s", ctx->device->name, length, call,
                   name);
  case CL_DEVICE_NOT_AVAILABLE:
  case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
    break;
  default:
    return lo_fail(LAYEROPS_ERROR_DEVICE, "%s: %.*s: %s (%d)", ctx->device->name, length, call,
                   name, (int)error);
  }
  return lo_device_lost(ctx, "%.*s: %s (%d)", length, call, name, (int)error);
}

/* ---- Opening ---- */

static layerops_status check_queue(layerops_context *ctx, cl_command_queue queue, cl_device_id mine,
                                   cl_context *context, bool *profiling) {
  cl_device_id device = NULL;
  cl_command_queue_properties properties = 0;
  LO_CL_TRY(ctx, lo_cl.clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL));
  LO_CL_TRY(ctx,
            lo_cl.clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof *context, context, NULL));
  LO_CL_TRY(ctx, lo_cl.clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties,
                                             &properties, NULL));
  if (device != mine)
    return lo_fail(LAYEROPS_ERROR_INVALID, "open: queue is not one of %s", ctx->device->name);
  if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
    return lo_fail(LAYEROPS_ERROR_INVALID, "open: queue runs out of order, but must run in order");
  *profiling = (properties & CL_QUEUE_PROFILING_ENABLE) != 0;
  return LAYEROPS_OK;
}

static layerops_status take_queue(layerops_context *ctx, lo_cl_context *c, cl_command_queue queue) {
  cl_context context;
  LO_TRY(check_queue(ctx, queue, c->device->id, &context, &c->profiling));
  LO_TRY(lo_cl_world_enter(ctx, c->device, context, &c->world));
  LO_CL_TRY(ctx, lo_cl.clRetainCommandQueue(queue));
  c->queue = queue;
  return LAYEROPS_OK;
}

static layerops_status make_queue(layerops_context *ctx, lo_cl_context *c) {
  cl_int error = CL_SUCCESS;
  LO_TRY(lo_cl_world_enter(ctx, c->device, NULL, &c->world));
  c->profiling = true;
  c->queue = lo_cl.clCreateCommandQueue(c->world->context, c->device->id, CL_QUEUE_PROFILING_ENABLE,
                                        &error);
  return c->queue ? LAYEROPS_OK : lo_cl_failed(ctx, "clCreateCommandQueue", error, false);
}

static void destroy(lo_cl_context *c) {
  while (c->kernels) {
    lo_cl_kernel *k = c->kernels;
    c->kernels = k->next;
    lo_cl.clReleaseKernel(k->kernel);
    free(k);
  }
  if (c->fault) lo_cl.clReleaseMemObject(c->fault);
  if (c->queue) lo_cl.clReleaseCommandQueue(c->queue);
  if (c->world) lo_cl_world_leave(c->world);
  free(c);
}

layerops_status lo_cl_open(layerops_context *ctx, int index, const layerops_open_args *args) {
  lo_cl_context *c = calloc(1, sizeof *c);
  if (!c) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "open: no memory");
  layerops_status status = lo_cl_device_get(ctx, index, &c->device);
  if (status == LAYEROPS_OK)
    status = args->queue ? take_queue(ctx, c, args->queue) : make_queue(ctx, c);
  if (status != LAYEROPS_OK) {
    destroy(c);
    return status;
  }
  ctx->state = c;
  return LAYEROPS_OK;
}

void lo_cl_close(layerops_context *ctx) {
  destroy(ctx->state);
}

/* ---- Waiting ---- */

layerops_status lo_cl_sync(layerops_context *ctx) {
  LO_CL_TRY_WAIT(ctx, lo_cl.clFinish(lo_cl_of(ctx)->queue));
  return lo_cl_fault_read(ctx);
}

layerops_status lo_cl_wait(layerops_context *ctx, layerops_context *other) {
  lo_cl_context *c = lo_cl_of(ctx), *o = lo_cl_of(other);
  cl_event mark = NULL;
  if (c->queue == o->queue) return LAYEROPS_OK;
  if (c->world != o->world) { /* events do not cross from one cl_context to another */
    LO_CL_TRY_WAIT(ctx, lo_cl.clFinish(o->queue));
    return LAYEROPS_OK;
  }
  LO_CL_TRY(ctx, lo_cl.clEnqueueMarkerWithWaitList(o->queue, 0, NULL, &mark));
  cl_int error = lo_cl.clFlush(o->queue);
  if (error == CL_SUCCESS) error = lo_cl.clEnqueueBarrierWithWaitList(c->queue, 1, &mark, NULL);
  lo_cl.clReleaseEvent(mark);
  return error == CL_SUCCESS ? LAYEROPS_OK
                             : lo_cl_failed(ctx, "clEnqueueBarrierWithWaitList", error, false);
}

/* ---- The error word ---- */

static layerops_status clear_fault_word(layerops_context *ctx) {
  static const cl_int clear[LO_CL_FAULT_WORDS];
  lo_cl_context *c = lo_cl_of(ctx);
  LO_CL_TRY_WAIT(ctx, lo_cl.clEnqueueWriteBuffer(c->queue, c->fault, CL_TRUE, 0, sizeof clear,
                                                 clear, 0, NULL, NULL));
  return LAYEROPS_OK;
}

layerops_status lo_cl_fault_word(layerops_context *ctx, cl_mem *word) {
  lo_cl_context *c = lo_cl_of(ctx);
  if (!c->fault) {
    cl_int error = CL_SUCCESS;
    c->fault = lo_cl.clCreateBuffer(c->world->context, CL_MEM_READ_WRITE,
                                    LO_CL_FAULT_WORDS * sizeof(cl_int), NULL, &error);
    if (!c->fault) return lo_cl_failed(ctx, "clCreateBuffer", error, false);
    LO_TRY(clear_fault_word(ctx));
  }
  c->may_fault = true;
  *word = c->fault;
  return LAYEROPS_OK;
}

static int64_t whole(const cl_int *halves) {
  return (int64_t)((uint64_t)(uint32_t)halves[1] << 32 | (uint32_t)halves[0]);
}

layerops_status lo_cl_fault_read(layerops_context *ctx) {
  lo_cl_context *c = lo_cl_of(ctx);
  cl_int word[LO_CL_FAULT_WORDS];
  if (!c->may_fault) return LAYEROPS_OK;
  LO_CL_TRY_WAIT(ctx, lo_cl.clEnqueueReadBuffer(c->queue, c->fault, CL_TRUE, 0, sizeof word, word,
                                                0, NULL, NULL));
  c->may_fault = false;
  if (!word[LO_CL_FAULT_SET]) return LAYEROPS_OK;
  bool labels = word[LO_CL_FAULT_KIND] == LO_CL_FAULT_LABELS;
  lo_fault(ctx, LAYEROPS_ERROR_LABEL, "%s: %s[%lld] is %d, but must lie in [0, %lld)",
           labels ? "cross_entropy" : "gather", labels ? "labels" : "index",
           (long long)whole(&word[LO_CL_FAULT_AT]), (int)word[LO_CL_FAULT_VALUE],
           (long long)whole(&word[LO_CL_FAULT_LIMIT]));
  return clear_fault_word(ctx);
}

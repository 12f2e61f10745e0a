/* Events: a marker in the queue. Its time is the device's where the queue takes times; a user's
 * queue may not, then recording waits and takes the host's. */
#include <config.h>

#include <stdlib.h>
#include <time.h>

#include "backends/opencl/opencl.h"

typedef struct mark {
  cl_event event;
  bool recorded;
  double time; /* milliseconds, where the queue takes none */
} mark;

static void forget(mark *m) {
  if (m->event) lo_cl.clReleaseEvent(m->event);
  m->event = NULL;
  m->recorded = false;
}

layerops_status lo_cl_event_create(layerops_context *ctx, void **event) {
  (void)ctx;
  *event = calloc(1, sizeof(mark));
  return *event ? LAYEROPS_OK : lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "event_create: no memory");
}

layerops_status lo_cl_event_record(layerops_context *ctx, void *event) {
  lo_cl_context *c = lo_cl_of(ctx);
  mark *m = event;
  forget(m);
  if (c->profiling) {
    LO_CL_TRY(ctx, lo_cl.clEnqueueMarkerWithWaitList(c->queue, 0, NULL, &m->event));
  } else {
    struct timespec now;
    LO_CL_TRY_WAIT(ctx, lo_cl.clFinish(c->queue));
    clock_gettime(CLOCK_MONOTONIC, &now);
    m->time = 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
  }
  m->recorded = true;
  return LAYEROPS_OK;
}

static layerops_status check_recorded(const mark *m, const char *function) {
  if (m->recorded) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_STATE, "%s: the event is not recorded", function);
}

layerops_status lo_cl_event_wait(layerops_context *ctx, void *event) {
  mark *m = event;
  LO_TRY(check_recorded(m, "event_wait"));
  if (m->event) LO_CL_TRY_WAIT(ctx, lo_cl.clWaitForEvents(1, &m->event));
  return LAYEROPS_OK;
}

static layerops_status time_of(layerops_context *ctx, mark *m, double *ms) {
  cl_ulong ns = 0;
  *ms = m->time;
  if (!m->event) return LAYEROPS_OK;
  LO_CL_TRY(
      ctx, lo_cl.clGetEventProfilingInfo(m->event, CL_PROFILING_COMMAND_END, sizeof ns, &ns, NULL));
  *ms = 1e-6 * (double)ns;
  return LAYEROPS_OK;
}

static layerops_status check_reached(layerops_context *ctx, mark *m) {
  LO_TRY(check_recorded(m, "event_elapsed"));
  return lo_cl_event_wait(ctx, m);
}

layerops_status lo_cl_event_elapsed(layerops_context *ctx, void *start, void *stop, double *ms) {
  double a, b;
  LO_TRY(check_reached(ctx, start));
  LO_TRY(check_reached(ctx, stop));
  LO_TRY(time_of(ctx, start, &a));
  LO_TRY(time_of(ctx, stop, &b));
  *ms = b - a;
  return LAYEROPS_OK;
}

void lo_cl_event_destroy(layerops_context *ctx, void *event) {
  (void)ctx;
  forget(event);
  free(event);
}

#include <config.h>

#include <stdlib.h>

#include "common/door.h"
#include "common/process.h"

layerops_status layerops_event_create(layerops_context *ctx, layerops_event **event) {
  LO_TRY(lo_enter(ctx, "event_create"));
  if (!event) return lo_fail(LAYEROPS_ERROR_INVALID, "event_create: event is NULL");
  *event = NULL;
  layerops_event *e = calloc(1, sizeof *e);
  if (!e) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "event_create: no memory");
  e->ctx = ctx;
  layerops_status status = ctx->backend->event_create(ctx, &e->native);
  if (status != LAYEROPS_OK) {
    free(e);
    return status;
  }
  *event = e;
  return LAYEROPS_OK;
}

static layerops_status enter(layerops_event *event, const char *function) {
  if (!event) return lo_fail(LAYEROPS_ERROR_INVALID, "%s: event is NULL", function);
  LO_TRY(lo_enter(event->ctx, function));
  return lo_not_recording(event->ctx, function);
}

layerops_status layerops_event_record(layerops_event *event) {
  LO_TRY(enter(event, "event_record"));
  return event->ctx->backend->event_record(event->ctx, event->native);
}

layerops_status layerops_event_wait(layerops_event *event) {
  LO_TRY(enter(event, "event_wait"));
  return event->ctx->backend->event_wait(event->ctx, event->native);
}

layerops_status layerops_event_elapsed(layerops_event *start, layerops_event *stop,
                                       double *milliseconds) {
  LO_TRY(enter(start, "event_elapsed"));
  LO_TRY(enter(stop, "event_elapsed"));
  if (!milliseconds) return lo_fail(LAYEROPS_ERROR_INVALID, "event_elapsed: milliseconds is NULL");
  if (start->ctx != stop->ctx)
    return lo_fail(LAYEROPS_ERROR_INVALID, "event_elapsed: the events are of two contexts");
  return start->ctx->backend->event_elapsed(start->ctx, start->native, stop->native, milliseconds);
}

void layerops_event_destroy(layerops_event *event) {
  if (!event) return;
  layerops_context *ctx = event->ctx;
  if (ctx->backend->host_memory || ctx->fork_generation == lo_fork_generation())
    ctx->backend->event_destroy(ctx, event->native);
  free(event);
}

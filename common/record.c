/* Record and replay: a list of checked calls, and what the device makes of it. */
#include <config.h>

#include <stdlib.h>

#include "common/call.h"
#include "common/door.h"
#include "common/process.h"

struct layerops_graph {
  layerops_context *ctx;
  lo_device *device;
  unsigned fork_generation;
  lo_call *calls;
  size_t count, capacity;
  void *native; /* the device's own form; NULL: the list is run */
};

layerops_status layerops_prepare_(layerops_context *ctx, layerops_op op, const void *args,
                                  size_t size) {
  LO_TRY(lo_enter(ctx, "prepare"));
  layerops_status status = LAYEROPS_ERROR_INVALID;
  ctx->preparing = true;
  switch (op) {
#define X(name, number)                                                                            \
  case LAYEROPS_OP_##name:                                                                         \
    status = layerops_##name##_(ctx, args, size);                                                  \
    break;
    LAYEROPS_OP_LIST(X)
#undef X
  case LAYEROPS_OP_COUNT:
  default:
    status = lo_fail(LAYEROPS_ERROR_INVALID, "prepare: unknown operation %d", (int)op);
  }
  ctx->preparing = false;
  return status;
}

static layerops_status append(layerops_graph *g, const lo_call *call) {
  if (g->count == g->capacity) {
    size_t capacity = g->capacity ? 2 * g->capacity : 16;
    lo_call *calls = realloc(g->calls, capacity * sizeof *calls);
    if (!calls)
      return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "record: no memory for %zu calls", capacity);
    g->calls = calls;
    g->capacity = capacity;
  }
  g->calls[g->count++] = *call;
  return LAYEROPS_OK;
}

layerops_status lo_record(layerops_context *ctx, const lo_call *call) {
  LO_TRY(lo_call_prepare(ctx, call));
  return append(ctx->recording, call);
}

layerops_status layerops_record_begin(layerops_context *ctx) {
  LO_TRY(lo_enter(ctx, "record_begin"));
  if (ctx->recording)
    return lo_fail(LAYEROPS_ERROR_STATE, "record_begin: the context is recording already");
  layerops_graph *g = calloc(1, sizeof *g);
  if (!g) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "record_begin: no memory");
  g->ctx = ctx;
  g->device = ctx->device;
  g->fork_generation = ctx->fork_generation;
  ctx->recording = g;
  return LAYEROPS_OK;
}

/* Where each call has its verbose line, with its time, calls stay a list. */
static layerops_status make_native(layerops_context *ctx, layerops_graph *g) {
  const struct lo_graph_form *form = ctx->backend->graphs;
  if (!form || !g->count || ctx->verbose) return LAYEROPS_OK;
  LO_TRY(form->create(ctx, g->calls, g->count, &g->native));
  free(g->calls);
  g->calls = NULL;
  return LAYEROPS_OK;
}

layerops_status layerops_record_end(layerops_context *ctx, layerops_graph **graph) {
  if (graph) *graph = NULL;
  LO_TRY(lo_enter(ctx, "record_end"));
  if (!ctx->recording)
    return lo_fail(LAYEROPS_ERROR_STATE, "record_end: the context is not recording");
  if (!graph) return lo_fail(LAYEROPS_ERROR_INVALID, "record_end: graph is NULL");
  layerops_graph *g = ctx->recording;
  ctx->recording = NULL;
  layerops_status status = make_native(ctx, g);
  if (status != LAYEROPS_OK)
    layerops_graph_destroy(g);
  else
    *graph = g;
  return status;
}

layerops_status layerops_graph_replay(layerops_graph *graph) {
  if (!graph) return lo_fail(LAYEROPS_ERROR_INVALID, "graph_replay: graph is NULL");
  LO_TRY(lo_enter(graph->ctx, "graph_replay"));
  LO_TRY(lo_not_recording(graph->ctx, "graph_replay"));
  if (graph->native) return graph->ctx->backend->graphs->replay(graph->ctx, graph->native);
  for (size_t i = 0; i < graph->count; i++) LO_TRY(lo_call_run(graph->ctx, &graph->calls[i]));
  return LAYEROPS_OK;
}

void layerops_graph_destroy(layerops_graph *graph) {
  if (!graph) return;
  if (graph->native && graph->fork_generation == lo_fork_generation())
    graph->device->backend->graphs->release(graph->device, graph->native);
  free(graph->calls);
  free(graph);
}

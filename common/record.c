/* Record and replay: a list of checked calls. */
#include <config.h>

#include <stdlib.h>

#include "common/call.h"
#include "common/door.h"

struct layerops_graph {
  layerops_context *ctx;
  lo_call *calls;
  size_t count, capacity;
};

layerops_status lo_record(layerops_context *ctx, const lo_call *call) {
  layerops_graph *g = ctx->recording;
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

layerops_status layerops_record_begin(layerops_context *ctx) {
  LO_TRY(lo_enter(ctx, "record_begin"));
  if (ctx->recording)
    return lo_fail(LAYEROPS_ERROR_STATE, "record_begin: the context is recording already");
  layerops_graph *g = calloc(1, sizeof *g);
  if (!g) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "record_begin: no memory");
  g->ctx = ctx;
  ctx->recording = g;
  return LAYEROPS_OK;
}

layerops_status layerops_record_end(layerops_context *ctx, layerops_graph **graph) {
  LO_TRY(lo_enter(ctx, "record_end"));
  if (!ctx->recording)
    return lo_fail(LAYEROPS_ERROR_STATE, "record_end: the context is not recording");
  if (!graph) return lo_fail(LAYEROPS_ERROR_INVALID, "record_end: graph is NULL");
  *graph = ctx->recording;
  ctx->recording = NULL;
  return LAYEROPS_OK;
}

layerops_status layerops_graph_replay(layerops_graph *graph) {
  if (!graph) return lo_fail(LAYEROPS_ERROR_INVALID, "graph_replay: graph is NULL");
  LO_TRY(lo_enter(graph->ctx, "graph_replay"));
  LO_TRY(lo_not_recording(graph->ctx, "graph_replay"));
  for (size_t i = 0; i < graph->count; i++) LO_TRY(lo_call_run(graph->ctx, &graph->calls[i]));
  return LAYEROPS_OK;
}

void layerops_graph_destroy(layerops_graph *graph) {
  if (!graph) return;
  free(graph->calls);
  free(graph);
}

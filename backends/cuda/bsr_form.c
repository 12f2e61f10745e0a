/* Block-sparse weights of 16-bit types have their heads and items (bsr_heads.h), where units make
 * up their blocks steps and chunks (bsr_plan.h), and where blocks are large spans (bsr_spans.c), on
 * the device as long as they live. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "backends/cuda/bsr_heads.h"
#include "backends/cuda/bsr_plan.h"
#include "backends/cuda/cuda.h"
#include "common/bsr.h"

typedef struct parts {
  lo_bsr_steps by[2];
  lo_bsr_chunks chunks;
  lo_bsr_words heads[2], items;
  int run_tile;
  lo_bsr_spans spans[3];
} parts;

static void free_parts(parts *p) {
  lo_cuda_bsr_steps_free(&p->by[0]);
  lo_cuda_bsr_steps_free(&p->by[1]);
  lo_cuda_bsr_chunks_free(&p->chunks);
  free(p->heads[0].words);
  free(p->heads[1].words);
  free(p->items.words);
  for (int i = 0; i < 3; i++) lo_cuda_bsr_spans_free(&p->spans[i]);
}

static layerops_status make_spans(const layerops_bsr *w, parts *p) {
  lo_bsr_spans *spans = p->spans;
  p->run_tile = lo_cuda_bsr_run_tile(w);
  if (p->run_tile < 0) return LAYEROPS_OK;
  LO_TRY(lo_cuda_bsr_lines_make(w->host.row_start, w->block_rows, &spans[LO_CU_BSR_FORWARD]));
  LO_TRY(lo_cuda_bsr_lines_make(w->host.col_start, w->block_cols, &spans[LO_CU_BSR_DGRAD]));
  return lo_cuda_bsr_runs_make(w, p->run_tile, &spans[LO_CU_BSR_WGRAD]);
}

static layerops_status make_parts(layerops_context *ctx, const layerops_bsr *w, int shape,
                                  parts *p) {
  LO_TRY(lo_cuda_bsr_heads_make(w, false, &p->heads[0]));
  LO_TRY(lo_cuda_bsr_heads_make(w, true, &p->heads[1]));
  LO_TRY(lo_cuda_bsr_items_make(w, &p->items));
  if (shape < 0) return LAYEROPS_OK;
  LO_TRY(lo_cuda_bsr_steps_make(w, shape, false, &p->by[0]));
  LO_TRY(lo_cuda_bsr_steps_make(w, shape, true, &p->by[1]));
  LO_TRY(lo_cuda_bsr_chunks_make(w, shape, lo_cuda(ctx)->device->sms, &p->chunks));
  return make_spans(w, p);
}

/* Places numbers on a border of 16 bytes; returns how many bytes are taken by then. */
static int64_t place(char *memory, int64_t at, const int32_t *from, int64_t count, int64_t *where) {
  const int64_t bytes = count * (int64_t)sizeof *from;
  *where = at;
  if (memory && bytes) memcpy(memory + at, from, (size_t)bytes);
  return (at + bytes + 15) / 16 * 16;
}

static int64_t place_all(const parts *p, char *memory, lo_cuda_bsr *out) {
  int64_t at = 0;
  for (int i = 0; i < 2; i++) {
    const lo_bsr_steps *s = &p->by[i];
    const lo_bsr_words *heads = &p->heads[i];
    at = place(memory, at, heads->words, heads->count * LO_CU_BSR_HEAD_WORDS, &out->by[i].heads);
    if (out->shape < 0) continue;
    out->by[i].groups = s->groups;
    at = place(memory, at, s->words, s->words_count, &out->by[i].steps);
    at = place(memory, at, s->first, s->groups + 1, &out->by[i].first);
    at = place(memory, at, s->order, s->groups, &out->by[i].order);
  }
  out->item_count = p->items.count;
  at = place(memory, at, p->items.words, p->items.count * LO_CU_BSR_ITEM_WORDS, &out->items);
  out->run_tile = p->run_tile;
  for (int i = 0; i < 3; i++) {
    out->spans[i].count = p->spans[i].count;
    at = place(memory, at, p->spans[i].words, 4 * p->spans[i].count, &out->spans[i].at);
  }
  out->chunk_count = p->chunks.count;
  return place(memory, at, p->chunks.words, p->chunks.words_count, &out->chunks);
}

static layerops_status upload(layerops_context *ctx, const parts *p, lo_cuda_bsr *out) {
  const int64_t bytes = place_all(p, NULL, out);
  char *memory = lo_bsr_memory(bytes, 1);
  if (!memory) return lo_bsr_no_memory("bsr");
  place_all(p, memory, out);
  layerops_status status = layerops_buffer_from(ctx, memory, bytes, &out->buffer);
  free(memory);
  return status;
}

static layerops_status create(layerops_context *ctx, layerops_bsr *w) {
  const int shape = lo_cuda_bsr_shape(w);
  if (!lo_cuda_bsr_has_heads(w)) return LAYEROPS_OK;
  lo_cuda_bsr *out = lo_bsr_memory(1, sizeof *out);
  if (!out) return lo_bsr_no_memory("bsr");
  w->state = out;
  out->shape = shape;
  parts p = {.run_tile = -1};
  layerops_status status = make_parts(ctx, w, shape, &p);
  if (status == LAYEROPS_OK) status = upload(ctx, &p, out);
  free_parts(&p);
  return status;
}

static void release(layerops_bsr *w) {
  lo_cuda_bsr *state = w->state;
  if (!state) return;
  layerops_buffer_destroy(state->buffer);
  free(state);
}

const struct lo_bsr_form lo_cuda_bsr_form = {.create = create,
                                             .release = release,
                                             .index = lo_cuda_bsr_index,
                                             .scores = lo_cuda_bsr_scores,
                                             .gather = lo_cuda_bsr_gather,
                                             .scatter = lo_cuda_bsr_scatter,
                                             .clear = lo_cuda_bsr_clear};

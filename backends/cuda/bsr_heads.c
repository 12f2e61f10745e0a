/* What the direct kernels for block-sparse weights find out with one access to memory. */
#include <config.h>

#include <stdlib.h>

#include "backends/cuda/bsr_heads.h"
#include "common/bsr.h"

bool lo_cuda_bsr_has_heads(const layerops_bsr *w) {
  const int64_t most = INT32_MAX - 128; /* ends of ragged blocks, and what is added before it is
                                         * looked whether a list is at its end */
  return (w->type == LAYEROPS_F16 || w->type == LAYEROPS_BF16) && w->height >= 8 && w->width >= 8 &&
         w->rows <= most && w->cols <= most && w->count * (w->width / 8) <= most;
}

/* ---- Heads */
typedef struct line {
  int32_t number, begin, count; /* the blocks that it keeps: from `begin` on in the lists */
} line;

static int by_length(const void *a, const void *b) {
  const line *x = a, *y = b;
  if (x->count != y->count) return x->count > y->count ? -1 : 1;
  return x->number - y->number;
}

/* Where some are much longer than most these come first, so that nobody waits for them alone; else
 * neighbours stay side by side, as their values and columns of the result do in memory. */
static void list_lines(const layerops_bsr *w, bool by_columns, int64_t count, line *lines) {
  const int32_t *start = by_columns ? w->host.col_start : w->host.row_start;
  for (int64_t i = 0; i < count; i++)
    lines[i] = (line){(int32_t)i, start[i], start[i + 1] - start[i]};
  const int64_t longest = by_columns ? w->longest_col : w->longest_row;
  if (longest * count > 4 * w->count) qsort(lines, (size_t)count, sizeof *lines, by_length);
}

static void put_head(const layerops_bsr *w, bool by_columns, const line *l, int32_t *to) {
  const int32_t *index = by_columns ? w->host.row : w->host.column;
  to[0] = l->number;
  to[1] = l->count;
  to[2] = l->begin;
  for (int32_t i = 0; i < l->count && i < LO_CU_BSR_ENTRIES; i++) {
    to[4 + 2 * i] = index[l->begin + i];
    to[5 + 2 * i] = by_columns ? w->host.place[l->begin + i] : l->begin + i;
  }
}

layerops_status lo_cuda_bsr_heads_make(const layerops_bsr *w, bool by_columns,
                                       lo_bsr_words *heads) {
  const int64_t count = by_columns ? w->block_cols : w->block_rows;
  line *lines = lo_bsr_memory(count, sizeof *lines);
  int32_t *to = lo_bsr_memory(count * LO_CU_BSR_HEAD_WORDS, sizeof *to);
  *heads = (lo_bsr_words){to, count};
  if (lines && to) {
    list_lines(w, by_columns, count, lines);
    for (int64_t i = 0; i < count; i++)
      put_head(w, by_columns, &lines[i], to + i * LO_CU_BSR_HEAD_WORDS);
  }
  free(lines);
  return lines && to ? LAYEROPS_OK : lo_bsr_no_memory("bsr");
}

/* ---- Items of the gradient of the weights */

/* Those of a line, one after the other; where `to` is NULL they are counted only. */
static int64_t put_items(const layerops_bsr *w, int64_t row, int32_t *to) {
  const int32_t *start = w->host.row_start + row;
  const int32_t each = (int32_t)(w->width / 8), first = start[0] * each, end = start[1] * each;
  int64_t items = 0;
  for (int32_t c = first; c < end; c += LO_CU_BSR_CHUNKS, items++) {
    if (!to) continue;
    *to++ = (int32_t)row;
    *to++ = c;
    for (int32_t i = c; i < c + LO_CU_BSR_CHUNKS; i++)
      *to++ = i < end ? w->host.column[i / each] * (int32_t)w->width + i % each * 8 : -1;
  }
  return items;
}

layerops_status lo_cuda_bsr_items_make(const layerops_bsr *w, lo_bsr_words *items) {
  *items = (lo_bsr_words){0};
  for (int64_t r = 0; r < w->block_rows; r++) items->count += put_items(w, r, NULL);
  items->words = lo_bsr_memory(items->count * LO_CU_BSR_ITEM_WORDS, sizeof *items->words);
  if (!items->words) return lo_bsr_no_memory("bsr");
  int32_t *to = items->words;
  for (int64_t r = 0; r < w->block_rows; r++) to += put_items(w, r, to) * LO_CU_BSR_ITEM_WORDS;
  return LAYEROPS_OK;
}

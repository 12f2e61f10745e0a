/* The kept blocks of lines, and runs of them, that Hopper's kernels go by (bsr_wgmma.cuh). */
#include <config.h>

#include <stdlib.h>

#include "backends/cuda/bsr_plan.h"
#include "common/bsr.h"

enum { WORDS = 4 };

static const struct {
  int rows, blocks, width; /* GM * 64; GN * TALL; BN */
} tiles[] = {
#define X(NAME, GM, GN, TALL, BN, STAGES) {64 * (GM), (GN) * (TALL), BN},
    LO_CU_BSR_RUN_TILES(X)
#undef X
};

int lo_cuda_bsr_run_tile(const layerops_bsr *w) {
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
    if (w->height % tiles[i].rows == 0 && w->width == tiles[i].width) return (int)i;
  return -1;
}

/* The longest first; equals in their order. */
static int by_length(const void *a, const void *b) {
  const int32_t *x = a, *y = b, first = x[2] - x[1], second = y[2] - y[1];
  if (first != second) return first > second ? -1 : 1;
  return (x[0] > y[0]) - (x[0] < y[0]);
}

static layerops_status make(int64_t count, lo_bsr_spans *spans) {
  *spans = (lo_bsr_spans){lo_bsr_memory(count, WORDS * sizeof *spans->words), count};
  return spans->words ? LAYEROPS_OK : lo_bsr_no_memory("bsr");
}

static void put(int32_t *span, int64_t line, int32_t begin, int32_t end) {
  span[0] = (int32_t)line;
  span[1] = begin;
  span[2] = end;
}

layerops_status lo_cuda_bsr_lines_make(const int32_t *start, int64_t lines, lo_bsr_spans *spans) {
  LO_TRY(make(lines, spans));
  for (int64_t i = 0; i < lines; i++) put(spans->words + WORDS * i, i, start[i], start[i + 1]);
  qsort(spans->words, (size_t)lines, WORDS * sizeof *spans->words, by_length);
  return LAYEROPS_OK;
}

layerops_status lo_cuda_bsr_runs_make(const layerops_bsr *w, int tile, lo_bsr_spans *spans) {
  const int32_t *start = w->host.row_start, blocks = tiles[tile].blocks;
  int64_t count = 0;
  for (int64_t r = 0; r < w->block_rows; r++)
    count += (start[r + 1] - start[r] + blocks - 1) / blocks;
  LO_TRY(make(count, spans));
  int32_t *span = spans->words;
  for (int64_t r = 0; r < w->block_rows; r++)
    for (int32_t i = start[r]; i < start[r + 1]; i += blocks, span += WORDS)
      put(span, r, i, start[r + 1] - i < blocks ? start[r + 1] : i + blocks);
  return LAYEROPS_OK;
}

void lo_cuda_bsr_spans_free(lo_bsr_spans *spans) {
  free(spans->words);
  *spans = (lo_bsr_spans){0};
}

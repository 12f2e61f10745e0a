/* Operands of a main loop that adds groups of k: how they become words, and W packed. */
#include <config.h>

#include <string.h>

#include "backends/cpu/grouped_product.h"

static lo_grouped_words words_of(const lo_grouped *dot, const layerops_matrix *m, bool k_major) {
  return (lo_grouped_words){.type = m->type,
                            .row = m->stride,
                            .k_major = k_major,
                            .change =
                                dot->type == LAYEROPS_I32 ? LO_GROUPED_WIDEN : LO_GROUPED_COPY,
                            .size = dot->size};
}

lo_grouped_words lo_grouped_x(const lo_grouped *dot, const layerops_matrix *x, bool k_major) {
  lo_grouped_words words = words_of(dot, x, k_major);
  if (dot->type == LAYEROPS_U8 && x->type == LAYEROPS_I8) words.change = LO_GROUPED_FLIP;
  return words;
}

lo_grouped_words lo_grouped_w(const lo_grouped *dot, const layerops_matrix *w, bool k_major) {
  return words_of(dot, w, k_major);
}

void lo_grouped_pack_panels(const lo_isa *isa, const lo_grouped *dot, const lo_grouped_words *w,
                            int64_t k, int64_t columns, uint32_t *panels, int32_t *sums) {
  const int64_t words = lo_grouped_depth(dot, k), panel = dot->panel;
  const int64_t step = (w->k_major ? 1 : w->row) * (int64_t)layerops_type_size(w->type);
  lo_grouped_words part = *w;
  for (int64_t j = 0; j < columns; j += panel) {
    const int64_t here = columns - j < panel ? columns - j : panel;
    isa->grouped_panel(&part, here, k, words, panel, panels);
    if (sums) isa->grouped_sums(dot->size, panels, words, panel, sums + j);
    part.from += panel * step;
    panels += words * panel;
  }
}

/* ---- The whole of W ---- */

static int64_t panels_of(const lo_grouped *dot, int64_t n) {
  return (n + dot->panel - 1) / dot->panel;
}

int64_t lo_grouped_pack_bytes(const lo_grouped *dot, int64_t n, int64_t k) {
  return panels_of(dot, n) * dot->panel * (lo_grouped_depth(dot, k) + 1) * 4 +
         lo_grouped_dot_columns(dot, n, k) * lo_grouped_dot_row(dot, k);
}

typedef struct job {
  const lo_isa *isa;
  const lo_grouped_packed *packed;
  lo_grouped_words w;
  int64_t tasks;
} job;

static void pack_task(void *arg, int64_t task) {
  const job *t = arg;
  const lo_grouped_packed *to = t->packed;
  const int64_t panel = to->dot->panel, words = lo_grouped_depth(to->dot, to->k);
  int64_t begin, end;
  lo_share(panels_of(to->dot, to->n), t->tasks, task, &begin, &end);
  const int64_t j = begin * panel, j_end = end * panel < to->n ? end * panel : to->n;
  lo_grouped_words w = t->w;
  w.from += j * (w.k_major ? 1 : w.row) * (int64_t)layerops_type_size(w.type);
  lo_grouped_pack_panels(t->isa, to->dot, &w, to->k, j_end - j, to->panels + j * words,
                         to->dot->type == LAYEROPS_BF16 ? NULL : to->sums + j);
}

/* Rows a multiple of 4 KiB apart would fall into the same set of L1. */
static void pack_rows(const lo_grouped_packed *to, const lo_grouped_words *w) {
  const int64_t dots = lo_grouped_dot_columns(to->dot, to->n, to->k), size = to->dot->size;
  for (int64_t j = 0; j < dots && !w->k_major; j++)
    memcpy(to->rows + j * lo_grouped_dot_row(to->dot, to->k),
           w->from + (to->n - dots + j) * w->row * size, (size_t)(to->k * size));
}

void lo_grouped_pack(layerops_context *ctx, const lo_grouped *dot, const layerops_matrix *w,
                     bool k_major, void *memory, lo_grouped_packed *packed) {
  const int64_t n = k_major ? w->cols : w->rows, k = k_major ? w->rows : w->cols;
  const int64_t panels = panels_of(dot, n);
  *packed = (lo_grouped_packed){.dot = dot, .n = n, .k = k, .panels = memory};
  packed->sums = (int32_t *)(packed->panels + panels * dot->panel * lo_grouped_depth(dot, k));
  packed->rows = (char *)(packed->sums + panels * dot->panel);
  memset(packed->sums, 0, (size_t)(panels * dot->panel) * sizeof *packed->sums);
  job t = {lo_cpu_of(ctx)->isa, packed, lo_grouped_w(dot, w, k_major), 1};
  t.w.from = lo_plane_of(w, 0).base;
  t.tasks = lo_parallel_width(ctx, 0.1 * (double)n * (double)k);
  if (t.tasks > panels) t.tasks = panels;
  if (n && k) lo_parallel(ctx, t.tasks, pack_task, &t);
  pack_rows(packed, &t.w);
}

/* Elements of a run of words as they were before. */
static void restore_run(const lo_grouped *dot, const uint32_t *words, char *to, int64_t count) {
  const int16_t *wide = (const void *)words;
  if (dot->type != LAYEROPS_I32)
    memcpy(to, words, (size_t)(count * dot->size));
  else
    for (int64_t i = 0; i < count; i++) to[i] = (char)wide[i];
}

void lo_grouped_unpack(const lo_isa *isa, const lo_grouped_packed *packed,
                       const layerops_matrix *w) {
  enum { STRETCH = 64 };
  uint32_t rows[LO_GROUPED_PANEL * STRETCH];
  const lo_grouped *dot = packed->dot;
  const int64_t panel = dot->panel, words = lo_grouped_depth(dot, packed->k), group = 4 / dot->size;
  const int64_t size = (int64_t)layerops_type_size(w->type);
  char *to = lo_address(w);
  for (int64_t j = 0; j < packed->n && packed->k; j += panel)
    for (int64_t g = 0; g * group < packed->k; g += STRETCH) {
      const int64_t length = words - g < STRETCH ? words - g : STRETCH, k = g * group;
      const int64_t count = packed->k - k < length * group ? packed->k - k : length * group;
      const int64_t columns = packed->n - j < panel ? packed->n - j : panel;
      const float *from = (const float *)(const void *)(packed->panels + j * words + g * panel);
      isa->transpose(from, panel, (float *)(void *)rows, STRETCH, length, columns);
      for (int64_t c = 0; c < columns; c++)
        restore_run(dot, rows + c * STRETCH, to + ((j + c) * w->stride + k) * size, count);
    }
}

/* Panels of W: the one layout that microkernels read. */
#include <config.h>

#include <string.h>

#include "backends/cpu/product.h"

static int64_t whole_vectors(const lo_pack *w, int64_t cols) {
  int64_t lanes = w->isa->product->lanes;
  return (cols + lanes - 1) / lanes * lanes;
}

static void zero_columns(float *to, int64_t row, int64_t depth, int64_t from, int64_t end) {
  for (int64_t p = 0; p < depth; p++)
    for (int64_t j = from; j < end; j++) to[p * row + j] = 0.0f;
}

/* 16-bit columns are converted a stretch of k at a time, then transposed like f32. */
static void transpose_converted(const lo_pack *w, const char *from, int64_t depth, int64_t cols,
                                float *to) {
  enum { STRETCH = 64 };
  float rows[LO_MAX_PANEL * STRETCH];
  const int64_t size = (int64_t)layerops_type_size(w->type);
  for (int64_t p = 0; p < depth; p += STRETCH) {
    int64_t length = depth - p < STRETCH ? depth - p : STRETCH;
    w->isa->load_rows(w->type, from + p * size, w->row, rows, STRETCH, cols, length);
    w->isa->transpose(rows, STRETCH, to + p * w->panel, w->panel, cols, length);
  }
}

static void pack_panel(const lo_pack *w, const char *from, int64_t depth, int64_t cols, float *to) {
  if (w->k_major)
    w->isa->load_rows(w->type, from, w->row, to, w->panel, depth, cols);
  else if (w->type == LAYEROPS_F32)
    w->isa->transpose((const float *)(const void *)from, w->row, to, w->panel, cols, depth);
  else
    transpose_converted(w, from, depth, cols, to);
  int64_t end = whole_vectors(w, cols);
  if (cols < end) zero_columns(to, w->panel, depth, cols, end);
}

void lo_pack_panels(const lo_pack *w, int64_t depth, int64_t n, float *to) {
  const int64_t size = (int64_t)layerops_type_size(w->type);
  for (int64_t j = 0; j < n; j += w->panel) {
    int64_t cols = n - j < w->panel ? n - j : w->panel;
    pack_panel(w, w->from + j * (w->k_major ? 1 : w->row) * size, depth, cols, to);
    to += depth * w->panel;
  }
}

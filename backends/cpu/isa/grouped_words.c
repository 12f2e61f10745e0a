/* Operands of main loops that add groups of k, as words: a group's elements in the order of k,
 * zeros behind the last. */
#include <config.h>

#include "backends/cpu/isa/part.h"

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* ---- Elements that follow each other in k ---- */

static void change_bytes(const lo_grouped_words *w, const char *from, char *to, int64_t n) {
  const uint8_t *u = (const uint8_t *)from;
  const int8_t *s = (const int8_t *)from;
  int16_t *wide = (int16_t *)(void *)to;
  if (w->change == LO_GROUPED_COPY)
    memcpy(to, from, (size_t)(n * w->size));
  else if (w->change == LO_GROUPED_FLIP)
    for (int64_t i = 0; i < n; i++) to[i] = (char)(u[i] ^ 0x80);
  else if (w->type == LAYEROPS_U8)
    for (int64_t i = 0; i < n; i++) wide[i] = u[i];
  else
    for (int64_t i = 0; i < n; i++) wide[i] = s[i];
}

/* n elements, and zeros up to `words` words. */
static void change_run(const lo_grouped_words *w, const char *from, char *to, int64_t n,
                       int64_t words) {
  change_bytes(w, from, to, n);
  memset(to + n * w->size, 0, (size_t)(words * 4 - n * w->size));
}

/* ---- Elements a row apart ---- */

/* One word each of `outer` neighbours; r are the rows of its group. */
static void interleave(const lo_grouped_words *w, const char *const r[4], int64_t outer, char *to) {
  const uint16_t *h0 = (const void *)r[0], *h1 = (const void *)r[1];
  const uint8_t *u0 = (const void *)r[0], *u1 = (const void *)r[1], *u2 = (const void *)r[2],
                *u3 = (const void *)r[3];
  const int8_t *s0 = (const void *)r[0], *s1 = (const void *)r[1];
  const uint8_t flip = w->change == LO_GROUPED_FLIP ? 0x80 : 0;
  uint16_t *halves = (void *)to;
  uint8_t *bytes = (void *)to;
  if (w->size == 1)
    for (int64_t c = 0; c < outer; c++) {
      bytes[4 * c] = u0[c] ^ flip;
      bytes[4 * c + 1] = u1[c] ^ flip;
      bytes[4 * c + 2] = u2[c] ^ flip;
      bytes[4 * c + 3] = u3[c] ^ flip;
    }
  else if (w->change == LO_GROUPED_COPY)
    for (int64_t c = 0; c < outer; c++) halves[2 * c] = h0[c], halves[2 * c + 1] = h1[c];
  else if (w->type == LAYEROPS_U8)
    for (int64_t c = 0; c < outer; c++) halves[2 * c] = u0[c], halves[2 * c + 1] = u1[c];
  else
    for (int64_t c = 0; c < outer; c++) {
      halves[2 * c] = (uint16_t)s0[c];
      halves[2 * c + 1] = (uint16_t)s1[c];
    }
}

/* `words` words of k from k0 on, of `outer` neighbours: to[word][outer]. */
static void interleave_rows(const lo_grouped_words *w, int64_t outer, int64_t k0, int64_t k,
                            int64_t words, uint32_t *to, int64_t to_row) {
  static const char zeros[2 * LO_GROUPED_PANEL];
  const int64_t group = 4 / w->size, step = w->row * (int64_t)layerops_type_size(w->type);
  for (int64_t g = 0; g < words; g++) {
    const char *r[4];
    for (int64_t i = 0; i < 4; i++) {
      const int64_t at = k0 + g * group + i;
      r[i] = i < group && at < k ? w->from + at * step : zeros;
    }
    interleave(w, r, outer, (char *)(to + g * to_row));
  }
}

/* ---- Operands ---- */

enum { STRETCH = 64 };

static void transpose_words(const uint32_t *from, int64_t from_row, uint32_t *to, int64_t to_row,
                            int64_t rows, int64_t cols) {
  LO_ISA_NAME(lo_transpose)
  ((const float *)(const void *)from, from_row, (float *)(void *)to, to_row, rows, cols);
}

void LO_ISA_NAME(lo_grouped_rows)(const lo_grouped_words *w, int64_t rows, int64_t k, int64_t words,
                                  uint32_t *to, int64_t to_row) {
  const int64_t size = (int64_t)layerops_type_size(w->type), group = 4 / w->size;
  uint32_t across[STRETCH * LO_GROUPED_ROWS];
  if (!w->k_major) {
    for (int64_t r = 0; r < rows; r++)
      change_run(w, w->from + r * w->row * size, (char *)(to + r * to_row), k, words);
    return;
  }
  for (int64_t g = 0; g < words; g += STRETCH) {
    const int64_t length = least(words - g, STRETCH);
    interleave_rows(w, rows, g * group, k, length, across, LO_GROUPED_ROWS);
    transpose_words(across, LO_GROUPED_ROWS, to + g, to_row, length, rows);
  }
}

void LO_ISA_NAME(lo_grouped_panel)(const lo_grouped_words *w, int64_t columns, int64_t k,
                                   int64_t words, int64_t panel, uint32_t *to) {
  const int64_t size = (int64_t)layerops_type_size(w->type), group = 4 / w->size;
  uint32_t along[LO_GROUPED_PANEL * STRETCH];
  if (w->k_major) interleave_rows(w, columns, 0, k, words, to, panel);
  for (int64_t g = 0; !w->k_major && g < words; g += STRETCH) {
    const int64_t length = least(words - g, STRETCH), first = least(g * group, k),
                  count = least(length * group, k - first);
    for (int64_t c = 0; c < columns; c++)
      change_run(w, w->from + (c * w->row + first) * size, (char *)(along + c * STRETCH), count,
                 length);
    transpose_words(along, STRETCH, to + g * panel, panel, columns, length);
  }
  for (int64_t g = 0; columns < panel && g < words; g++)
    memset(to + g * panel + columns, 0, (size_t)(panel - columns) * sizeof *to);
}

void LO_ISA_NAME(lo_grouped_sums)(int size, const uint32_t *panel, int64_t words, int64_t width,
                                  int32_t *sums) {
  const int8_t *bytes = (const void *)panel;
  const int16_t *halves = (const void *)panel;
  if (size == 1)
    for (int64_t g = 0; g < words; g++, bytes += 4 * width)
      for (int64_t c = 0; c < width; c++)
        sums[c] += bytes[4 * c] + bytes[4 * c + 1] + bytes[4 * c + 2] + bytes[4 * c + 3];
  else
    for (int64_t g = 0; g < words; g++, halves += 2 * width)
      for (int64_t c = 0; c < width; c++) sums[c] += halves[2 * c] + halves[2 * c + 1];
}

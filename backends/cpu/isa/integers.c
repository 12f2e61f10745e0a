/* Tiles of integer sums: zero points, then scales. Over whole vectors, the tile's padding too. */
#include <config.h>

#include "backends/cpu/isa/part.h"

static void correct(const lo_integer_tile *t) {
  const lo_scaling *s = &t->scaling;
  for (int64_t r = 0; r < t->rows; r++) {
    uint32_t *row = (uint32_t *)t->sums + r * t->row;
    const uint32_t zero = (uint32_t)s->zero[r * s->zero_step] + (uint32_t)s->shift;
    for (int64_t c = 0; c < t->columns; c += VECTOR)
      for (int l = 0; l < VECTOR; l++) row[c + l] -= zero * (uint32_t)s->column[c + l];
  }
}

/* In place: an int32 becomes a float. */
static void scale(const lo_integer_tile *t) {
  const lo_scaling *s = &t->scaling;
  float columns[LO_GROUPED_PANEL] = {0};
  for (int64_t c = 0; c < t->columns; c++) columns[c] = s->column_scale[c * s->column_step];
  for (int64_t r = 0; r < t->rows; r++) {
    float scales[LO_GROUPED_PANEL];
    for (int l = 0; l < LO_GROUPED_PANEL; l++)
      scales[l] = s->row_scale[r * s->row_step] * columns[l];
    for (int64_t c = 0; c < t->columns; c += VECTOR) {
      int32_t sums[VECTOR];
      float x[VECTOR];
      memcpy(sums, t->sums + r * t->row + c, sizeof sums);
      for (int l = 0; l < VECTOR; l++) x[l] = (float)sums[l] * scales[c + l];
      memcpy(t->sums + r * t->row + c, x, sizeof x);
    }
  }
}

void LO_ISA_NAME(lo_integers)(const lo_integer_tile *t) {
  if (t->scaling.column) correct(t);
  if (t->scaling.row_scale) scale(t);
}

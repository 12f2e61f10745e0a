/* Element-wise work over matrices of one shape, in units of about 4096 elements that depend on the
 * shape and the strides alone: sums over a unit have the same bits whoever computes it. */
#ifndef LO_CPU_GRID_H
#define LO_CPU_GRID_H

#include "backends/cpu/cpu.h"

typedef struct lo_grid {
  int64_t rows, cols; /* the shape; one long row where no view has gaps */
  int64_t tall, wide; /* of a unit */
  int64_t across, units;
} lo_grid;

/* Absent views are passed over. */
lo_grid lo_grid_of(const layerops_matrix *const *views, int count);
/* Units of whole rows. */
lo_grid lo_grid_of_rows(int64_t rows, int64_t cols);

typedef struct lo_unit {
  int64_t index, i, rows, j, cols; /* rows i .. i + rows - 1, columns j .. j + cols - 1 */
} lo_unit;
typedef void (*lo_unit_fn)(void *arg, const lo_unit *unit);

/* Runs `body` for each unit; `ns` is about what an element costs on one core. */
void lo_grid_run(layerops_context *ctx, const lo_grid *grid, double ns, lo_unit_fn body, void *arg);

/* for each stretch of at most LO_SPAN elements of a unit: n elements from (i, j) on */
#define LO_FOR_SPANS(unit, i, j, n)                                                                \
  for (int64_t i = (unit)->i; i < (unit)->i + (unit)->rows; i++)                                   \
    for (int64_t j = (unit)->j, end_ = j + (unit)->cols, n;                                        \
         n = end_ - j < LO_SPAN ? end_ - j : LO_SPAN, j < end_; j += n)

#endif

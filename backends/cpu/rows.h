/* What softmax and cross-entropy know of a row. */
#ifndef LO_CPU_ROWS_H
#define LO_CPU_ROWS_H

#include "backends/cpu/grid.h"
#include "backends/cpu/product.h"
#include "backends/cpu/span.h"

typedef struct lo_row {
  float largest, sum, log_sum; /* sum of exp(x - largest); a NaN shows in it, not in the largest */
} lo_row;

/* Leaves exp(x - largest) in `exps`: of the whole row where that has room for it (`whole`; it may
 * be the row itself), else of its last LO_SPAN elements. */
lo_row lo_row_look(const lo_isa *isa, const lo_plane *x, int64_t i, int64_t n, float *exps,
                   bool whole);

/* exp(x - largest) of n <= LO_SPAN elements from (i, j) on. */
const float *lo_row_exps(const lo_isa *isa, const lo_plane *x, const lo_row *row, int64_t i,
                         int64_t j, int64_t n, float *exps);

/* ---- Narrow rows: LO_LANES at once, a row a lane ---- */

enum { LO_NARROW = 128 }; /* columns at most */

/* x[j * LO_LANES + r] = X[i + r, j] for r < count; the other lanes are 0. */
void lo_narrow_get(const lo_isa *isa, const lo_plane *from, int64_t i, int64_t count, int64_t n,
                   float *x);
/* And back. */
void lo_narrow_put(const lo_isa *isa, const lo_plane *to, int64_t i, int64_t count, int64_t n,
                   const float *x);

#endif

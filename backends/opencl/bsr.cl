/* Units of dW: `blocks` kept blocks that follow each other in a block row, or fewer at its end. Row r's begin
 * at unit row_start[r] / blocks + r, which leaves room for all, and at most one unit of a row is empty. */
typedef struct lo_unit {
  long row, first, count; /* the block row; kept blocks */
} lo_unit;

LO_FN long lo_first_unit(const lo_cl_bsr_gradient *p, __global const int *row_start, long row) {
  return (row_start[row] >> p->blocks_log2) + row;
}

/* The last row that begins at the block, or the unit, or before. */
#define LO_SEARCH(name, BEGIN)                                                                     \
  LO_FN long name(const lo_cl_bsr_gradient *p, __global const int *row_start, long wanted) {       \
    long row = 0, end = p->block_rows;                                                             \
    while (end - row > 1) {                                                                        \
      const long middle = (row + end) / 2;                                                         \
      if (BEGIN <= wanted)                                                                         \
        row = middle;                                                                              \
      else                                                                                         \
        end = middle;                                                                              \
    }                                                                                              \
    return row;                                                                                    \
  }
LO_SEARCH(lo_row_of, row_start[middle])
LO_SEARCH(lo_row_of_unit, lo_first_unit(p, row_start, middle))

LO_FN lo_unit lo_unit_of(const lo_cl_bsr_gradient *p, __global const int *row_start, long unit) {
  const long row = lo_row_of_unit(p, row_start, unit);
  const long first = row_start[row] + (unit - lo_first_unit(p, row_start, row)) * p->blocks;
  const lo_unit u = {row, first, clamp(row_start[row + 1] - first, 0L, p->blocks)};
  return u;
}

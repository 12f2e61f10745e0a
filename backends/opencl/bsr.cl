/* Units of dW: `blocks` kept blocks that follow each other in a block row, or fewer at its end. Row r's begin
 * at unit row_start[r] / blocks + r, which leaves room for all, and at most one unit of a row is empty. */
typedef struct lo_unit {
  long row, first, count; /* the block row; kept blocks */
} lo_unit;

LO_FN long lo_first_unit(const lo_cl_bsr_gradient *p, __global const int *row_start, long row) {
  return row_start[row] / p->blocks + row;
}

LO_FN lo_unit lo_unit_of(const lo_cl_bsr_gradient *p, __global const int *row_start, long unit) {
  long row = 0, end = p->block_rows; /* the last row that begins at the unit or before */
  while (end - row > 1) {
    const long middle = (row + end) / 2;
    if (lo_first_unit(p, row_start, middle) <= unit)
      row = middle;
    else
      end = middle;
  }
  const long first = row_start[row] + (unit - lo_first_unit(p, row_start, row)) * p->blocks;
  const lo_unit u = {row, first, clamp(row_start[row + 1] - first, 0L, p->blocks)};
  return u;
}

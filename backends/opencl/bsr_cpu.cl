/* Block-sparse: the kept blocks of a block row, NR wide and deep and transposed before, are the steps. */
LO_KERNEL(1)
void bsr(__global const float *x, __global const float *blocks, __global const int *row_start,
         __global const int *column, LO_TARGETS, lo_cl_bsr p) {
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const long row = get_group_id(0) * MR, block_row = p.block_row + get_group_id(1);
  const int begin = row_start[block_row], end = targets.alpha == 0.0f ? begin : row_start[block_row + 1];
  __global const float *pA[MR]; /* rows beyond the last are the last once more, and are dropped */
#pragma unroll
  for (int i = 0; i < MR; i++)
    pA[i] = x + p.a.offset + min(row + i, p.a.count - 1) * p.a.across;
  lo_vec rC[MR][NV];
  float tile[MR * NR];
  LO_CLEAR(rC);
  for (int step = begin; step < end; step++) {
    __global const float *pB = blocks + p.packed + (long)step * NR * NR; /* (NR,NR) */
    const long slab = (long)column[step] * NR;
#define LO_SLAB(i, l) pA[i][slab + (l)]
    LO_MULTIPLY(rC, LO_SLAB, pB, NR)
  }
  LO_STAGE(rC, tile);
  lo_finish_tile(&p.epilogue, &targets, tile, 0, row, p.a.count - row, block_row * NR, NR);
}

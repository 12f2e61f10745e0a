/* Block-sparse: the steps are slabs of BK of the kept blocks of a block row, BN wide and deep. */
LO_KERNEL(THREADS)
void bsr(lo_in x, lo_in blocks, __global const int *row_start, __global const int *column, LO_TARGETS,
         __local float *tile, lo_cl_bsr p) {
  __local float *sA = tile, *sB = tile + TILE_A;
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const int tx = get_local_id(0) % COLUMNS, ty = get_local_id(0) / COLUMNS;
  const long row = get_group_id(0) * BM, block_row = p.block_row + get_group_id(1);
  const int begin = row_start[block_row], end = targets.alpha == 0.0f ? begin : row_start[block_row + 1];
  const long gA = p.a.offset + row * p.a.across;
  float rC[TM][TN];
  LO_CLEAR(rC);
  for (int step = begin; step < end; step++)
    for (int k = 0; k < BN; k += BK) {
      lo_fetch(sA, x, TYPE, gA + (long)column[step] * BN + k, p.a.across, 1, 1, BM, p.a.count - row, BK);
      lo_fetch(sB, blocks, TYPE, (long)step * BN * BN + k, BN, 1, 1, BN, BN, BK);
      LO_MULTIPLY(rC, sA, sB);
    }
  LO_STAGE(rC, tile);
  lo_finish_tile(&p.epilogue, &targets, tile, 0, row, p.a.count - row, block_row * BN, BN);
}

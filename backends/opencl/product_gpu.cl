/* Dense: the steps are slabs of BK. */
LO_KERNEL(THREADS) void product(lo_in a, lo_in b, LO_TARGETS, __local float *tile,
                                lo_cl_product p) {
  __local float *sA = tile, *sB = tile + TILE_A;
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const int tx = get_local_id(0) % COLUMNS, ty = get_local_id(0) / COLUMNS;
  const long row = get_group_id(0) * BM, col = get_group_id(1) * BN, batch = get_group_id(2);
  const long depth = targets.alpha == 0.0f ? 0 : p.k;
  const long gA = p.a.offset + batch * p.a.batch_stride + row * p.a.across;
  const long gB = p.b.offset + batch * p.b.batch_stride + col * p.b.across;
  float rC[TM][TN];
  LO_CLEAR(rC);
  for (long k = 0; k < depth; k += BK) {
    lo_fetch(sA, a, TYPE, gA + k * p.a.along, p.a.across, p.a.along, FAST_A, BM, p.a.count - row,
             depth - k);
    lo_fetch(sB, b, TYPE, gB + k * p.b.along, p.b.across, p.b.along, FAST_B, BN, p.b.count - col,
             depth - k);
    LO_MULTIPLY(rC, sA, sB);
  }
  LO_STAGE(rC, tile, BN, 1);
  lo_finish_tile(&p.epilogue, &targets, tile, p.batch + batch, row, p.a.count - row, p.col + col,
                 p.b.count - col);
}

/* Products on GPUs: a group of THREADS work-items computes a tile of BM rows and BN columns, each item
 * TM x TN of it, strided so that neighbours read neighbouring words of local memory. Tiles of A and B
 * pass through local memory as f32; the finished tile is staged in the same memory. */
#define BK 16
#define TYPE (KIND / 4) /* of both operands */
#define FAST_A (KIND / 2 % 2)
#define FAST_B (KIND % 2)
#define COLUMNS (BN / TN) /* of items */
#define THREADS (BM / TM * COLUMNS)
#define PAD 1
#define TILE_A (BK * (BM + PAD))
#define TILE_B (BK * (BN + PAD))
#define TILES (BM * BN > TILE_A + TILE_B ? BM * BN : TILE_A + TILE_B)

/* (BK,width) of an operand: `rows` rows from element `base` on, `depth` steps. fast: its
 * elements are neighbours along k, else across rows. Zeros stand for what lies outside. */
LO_FN void lo_fetch(__local float *s, lo_in x, int type, long base, long across, long along, int fast,
                    int width, long rows, long depth) {
  for (int e = get_local_id(0); e < BK * width; e += THREADS) {
    const int k = fast ? e % BK : e / width, r = fast ? e / BK : e % width;
    s[k * (width + PAD) + r] =
        r < rows && k < depth ? lo_get(x, base + r * across + k * along, type) : 0.0f;
  }
}

#define LO_CLEAR(acc)                                                                              \
  _Pragma("unroll") for (int i = 0; i < TM; i++) _Pragma("unroll") for (int j = 0; j < TN; j++)    \
      acc[i][j] = 0.0f

/* ---- the main loop: acc (TM,TN) += the item's part of sA (BK,BM)^T sB (BK,BN) ---- */
#define LO_MULTIPLY(acc, sA, sB)                                                                   \
  barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
  for (int k = 0; k < BK; k++) {                                                                   \
    float rA[TM], rB[TN];                                                                          \
    _Pragma("unroll") for (int i = 0; i < TM; i++) rA[i] =                                         \
        (sA)[k * (BM + PAD) + ty + i * (BM / TM)];                                                 \
    _Pragma("unroll") for (int j = 0; j < TN; j++) rB[j] = (sB)[k * (BN + PAD) + tx + j * COLUMNS]; \
    _Pragma("unroll") for (int i = 0; i < TM; i++)                                                 \
        _Pragma("unroll") for (int j = 0; j < TN; j++) acc[i][j] += rA[i] * rB[j];                 \
  }                                                                                                \
  barrier(CLK_LOCAL_MEM_FENCE)

#define LO_STAGE(acc, tile)                                                                        \
  _Pragma("unroll") for (int i = 0; i < TM; i++) _Pragma("unroll") for (int j = 0; j < TN; j++)    \
      (tile)[(ty + i * (BM / TM)) * BN + tx + j * COLUMNS] = acc[i][j];                            \
  barrier(CLK_LOCAL_MEM_FENCE)

LO_FN void lo_finish_tile(const lo_cl_epilogue *e, const lo_targets *t, __local const float *tile,
                          long batch, long row, long rows, long col, long cols) {
  for (int at = get_local_id(0); at < BM * BN; at += THREADS) {
    const int i = at / BN, j = at % BN;
    if (i < rows && j < cols) lo_finish(e, t, tile[at], batch, row + i, col + j, 1);
  }
}

/* ---- dense: the steps are slabs of BK ---- */
LO_KERNEL(THREADS) void product(lo_in a, lo_in b, LO_TARGETS, lo_cl_product p) {
  __local float tile[TILES];
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
  LO_STAGE(rC, tile);
  lo_finish_tile(&p.epilogue, &targets, tile, p.batch + batch, row, p.a.count - row, p.col + col,
                 p.b.count - col);
}

/* ---- block-sparse: the steps are slabs of BK of the kept blocks of a block row, BN wide and deep ---- */
LO_KERNEL(THREADS)
void bsr(lo_in x, lo_in blocks, __global const int *row_start, __global const int *column, LO_TARGETS,
         lo_cl_bsr p) {
  __local float tile[TILES];
  __local float *sA = tile, *sB = tile + TILE_A;
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const int tx = get_local_id(0) % COLUMNS, ty = get_local_id(0) / COLUMNS;
  const long row = get_group_id(0) * BM, block_row = get_group_id(1);
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

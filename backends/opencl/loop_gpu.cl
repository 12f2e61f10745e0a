/* The main loop of products on GPUs. A group of THREADS work-items computes a tile of BM rows and BN
 * columns, each item TM x TN of it, strided so that neighbours read neighbouring words of local memory.
 * Tiles of A and B pass through local memory as f32; the finished tile is staged in the same memory
 * (lo_cl_gpu_local says how much that is). */
#define BK 16
#define TYPE (KIND / 4) /* of both operands */
#define FAST_A (KIND / 2 % 2)
#define FAST_B (KIND % 2)
#define COLUMNS (BN / TN) /* of items */
#define THREADS (BM / TM * COLUMNS)
#define PAD 1
#define TILE_A (BK * (BM + PAD))

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

/* acc (TM,TN) += the item's part of sA (BK,BM)^T sB (BK,BN) */
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

/* tile: element (i,j) at i * across + j * along */
#define LO_STAGE(acc, tile, across, along)                                                         \
  _Pragma("unroll") for (int i = 0; i < TM; i++) _Pragma("unroll") for (int j = 0; j < TN; j++)    \
      (tile)[(ty + i * (BM / TM)) * (across) + (tx + j * COLUMNS) * (along)] = acc[i][j];          \
  barrier(CLK_LOCAL_MEM_FENCE)

LO_FN void lo_finish_tile(const lo_cl_epilogue *e, const lo_targets *t, __local const float *tile,
                          long batch, long row, long rows, long col, long cols) {
  for (int at = get_local_id(0); at < BM * BN; at += THREADS) {
    const int i = at / BN, j = at % BN;
    if (i < rows && j < cols) lo_finish(e, t, tile[at], batch, row + i, col + j, 1);
  }
}

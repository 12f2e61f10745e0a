/* The main loop of products on CPU devices. A work-item multiplies tiles of MR rows and NR = NV * VW
 * columns, all accumulators in registers, and reads panels of B of exactly this width, packed before as f32
 * and filled up with zeros: the loop has no tails. No local memory, no barriers. */
#define NR (NV * VW)

/* acc (MR,NR) += A (MR,depth) B (depth,NR): A_VALUE(i, l) is an element of A, B_VECTOR(l, v) a vector of B. */
#define LO_CLEAR(acc)                                                                              \
  _Pragma("unroll") for (int i = 0; i < MR; i++) _Pragma("unroll") for (int v = 0; v < NV; v++)    \
      acc[i][v] = (lo_vec)(0.0f)

#define LO_MULTIPLY(acc, A_VALUE, B_VECTOR, depth)                                                        \
  for (long l = 0; l < (depth); l++) {                                                             \
    lo_vec rB[NV];                                                                                 \
    _Pragma("unroll") for (int v = 0; v < NV; v++) rB[v] = B_VECTOR(l, v);         \
    _Pragma("unroll") for (int i = 0; i < MR; i++) {                                               \
      const lo_vec rA = (lo_vec)(A_VALUE(i, l));                                                   \
      _Pragma("unroll") for (int v = 0; v < NV; v++) acc[i][v] += rA * rB[v];                      \
    }                                                                                              \
  }

#define LO_STAGE(acc, tile)                                                                        \
  _Pragma("unroll") for (int i = 0; i < MR; i++) _Pragma("unroll") for (int v = 0; v < NV; v++)    \
      LO_STORE(acc[i][v], (tile) + i * NR + v * VW)

LO_FN void lo_finish_tile(const lo_cl_epilogue *e, const lo_targets *t, const float *tile, long batch,
                          long row, long rows, long col, long cols) {
  for (int i = 0; i < MR && i < rows; i++)
    for (int v = 0; v < NV && v * VW < cols; v++)
      lo_finish(e, t, LO_LOAD(tile + i * NR + v * VW), batch, row + i, col + v * VW, cols - v * VW);
}

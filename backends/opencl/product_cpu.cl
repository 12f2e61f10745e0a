/* Dense: one step, the whole of k. */
LO_KERNEL(1)
void product(__global const float *a, __global const float *b, LO_TARGETS, lo_cl_product p) {
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const long batch = get_group_id(2), col = get_group_id(1) * NR;
  const long depth = targets.alpha == 0.0f ? 0 : p.k;
  const long end = min((long)(get_group_id(0) + 1) * p.tiles * MR, p.a.count);
  __global const float *pB = b + p.b.offset + batch * p.b.batch_stride + col * p.k; /* (k,NR) */
  for (long row = get_group_id(0) * p.tiles * MR; row < end; row += MR) {
    __global const float *pA = a + p.a.offset + batch * p.a.batch_stride + row * p.k; /* (k,MR) */
    lo_vec rC[MR][NV];
    float tile[MR * NR];
    LO_CLEAR(rC);
#define LO_A(i, l) pA[(l) * MR + (i)]
#define LO_B(l, v) LO_LOAD(pB + (l) * NR + (v) * VW)
    LO_MULTIPLY(rC, LO_A, LO_B, depth)
    LO_STAGE(rC, tile);
    lo_finish_tile(&p.epilogue, &targets, tile, p.batch + batch, p.row + row, p.a.count - row,
                   p.col + col, p.b.count - col);
  }
}

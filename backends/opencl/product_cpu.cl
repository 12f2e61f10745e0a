/* Products on CPU devices: a work-item multiplies tiles of MR rows and NR = NV * VW columns, all
 * accumulators in registers, and reads panels of exactly these widths, packed before as f32 and filled
 * up with zeros: the main loop has no tails and streams both operands. No local memory, no barriers. */
#define NR (NV * VW)

/* ---- packing ---- */

/* Transposes VW vectors. (row, column), as one number of 2 log2(VW) bits, is rotated by one bit a turn. */
LO_FN void lo_transpose(lo_vec *t) {
#pragma unroll
  for (int turn = 1; turn < VW; turn *= 2) {
    lo_vec u[VW];
#pragma unroll
    for (int i = 0; i < VW / 2; i++) {
      u[2 * i].even = t[i].lo;
      u[2 * i].odd = t[i + VW / 2].lo;
      u[2 * i + 1].even = t[i].hi;
      u[2 * i + 1].odd = t[i + VW / 2].hi;
    }
#pragma unroll
    for (int i = 0; i < VW; i++) t[i] = u[i];
  }
}

/* VW rows from `row` on, at step `at` of k, to the panel (or, where that is narrower, the panels) of
 * `width` rows that hold them. */
LO_FN void lo_pack_store(__global float *to, const lo_cl_pack *p, int width, long row, long at,
                         lo_vec v) {
  __global float *place = to + (row / width * p->k + at) * width + row % width;
  if (width >= VW) {
    LO_STORE(v, place);
    return;
  }
  float lanes[VW];
  LO_STORE(v, lanes);
  for (int part = 0; part < VW / width && row + part * width < p->from.count; part++)
    for (int l = 0; l < width; l++) place[part * p->k * width + l] = lanes[part * width + l];
}

LO_FN void lo_pack(lo_in x, __global float *panels, const lo_cl_pack *p, int width) {
  const lo_cl_operand *o = &p->from;
  const long row = get_group_id(0) * VW, batch = get_group_id(2);
  const long begin = get_group_id(1) * p->chunk, end = min(begin + p->chunk, p->k);
  const long padded = (o->count + width - 1) / width * width;
  const long base = o->offset + (p->batch + batch) * o->batch_stride + row * o->across;
  __global float *to = panels + p->to + batch * padded * p->k;
  if (o->across == 1) {
    for (long k = begin; k < end; k++)
      lo_pack_store(to, p, width, row, k,
                    lo_load(x, base + k * o->along, o->type, o->count - row, 0.0f));
    return;
  }
  for (long k = begin; k < end; k += VW) {
    lo_vec t[VW];
#pragma unroll
    for (int r = 0; r < VW; r++)
      t[r] = row + r < o->count ? lo_load(x, base + r * o->across + k, o->type, end - k, 0.0f)
                                : (lo_vec)(0.0f);
    lo_transpose(t);
    for (int l = 0; l < VW && k + l < end; l++) lo_pack_store(to, p, width, row, k + l, t[l]);
  }
}

LO_KERNEL(1) void pack_rows(lo_in x, __global float *panels, lo_cl_pack p) {
  lo_pack(x, panels, &p, MR);
}
LO_KERNEL(1) void pack_columns(lo_in x, __global float *panels, lo_cl_pack p) {
  lo_pack(x, panels, &p, NR);
}

/* ---- the main loop: acc (MR,NR) += A (MR,depth) B (depth,NR) ----
 * A_VALUE(i, l) is A's element; b points to B's panel. */
#define LO_CLEAR(acc)                                                                              \
  _Pragma("unroll") for (int i = 0; i < MR; i++) _Pragma("unroll") for (int v = 0; v < NV; v++)    \
      acc[i][v] = (lo_vec)(0.0f)

#define LO_MULTIPLY(acc, A_VALUE, b, depth)                                                        \
  for (long l = 0; l < (depth); l++) {                                                             \
    lo_vec rB[NV];                                                                                 \
    _Pragma("unroll") for (int v = 0; v < NV; v++) rB[v] = LO_LOAD((b) + l * NR + v * VW);         \
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

/* ---- dense: one step, the whole of k ---- */
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
#define LO_PACKED(i, l) pA[(l) * MR + (i)]
    LO_MULTIPLY(rC, LO_PACKED, pB, depth)
    LO_STAGE(rC, tile);
    lo_finish_tile(&p.epilogue, &targets, tile, p.batch + batch, p.row + row, p.a.count - row,
                   p.col + col, p.b.count - col);
  }
}

/* ---- block-sparse: the kept blocks of a block row, NR wide and deep, are the steps ---- */
LO_KERNEL(1)
void bsr(__global const float *x, __global const float *blocks, __global const int *row_start,
         __global const int *column, LO_TARGETS, lo_cl_bsr p) {
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const long row = get_group_id(0) * MR, block_row = get_group_id(1);
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

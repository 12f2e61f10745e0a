/* dW on GPUs: a group has BM rows and BN columns of a unit, which may be of several blocks, and a part of the
 * samples. */

/* (BK,BN) of X from sample `first` on: column r is the feature that begins at starts[r], or none where that
 * is -1. Neighbours in memory are samples where they are `along`, else columns. */
LO_INLINE void lo_fetch_columns(__local float *s, lo_in x, __local const long *starts, long along, long first,
                                bool fast, long depth) {
#pragma unroll
  for (int i = 0; i < BK * BN / THREADS; i++) {
    const int e = get_local_id(0) + i * THREADS;
    const int k = fast ? e % BK : e / BN, r = fast ? e / BK : e % BN;
    const long start = starts[r];
    s[k * (BN + PAD) + r] = k < depth && start >= 0 ? lo_get(x, start + (first + k) * along, TYPE) : 0.0f;
  }
}

/* Element (i,j) of a block; what lies outside of W is written as 0. */
LO_FN void lo_finish_element(const lo_cl_bsr_gradient *p, lo_targets t, __global const float *gates, float sum,
                             long block, long i, long j, bool inside) {
  if (!p->epilogue.c.type) return;
  if (p->gate >= 0) t.alpha = gates[p->gate + block];
  if (!inside) t.alpha = t.beta = 0.0f;
  lo_finish(&p->epilogue, &t, sum, 0, block * p->height + i, j, 1);
}

LO_KERNEL(THREADS)
void wgrad(lo_in dz, lo_in x, __global const int *row_start, __global const int *column,
           __global const float *gates, __global float *sums, LO_TARGETS, __local float *tile,
           __local long *starts, lo_cl_bsr_gradient p) {
  __local float *sA = tile, *sB = tile + TILE_A;
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const int item = get_local_id(0), tx = item % COLUMNS, ty = item / COLUMNS;
  const long tiles = p.row_parts * p.col_parts, at = get_group_id(0) % tiles, part = get_group_id(1);
  const long row = at % p.row_parts * BM, col = at / p.row_parts * BN;
  const lo_unit unit = lo_unit_of(&p, row_start, get_group_id(0) / tiles);
  const long columns = unit.count * p.width - col;
  if (columns <= 0) return;
  for (int r = item; r < BN; r += THREADS) {
    const long e = unit.first + ((col + r) >> p.width_log2), within = (col + r) & (p.width - 1);
    const long feature = r < columns ? column[e] * p.width + within : p.x.count;
    starts[r] = feature < p.x.count ? p.x.offset + feature * p.x.across : -1;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const long out = unit.row * p.height + row, gZ = p.dz.offset + out * p.dz.across;
  const long end = min((part + 1) * p.samples, p.m);
  float rC[TM][TN];
  LO_CLEAR(rC);
  for (long k = part * p.samples; k < end; k += BK) {
    const long atZ = gZ + k * p.dz.along, left = end - k;
    if (p.x.along == 1) {
      lo_fetch(sA, dz, TYPE, atZ, p.dz.across, p.dz.along, 1, BM, p.dz.count - out, left);
      lo_fetch_columns(sB, x, starts, 1, k, true, left);
    } else {
      lo_fetch(sA, dz, TYPE, atZ, p.dz.across, p.dz.along, 0, BM, p.dz.count - out, left);
      lo_fetch_columns(sB, x, starts, p.x.along, k, false, left);
    }
    LO_MULTIPLY(rC, sA, sB);
  }
  LO_STAGE(rC, tile, BN, 1);
  for (int e = item; e < BM * BN; e += THREADS) {
    const long i = row + e / BN, c = col + e % BN, block = unit.first + (c >> p.width_log2);
    const long j = c & (p.width - 1);
    const bool inside = starts[e % BN] >= 0 && unit.row * p.height + i < p.dz.count;
    const float sum = inside ? tile[e] : 0.0f;
    if (e % BN >= columns) continue;
    if (p.sums >= 0) sums[p.sums + part * p.part + (block * p.height + i) * p.width + j] = sum;
    if (p.ends) lo_finish_element(&p, targets, gates, sum, block, i, j, inside);
  }
}

/* Adds the parts up in their order, and finishes: a group has a block. The sum stands in the first part. */
LO_KERNEL(THREADS)
void finish(__global const int *row_start, __global const int *column, __global const float *gates,
            __global float *sums, LO_TARGETS, lo_cl_bsr_gradient p) {
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const long block = get_group_id(0), area = p.height * p.width;
  const long row = lo_row_of(&p, row_start, block) * p.height, col = column[block] * p.width;
  __global float *of = sums + p.sums + block * area;
  for (long e = get_local_id(0); e < area; e += THREADS) {
    const long i = e >> p.width_log2, j = e & (p.width - 1);
    float sum = of[e];
    for (long part = 1; part < p.parts; part++) sum += of[e + part * p.part];
    of[e] = sum;
    lo_finish_element(&p, targets, gates, sum, block, i, j, row + i < p.dz.count && col + j < p.x.count);
  }
}

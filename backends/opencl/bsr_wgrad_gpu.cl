/* dW on GPUs: a group has BM rows and BN columns of a unit, which may be of several blocks. */

/* (BK,BN) of X from sample `first` on: column r is the feature that begins at starts[r], or none where that
 * is -1. */
LO_FN void lo_fetch_columns(__local float *s, lo_in x, __local const long *starts, long along, long first,
                            int fast, long depth) {
#pragma unroll
  for (int i = 0; i < BK * BN / THREADS; i++) {
    const int e = get_local_id(0) + i * THREADS;
    const int k = fast ? e % BK : e / BN, r = fast ? e / BK : e % BN;
    s[k * (BN + PAD) + r] = k < depth && starts[r] >= 0 ? lo_get(x, starts[r] + (first + k) * along, TYPE) : 0.0f;
  }
}

/* What of a block lies outside of W is written as 0. */
LO_FN void lo_finish_unit(const lo_cl_bsr_gradient *p, const lo_targets *targets,
                          __global const float *gates, __global float *sums, __local const float *tile,
                          __local const long *starts, const lo_unit *unit, long row, long col) {
  for (int at = get_local_id(0); at < BM * BN; at += THREADS) {
    const long i = row + at / BN, j = col + at % BN, block = unit->first + j / p->width;
    const bool inside = starts[at % BN] >= 0 && unit->row * p->height + i < p->dz.count;
    const float sum = inside ? tile[at] : 0.0f;
    if (j >= unit->count * p->width) continue;
    if (p->sums >= 0) sums[p->sums + (block * p->height + i) * p->width + j % p->width] = sum;
    if (!p->epilogue.c.type) continue;
    lo_targets t = *targets;
    if (p->gate >= 0) t.alpha = gates[p->gate + block];
    if (!inside) t.alpha = t.beta = 0.0f;
    lo_finish(&p->epilogue, &t, sum, 0, block * p->height + i, j % p->width, 1);
  }
}

LO_KERNEL(THREADS)
void wgrad(lo_in dz, lo_in x, __global const int *row_start, __global const int *column,
           __global const float *gates, __global float *sums, LO_TARGETS, __local float *tile,
           __local long *starts, lo_cl_bsr_gradient p) {
  __local float *sA = tile, *sB = tile + TILE_A;
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const int item = get_local_id(0), tx = item % COLUMNS, ty = item / COLUMNS;
  const long parts = p.row_parts * p.col_parts, part = get_group_id(0) % parts;
  const long row = part % p.row_parts * BM, col = part / p.row_parts * BN;
  const lo_unit unit = lo_unit_of(&p, row_start, get_group_id(0) / parts);
  if (unit.count * p.width <= col) return;
  for (int r = item; r < BN; r += THREADS) {
    const long at = col + r, e = unit.first + at / p.width;
    const long feature = at < unit.count * p.width ? column[e] * p.width + at % p.width : p.x.count;
    starts[r] = feature < p.x.count ? p.x.offset + feature * p.x.across : -1;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const long out = unit.row * p.height + row, gZ = p.dz.offset + out * p.dz.across;
  const bool fast = p.x.along == 1;
  float rC[TM][TN];
  LO_CLEAR(rC);
  for (long k = 0; k < p.m; k += BK) {
    const long atZ = gZ + k * p.dz.along, left = p.m - k;
    if (fast) {
      lo_fetch(sA, dz, TYPE, atZ, p.dz.across, p.dz.along, 1, BM, p.dz.count - out, left);
      lo_fetch_columns(sB, x, starts, p.x.along, k, 1, left);
    } else {
      lo_fetch(sA, dz, TYPE, atZ, p.dz.across, p.dz.along, 0, BM, p.dz.count - out, left);
      lo_fetch_columns(sB, x, starts, p.x.along, k, 0, left);
    }
    LO_MULTIPLY(rC, sA, sB);
  }
  LO_STAGE(rC, tile, BN, 1);
  lo_finish_unit(&p, &targets, gates, sums, tile, starts, &unit, row, col);
}

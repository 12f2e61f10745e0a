/* dW on CPU devices: a group has a unit's rows and NR of its columns, over samples in panels of dZ [m,height]
 * for each block row and of X [m,width] for each block column. LANES: of
 * a vector, what one block fills; VW, or half of it. */
#define HEIGHT 128 /* the most */
#define CHUNK 256  /* samples whose panels stay in the first two caches */
#define RUNS (NR / LANES) /* of columns that a block row of W has beside each other */
#define LO_LOAD_RUN(p) LO_PASTE(vload, LANES)(0, p)

/* LANES elements of dW, of which `inside` are in W; all are written. */
LO_FN void lo_finish_run(const lo_cl_bsr_gradient *p, lo_targets t, __global const float *gates,
                         __global float *sums, float *run, long block, long i, long j, long inside) {
  const long row = block * p->height + i;
  LO_ROLLED for (long l = max(inside, 0L); l < LANES; l++) run[l] = 0.0f;
  if (p->sums >= 0) LO_PASTE(vstore, LANES)(LO_LOAD_RUN(run), 0, sums + p->sums + row * p->width + j);
  if (!p->ends || !p->epilogue.c.type) return;
  if (p->gate >= 0) t.alpha = gates[p->gate + block];
  if (inside > 0) lo_finish(&p->epilogue, &t, LO_LOAD(run), 0, row, j, min(inside, (long)LANES));
  LO_ROLLED for (long l = max(inside, 0L); l < LANES; l++)
    lo_put(t.c, lo_at(&p->epilogue.c, 0, row, j + l), p->epilogue.c.type, 0.0f);
}

/* tile (height,NR) += dZ (samples,height)^T X (samples,NR) */
LO_FN void lo_add_samples(float *tile, __global const float *dz, __global const float *const *x, long height,
                          long width, long samples) {
  for (long i = 0; i < height; i += MR) {
    float *rows = tile + i * NR;
    __global const float *z = dz + i;
    lo_vec acc[MR][NV];
#pragma unroll
    for (int r = 0; r < MR; r++)
#pragma unroll
      for (int v = 0; v < NV; v++) acc[r][v] = LO_LOAD(rows + r * NR + v * VW);
#define LO_A(i, l) z[(l) * height + (i)]
#if LANES < VW
#define LO_B(l, v) (lo_vec)(LO_LOAD_RUN(x[2 * (v)] + (l) * width), LO_LOAD_RUN(x[2 * (v) + 1] + (l) * width))
#else
#define LO_B(l, v) LO_LOAD(x[v] + (l) * width)
#endif
    LO_MULTIPLY(acc, LO_A, LO_B, samples)
    LO_STAGE(acc, rows);
  }
}

LO_KERNEL(1)
void wgrad(__global const float *dz, __global const float *x, __global const int *row_start,
           __global const int *column, __global const float *gates, __global float *sums, LO_TARGETS,
           lo_cl_bsr_gradient p) {
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const lo_unit unit = lo_unit_of(&p, row_start, get_group_id(0) / p.col_parts);
  const long col = get_group_id(0) % p.col_parts * NR;
  long block[RUNS], within[RUNS]; /* those beyond the last are the last once more, and are dropped */
  __global const float *pX[RUNS], *pZ = dz + p.dz.offset + unit.row * p.m * p.height;
  float tile[HEIGHT * NR + VW]; /* half a vector of it is read as a whole one */
  if (unit.count == 0) return;
  const long runs = min((long)RUNS, (unit.count * p.width - col) / LANES);
#pragma unroll
  for (int r = 0; r < RUNS; r++) {
    const long at = col + min((long)r, runs - 1) * LANES;
    block[r] = unit.first + at / p.width;
    within[r] = at % p.width;
    pX[r] = x + p.x.offset + column[block[r]] * p.m * p.width + within[r];
  }
  for (long i = 0; i < p.height * NR; i += VW) LO_STORE((lo_vec)(0.0f), tile + i);
  for (long first = 0; first < p.m; first += CHUNK) {
    const long samples = min(p.m - first, (long)CHUNK);
    lo_add_samples(tile, pZ, pX, p.height, p.width, samples);
    pZ += samples * p.height;
#pragma unroll
    for (int r = 0; r < RUNS; r++) pX[r] += samples * p.width;
  }
  LO_ROLLED for (long at = 0; at < p.height * runs; at++) {
    const long i = at / runs, r = at % runs;
    float *run = tile + i * NR + r * LANES;
    if (!p.begins)
      for (int l = 0; l < LANES; l++)
        run[l] += sums[p.sums + (block[r] * p.height + i) * p.width + within[r] + l];
    const long inside = unit.row * p.height + i < p.dz.count
                            ? p.x.count - (column[block[r]] * p.width + within[r])
                            : 0;
    lo_finish_run(&p, targets, gates, sums, run, block[r], i, within[r], inside);
  }
}

/* Few samples times W^T on CPU devices, where packing them would cost more than the product: vectors along
 * the rows of kept blocks, none of which ends within a vector. A group has VW outputs of ROWS samples. */

/* sums (ROWS,VW), of which MR outputs of one line are filled from `out` on. */
LO_FN void lo_sum_line(float *sums, lo_in x, lo_in values, __global const float *scales,
                       __global const float *gates, __global const int *start, __global const int *column,
                       const lo_cl_bsr *p, bool empty, const long *from, long out) {
  const long line = out / p->width, depth = p->depth;
  lo_vec acc[ROWS][MR];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int i = 0; i < MR; i++) acc[r][i] = (lo_vec)(0.0f);
  if (!empty && out < p->outputs)
    for (int e = start[line]; e < start[line + 1]; e++) {
      const float gate = p->gate < 0 ? 1.0f : gates[p->gate + e], factor = p->scaled ? gate * scales[e] : gate;
      const long feature = column[e] * depth, w = e * p->w.batch_stride + out % p->width * depth;
      if (gate == 0.0f) continue;
      for (long l = 0; l < depth; l += VW) {
        lo_vec rX[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
          rX[r] = factor * lo_load(x, from[r] + feature + l, p->in.type, p->inputs - feature - l, 0.0f);
#pragma unroll
        for (int i = 0; i < MR; i++) {
          const lo_vec rW = lo_load_all(values, w + i * depth + l, p->w.type);
#pragma unroll
          for (int r = 0; r < ROWS; r++) acc[r][i] += rX[r] * rW;
        }
      }
    }
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int i = 0; i < MR; i++) sums[r * VW + i] = lo_lanes_sum(acc[r][i]);
}

LO_KERNEL(1)
void lines(lo_in x, lo_in values, __global const float *scales, __global const float *gates,
           __global const int *start, __global const int *column, LO_TARGETS, lo_cl_bsr p) {
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const long out = get_group_id(0) * VW, row = get_group_id(1) * ROWS;
  long from[ROWS]; /* samples beyond the last are the last once more, and are dropped */
  float sums[ROWS * VW];
  for (int r = 0; r < ROWS; r++) from[r] = p.in.offset + min(row + r, p.in.count - 1) * p.in.across;
  LO_ROLLED for (int i = 0; i < VW; i += MR)
    lo_sum_line(sums + i, x, values, scales, gates, start, column, &p, targets.alpha == 0.0f, from, out + i);
  LO_ROLLED for (int r = 0; r < ROWS && row + r < p.in.count; r++)
    lo_finish(&p.epilogue, &targets, LO_LOAD(sums + r * VW), 0, row + r, out, p.outputs - out);
}

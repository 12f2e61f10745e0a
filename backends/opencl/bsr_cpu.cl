/* Lines of blocks on CPU devices: samples on the lanes, over panels of NR of them, and W's values as they
 * stand, whichever way they are read. A group has `pieces` of VW outputs of one panel. */
/* MR outputs of one line, which begin at `out`. */
LO_FN void lo_sum_line(float *tile, __global const float *panel, __global const float *values,
                       __global const float *gates, __global const int *start, __global const int *index,
                       __global const int *place, const lo_cl_bsr *p, bool empty, long out) {
  const long line = out / p->width, depth = p->depth;
  const long across = BACKWARD ? 1 : depth, along = BACKWARD ? p->width : 1; /* in a block */
  lo_vec acc[MR][NV];
  LO_CLEAR(acc);
  if (!empty && out < p->outputs)
    for (int e = start[line]; e < start[line + 1]; e++) {
      const long block = BACKWARD ? place[e] : e, from = index[e] * depth;
      __global const float *w =
          values + p->w.offset + block * p->w.batch_stride + out % p->width * across;
      __global const float *x = panel + from * NR;
      if (p->gate >= 0 && gates[p->gate + block] == 0.0f) continue;
#define LO_A(i, l) w[(i) * across + (l) * along]
#define LO_B(l, v) LO_LOAD(x + (l) * NR + (v) * VW)
      LO_MULTIPLY(acc, LO_A, LO_B, min(depth, p->inputs - from))
    }
  LO_STAGE(acc, tile);
}

/* VW outputs of NR samples: tile is (VW,NR). */
LO_FN void lo_finish_piece(const lo_cl_bsr *p, const lo_targets *t, const float *tile, long sample,
                           long samples, long out) {
  const long outputs = p->outputs - out;
  for (int v = 0; v < NV && v * VW < samples; v++) {
    const long at = p->first + sample + v * VW, left = samples - v * VW;
    if (p->epilogue.features_by_row) {
      LO_ROLLED for (int l = 0; l < VW && l < outputs; l++)
        lo_finish(&p->epilogue, t, LO_LOAD(tile + l * NR + v * VW), 0, out + l, at, left);
      continue;
    }
    lo_vec turned[VW];
#pragma unroll
    for (int l = 0; l < VW; l++) turned[l] = LO_LOAD(tile + l * NR + v * VW);
    lo_transpose(turned);
    LO_ROLLED for (int l = 0; l < VW && l < left; l++)
      lo_finish(&p->epilogue, t, turned[l], 0, at + l, out, outputs);
  }
}

LO_KERNEL(1)
void lines(__global const float *panels, __global const float *values, __global const float *gates,
           __global const int *start, __global const int *index, __global const int *place, LO_TARGETS,
           lo_cl_bsr p) {
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const long sample = get_group_id(1) * NR, begin = get_group_id(0) * p.pieces * VW;
  const long end = min(begin + p.pieces * VW, p.outputs);
  __global const float *panel = panels + p.in.offset + sample * p.inputs; /* (inputs,NR) */
  for (long out = begin; out < end; out += VW) {
    float tile[VW * NR];
    LO_ROLLED for (int i = 0; i < VW; i += MR)
      lo_sum_line(tile + i * NR, panel, values, gates, start, index, place, &p, targets.alpha == 0.0f,
                  out + i);
    lo_finish_piece(&p, &targets, tile, sample, p.in.count - sample, out);
  }
}

/* Lines of blocks on GPUs: a group has BM samples and BN outputs of a line, over slabs of BK steps. A slab may
 * have steps of several blocks, or a part of one: what each step reads is looked up before, for LOOK at once. */
#define LOOK 128
#define W_TYPE (KIND % 16)
#define X_TYPE (KIND / 16)

LO_FN lo_cl_bsr_step lo_step_of(const lo_cl_bsr *p, __global const float *scales, __global const float *gates,
                                __global const int *index, __global const int *place, long begin, long end,
                                long k) {
  const long e = begin + (k >> p->depth_log2), within = k & (p->depth - 1);
  lo_cl_bsr_step step = {0, 0, 0.0f, 0};
  if (e >= end) return step;
  const long block = p->backward ? place[e] : e, feature = index[e] * p->depth + within;
  const float gate = p->gate < 0 ? 1.0f : gates[p->gate + block];
  step.x = feature * p->in.along;
  step.w = block * p->w.batch_stride + within * p->w.along;
  step.factor = p->scaled ? gate * scales[block] : gate;
  step.present = gate != 0.0f && feature < p->inputs;
  return step;
}

/* (BK,width) of W or of the samples, whose rows begin at `base`. Neighbours in memory are steps: an item has
 * one of them. */
LO_INLINE void lo_fetch_along(__local float *s, lo_in from, int type, bool weights, long base, long across,
                              __local const lo_cl_bsr_step *steps, int width, long rows) {
  const int k = get_local_id(0) % BK, first = get_local_id(0) / BK;
  const long left = steps[k].present ? rows : 0;
  const float factor = weights ? steps[k].factor : 1.0f;
  long at = base + (weights ? steps[k].w : steps[k].x) + first * across;
#pragma unroll
  for (int i = 0; i < BK * width / THREADS; i++) {
    const int r = first + i * (THREADS / BK);
    s[k * (width + PAD) + r] = r < left ? factor * lo_get(from, at, type) : 0.0f;
    at += THREADS / BK * across;
  }
}

/* The same where neighbours are rows. */
LO_INLINE void lo_fetch_across(__local float *s, lo_in from, int type, bool weights, long base,
                               __local const lo_cl_bsr_step *steps, int width, long rows) {
#pragma unroll
  for (int i = 0; i < BK * width / THREADS; i++) {
    const int e = get_local_id(0) + i * THREADS, k = e / width, r = e % width;
    float v = 0.0f;
    if (r < rows && steps[k].present) v = lo_get(from, base + r + (weights ? steps[k].w : steps[k].x), type);
    s[k * (width + PAD) + r] = weights ? v * steps[k].factor : v;
  }
}

LO_FN void lo_finish_line(const lo_cl_bsr *p, const lo_targets *t, __local const float *tile, long row,
                          long out) {
  const bool by_features = p->epilogue.features_by_row;
  const long rows = p->in.count - row, outputs = p->outputs - out;
  for (int at = get_local_id(0); at < BM * BN; at += THREADS) {
    const int i = by_features ? at % BM : at / BN, j = by_features ? at / BM : at % BN;
    if (i >= rows || j >= outputs) continue;
    lo_finish(&p->epilogue, t, tile[by_features ? j * (BM + PAD) + i : at], 0,
              by_features ? out + j : row + i, by_features ? row + i : out + j, 1);
  }
}

LO_KERNEL(THREADS)
void lines(lo_in x, lo_in values, __global const float *scales, __global const float *gates,
           __global const int *start, __global const int *index, __global const int *place, LO_TARGETS,
           __local float *tile, __local lo_cl_bsr_step *steps, lo_cl_bsr p) {
  __local float *sA = tile, *sB = tile + TILE_A;
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const int item = get_local_id(0), tx = item % COLUMNS, ty = item / COLUMNS;
  const long row = p.first + get_group_id(1) * BM, out = get_group_id(0) * BN, line = out / p.width;
  const long begin = start[line], end = targets.alpha == 0.0f ? begin : start[line + 1];
  const long gX = p.in.offset + row * p.in.across, gW = out % p.width * p.w.across;
  const long depth = (end - begin) * p.depth;
  const bool by_features = p.epilogue.features_by_row;
  float rC[TM][TN];
  LO_CLEAR(rC);
  for (long from = 0; from < depth; from += LOOK) {
    for (int k = item; k < LOOK; k += THREADS)
      steps[k] = lo_step_of(&p, scales, gates, index, place, begin, end, from + k);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < min((long)LOOK, depth - from); k += BK) {
      if (by_features)
        lo_fetch_across(sA, x, X_TYPE, false, gX, steps + k, BM, p.in.count - row);
      else
        lo_fetch_along(sA, x, X_TYPE, false, gX, p.in.across, steps + k, BM, p.in.count - row);
      if (p.backward)
        lo_fetch_across(sB, values, W_TYPE, true, gW, steps + k, BN, BN);
      else
        lo_fetch_along(sB, values, W_TYPE, true, gW, p.w.across, steps + k, BN, BN);
      LO_MULTIPLY(rC, sA, sB);
    }
  }
  LO_STAGE(rC, tile, by_features ? 1 : BN, by_features ? BM + PAD : 1);
  lo_finish_line(&p, &targets, tile, row, out);
}

/* Lines of blocks on GPUs: a group has BM samples and BN outputs of a line, over slabs of BK steps. A slab may
 * have steps of several blocks, or a part of one: what each reads is looked up a slab ahead. */
#define W_TYPE (KIND % 16)
#define X_TYPE (KIND / 16)

LO_FN lo_cl_bsr_step lo_step_of(const lo_cl_bsr *p, __global const float *scales, __global const float *gates,
                                __global const int *index, __global const int *place, long begin, long end,
                                long k) {
  const long e = begin + k / p->depth, within = k % p->depth;
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

/* (BK,width) of the samples, or of W. fast: neighbours in memory are steps, else rows. */
LO_FN void lo_fetch_steps(__local float *s, lo_in from, int type, long base, long across, bool weights,
                          __local const lo_cl_bsr_step *steps, int fast, int width, long rows) {
#pragma unroll
  for (int i = 0; i < BK * width / THREADS; i++) {
    const int e = get_local_id(0) + i * THREADS;
    const int k = fast ? e % BK : e / width, r = fast ? e / BK : e % width;
    __local const lo_cl_bsr_step *step = steps + k;
    float v = 0.0f;
    if (r < rows && step->present) v = lo_get(from, base + r * across + (weights ? step->w : step->x), type);
    s[k * (width + PAD) + r] = weights ? v * step->factor : v;
  }
}

/* Neighbours are samples where features are rows, and outputs in a block that is read backward. */
#define LO_FETCH_X(fast)                                                                           \
  lo_fetch_steps(sA, x, X_TYPE, gX, p.in.across, false, now, fast, BM, p.in.count - row)
#define LO_FETCH_W(fast) lo_fetch_steps(sB, values, W_TYPE, gW, p.w.across, true, now, fast, BN, BN)

LO_FN void lo_finish_line(const lo_cl_bsr *p, const lo_targets *t, __local const float *tile, long row,
                          long out) {
  const bool by_features = p->epilogue.features_by_row;
  const long rows = p->in.count - row, outputs = p->outputs - out;
  for (int at = get_local_id(0); at < BM * BN; at += THREADS) {
    const int i = by_features ? at % BM : at / BN, j = by_features ? at / BM : at % BN;
    if (i >= rows || j >= outputs) continue;
    if (by_features)
      lo_finish(&p->epilogue, t, tile[j * (BM + PAD) + i], 0, out + j, row + i, 1);
    else
      lo_finish(&p->epilogue, t, tile[at], 0, row + i, out + j, 1);
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
#define LO_LOOK_UP(k)                                                                              \
  if (item < BK)                                                                                   \
  steps[(k) / BK % 2 * BK + item] = lo_step_of(&p, scales, gates, index, place, begin, end, (k) + item)
  LO_LOOK_UP(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (long k = 0; k < depth; k += BK) {
    __local const lo_cl_bsr_step *now = steps + k / BK % 2 * BK;
    LO_LOOK_UP(k + BK);
    if (by_features)
      LO_FETCH_X(0);
    else
      LO_FETCH_X(1);
    if (p.backward)
      LO_FETCH_W(0);
    else
      LO_FETCH_W(1);
    LO_MULTIPLY(rC, sA, sB);
  }
  LO_STAGE(rC, tile, by_features ? 1 : BN, by_features ? BM + PAD : 1);
  lo_finish_line(&p, &targets, tile, row, out);
}

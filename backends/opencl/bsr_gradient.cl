/* The block-sparse layer backwards, plainly: an item sums one output, or VW neighbours of dX's. A row of a
 * view is a sample, or a feature where p.transposed. */
LO_FN long lo_place_of(const lo_cl_bsr_gradient *p, const lo_cl_view *v, long sample, long feature) {
  return v->offset + (p->transposed ? feature * v->stride + sample : sample * v->stride + feature);
}
LO_FN float lo_gate_of(const lo_cl_bsr_gradient *p, __global const float *gate, long block) {
  return p->gate < 0 ? 1.0f : gate[p->gate + block];
}

/* dX: element (sample, feature) of dZ W. */
LO_FN float lo_column_sum(const lo_cl_bsr_gradient *p, lo_in dz, lo_in values, __global const int *col_start,
                          __global const int *row, __global const int *place, __global const float *gate,
                          long sample, long feature) {
  const long c = feature / p->width, q = feature % p->width;
  float sum = 0.0f;
  for (int e = col_start[c]; e < col_start[c + 1]; e++) {
    const long block = place[e], from = row[e] * p->height, count = min(p->height, p->n - from);
    const float g = lo_gate_of(p, gate, block);
    if (g == 0.0f) continue;
    for (long i = 0; i < count; i++)
      sum += lo_get(dz, lo_place_of(p, &p->dz, sample, from + i), p->dz.type) *
             (g * lo_get(values, (block * p->height + i) * p->width + q, p->dz.type));
  }
  return sum;
}
LO_KERNEL(GROUP)
void dgrad(lo_in dz, lo_in values, __global const int *col_start, __global const int *row,
           __global const int *place, __global const float *gate, lo_in saved, lo_out dx,
           lo_cl_bsr_gradient p) {
  const long rows = p.transposed ? p.k : p.m, cols = p.transposed ? p.m : p.k;
  const long across = (cols + VW - 1) / VW, item = get_global_id(0);
  const long i = item / across, j = item % across * VW, count = cols - j;
  float sums[VW];
  if (i >= rows) return;
  LO_ROLLED for (int l = 0; l < VW; l++)
    sums[l] = l >= count ? 0.0f
                         : lo_column_sum(&p, dz, values, col_start, row, place, gate,
                                         p.transposed ? j + l : i, p.transposed ? i : j + l);
  lo_vec v = LO_LOAD(sums);
  if (p.saved.type != LO_TYPE_NONE)
    v *= lo_activation_derivative(
        p.activation, lo_load(saved, p.saved.offset + i * p.saved.stride + j, p.saved.type, count, 0.0f),
        p.slope);
  lo_store(dx, p.to.offset + i * p.to.stride + j, p.to.type, count, v);
}

/* dZ^T X at one place, and on the pattern. */
LO_FN float lo_sample_sum(const lo_cl_bsr_gradient *p, lo_in dz, lo_in x, long out, long in) {
  float sum = 0.0f;
  for (long i = 0; i < p->m; i++)
    sum += lo_get(dz, lo_place_of(p, &p->dz, i, out), p->dz.type) *
           lo_get(x, lo_place_of(p, &p->x, i, in), p->x.type);
  return sum;
}
LO_FN long lo_row_of(const lo_cl_bsr_gradient *p, __global const int *row_start, long block) {
  long low = 0, high = p->block_rows; /* the last row that begins at the block or before */
  while (high - low > 1) {
    const long middle = (low + high) / 2;
    if (row_start[middle] <= block)
      low = middle;
    else
      high = middle;
  }
  return low;
}
LO_FN float lo_accumulate(const lo_cl_bsr_gradient *p, lo_out to, long at, float sum, float beta) {
  return beta == 0.0f ? sum : sum + beta * lo_get(to, at, p->to.type);
}
LO_KERNEL(GROUP)
void wgrad(lo_in dz, lo_in x, __global const int *row_start, __global const int *column,
           __global const float *gate, __global const float *betas, lo_out dw, lo_cl_bsr_gradient p) {
  const long area = p.height * p.width, item = get_global_id(0), block = item / area;
  if (block >= p.count) return;
  const long i = item % area / p.width, j = item % p.width;
  const long out = lo_row_of(&p, row_start, block) * p.height + i, in = column[block] * p.width + j;
  const long at = p.to.offset + (block * p.height + i) * p.to.stride + j;
  const float g = lo_gate_of(&p, gate, block), beta = lo_read_scalar(betas, p.beta);
  const bool inside = out < p.n && in < p.k;
  float sum = inside && g != 0.0f ? g * lo_sample_sum(&p, dz, x, out, in) : 0.0f;
  lo_put(dw, at, p.to.type, inside ? lo_accumulate(&p, dw, at, sum, beta) : 0.0f);
}
LO_KERNEL(GROUP)
void gates(lo_in dz, lo_in x, lo_in values, __global const int *row_start, __global const int *column,
           __global const float *betas, lo_out dgate, lo_cl_bsr_gradient p) {
  const long block = get_global_id(0);
  if (block >= p.count) return;
  const long out = lo_row_of(&p, row_start, block) * p.height, in = column[block] * p.width;
  const long at = p.to.offset + block;
  float sum = 0.0f;
  for (long i = 0; i < min(p.height, p.n - out); i++)
    for (long j = 0; j < min(p.width, p.k - in); j++)
      sum += lo_sample_sum(&p, dz, x, out + i, in + j) *
             lo_get(values, (block * p.height + i) * p.width + j, p.dz.type);
  lo_put(dgate, at, p.to.type, lo_accumulate(&p, dgate, at, sum, lo_read_scalar(betas, p.beta)));
}
LO_KERNEL(GROUP) void bias(lo_in dz, __global const float *betas, lo_out dbias, lo_cl_bsr_gradient p) {
  const long out = get_global_id(0), at = p.to.offset + out;
  float sum = 0.0f;
  if (out >= p.n) return;
  for (long i = 0; i < p.m; i++) sum += lo_get(dz, lo_place_of(&p, &p.dz, i, out), p.dz.type);
  lo_put(dbias, at, p.to.type, lo_accumulate(&p, dbias, at, sum, lo_read_scalar(betas, p.beta)));
}

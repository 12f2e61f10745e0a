/* A group has a block. */
LO_FN float lo_factor_of(const lo_cl_bsr_values *p, __global const float *scales, __global const float *gates,
                         long block) {
  return (p->scaled ? scales[block] : 1.0f) * (p->gate < 0 ? 1.0f : gates[p->gate + block]);
}

/* Values in f32, as often as they count. */
LO_KERNEL(GROUP)
void widen(lo_in values, __global const float *scales, __global const float *gates, __global float *to,
           lo_cl_bsr_values p) {
  const long block = get_group_id(0), begin = block * p.area;
  const float factor = lo_factor_of(&p, scales, gates, block);
  for (long i = begin + get_local_id(0) * VW; i < begin + p.area; i += GROUP * VW)
    LO_STORE(factor * lo_load_all(values, i, p.type), to + p.at + i);
}

/* dgate: the sum of dZ^T X times W over a block, as a tree of fixed shape. */
LO_KERNEL(GROUP)
void gates(lo_in values, __global const float *sums, __global const float *betas, lo_out dgate,
           __local float *lanes, lo_cl_bsr_values p) {
  const long block = get_group_id(0), begin = block * p.area, at = p.dgate.offset + block;
  const float beta = lo_read_scalar(betas, p.beta);
  lo_vec sum = (lo_vec)(0.0f);
  for (long i = begin + get_local_id(0) * VW; i < begin + p.area; i += GROUP * VW)
    sum += LO_LOAD(sums + p.at + i) * lo_load_all(values, i, p.type);
  const float all = lo_group_sum(lo_lanes_sum(sum), lanes);
  if (get_local_id(0) == 0)
    lo_put(dgate, at, p.dgate.type, beta == 0.0f ? all : all + beta * lo_get(dgate, at, p.dgate.type));
}

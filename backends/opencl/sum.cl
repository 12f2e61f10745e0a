/* Sums in a fixed order: of columns, over chunks of rows and then over the chunks; of a list of partial
 * sums. */
LO_KERNEL(GROUP) void columns(lo_in x, __global float *scratch, lo_cl_sum p) {
  const long j = get_global_id(0) * VW, chunk = get_global_id(1), count = p.cols - j;
  const long begin = chunk * p.chunk, end = min(begin + p.chunk, p.rows);
  if (count <= 0) return;
  lo_vec sum = (lo_vec)(0.0f);
  for (long i = begin; i < end; i++)
    sum += lo_load(x, p.x.offset + i * p.x.stride + j, p.x.type, count, 0.0f);
  lo_store((lo_out)scratch, p.partial + chunk * p.cols + j, LO_TYPE_F32, count, sum);
}

LO_KERNEL(GROUP)
void chunks(__global const float *scratch, lo_out to, __global const float *beta, lo_cl_sum p) {
  const long j = get_global_id(0) * VW, count = p.cols - j;
  const float old = lo_read_scalar(beta, p.beta);
  if (count <= 0) return;
  lo_vec sum = (lo_vec)(0.0f);
  for (long c = 0; c < p.chunks; c++)
    sum += lo_load((lo_in)scratch, p.partial + c * p.cols + j, LO_TYPE_F32, count, 0.0f);
  if (old != 0.0f) sum += old * lo_load(to, p.to.offset + j, p.to.type, count, 0.0f);
  lo_store(to, p.to.offset + j, p.to.type, count, sum);
}

/* A group has a row. */
LO_KERNEL(GROUP)
void rows(lo_in x, lo_out to, __global const float *beta, __local float *lanes, lo_cl_sum p) {
  const long i = get_group_id(0), from = p.x.offset + i * p.x.stride, at = p.to.offset + i;
  const float old = lo_read_scalar(beta, p.beta);
  lo_vec sum = (lo_vec)(0.0f);
  for (long j = get_local_id(0) * VW; j < p.cols; j += GROUP * VW)
    sum += lo_load(x, from + j, p.x.type, p.cols - j, 0.0f);
  const float all = lo_group_sum(lo_lanes_sum(sum), lanes);
  if (get_local_id(0) == 0)
    lo_put(to, at, p.to.type, old == 0.0f ? all : all + old * lo_get(to, at, p.to.type));
}

/* One group: item l of GROUP takes every GROUP-th vector, then the items are summed as a tree. */
LO_KERNEL(GROUP) void total(__global const float *scratch, lo_out to, __local float *lanes, lo_cl_total p) {
  const int item = get_local_id(0);
  lo_vec sum = (lo_vec)(0.0f);
  for (long i = item * VW; i < p.count; i += GROUP * VW)
    sum += lo_load((lo_in)scratch, p.partial + i, LO_TYPE_F32, p.count - i, 0.0f);
  const float all = lo_group_sum(lo_lanes_sum(sum), lanes);
  if (item == 0) lo_put(to, p.to.offset, p.to.type, p.factor * all);
}

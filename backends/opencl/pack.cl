/* Copies op(A)'s rows or op(B)'s columns into panels for the products on CPU devices: WIDTH rows (columns)
 * of all of k, as f32, filled up with zeros. */

/* VW rows from `row` on, at step `at` of k, to the panel (or, where panels are half as wide, the two) that
 * holds them. */
LO_FN void lo_pack_store(__global float *to, const lo_cl_pack *p, long row, long at, lo_vec v) {
  __global float *place = to + (row / WIDTH * p->k + at) * WIDTH + row % WIDTH;
#if WIDTH >= VW
  LO_STORE(v, place);
#else
  LO_PASTE(vstore, WIDTH)(v.lo, 0, place);
  if (row + WIDTH < p->from.count) LO_PASTE(vstore, WIDTH)(v.hi, 0, place + p->k * WIDTH);
#endif
}

LO_KERNEL(1) void pack(lo_in x, __global float *panels, lo_cl_pack p) {
  const lo_cl_operand o = p.from;
  const long row = get_group_id(0) * VW, batch = get_group_id(2), rows = o.count - row;
  const long begin = get_group_id(1) * p.chunk, end = min(begin + p.chunk, p.k);
  const long padded = (o.count + WIDTH - 1) / WIDTH * WIDTH;
  const long base = o.offset + (p.batch + batch) * o.batch_stride + row * o.across;
  __global float *to = panels + p.to + batch * padded * p.k;
  if (o.across == 1) {
    LO_ROLLED for (long k = begin; k < end; k++)
      lo_pack_store(to, &p, row, k, lo_load(x, base + k * o.along, o.type, rows, 0.0f));
    return;
  }
  for (long k = begin; k < end; k += VW) {
    lo_vec t[VW];
    LO_ROLLED for (int r = 0; r < VW; r++)
      t[r] = lo_load(x, base + r * o.across + k, o.type, r < rows ? end - k : 0, 0.0f);
    lo_transpose(t);
    LO_ROLLED for (int l = 0; l < VW && k + l < end; l++) lo_pack_store(to, &p, row, k + l, t[l]);
  }
}

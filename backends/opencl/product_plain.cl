/* The obvious product: an item sums VW neighbours of a row. It needs no scratch and no local memory, so it
 * is what remains where these are short, and it explains the others. */
LO_KERNEL(GROUP) void product(lo_in a, lo_in b, LO_TARGETS, lo_cl_product p) {
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const long across = (p.b.count + VW - 1) / VW, item = get_global_id(0), batch = get_global_id(2);
  const long row = item / across, col = item % across * VW;
  if (row >= p.a.count) return;
  const long depth = targets.alpha == 0.0f ? 0 : p.k;
  const long gA = p.a.offset + batch * p.a.batch_stride + row * p.a.across;
  const long gB = p.b.offset + batch * p.b.batch_stride + col * p.b.across;
  float acc[VW];
  for (int l = 0; l < VW; l++) acc[l] = 0.0f;
  for (long k = 0; k < depth; k++) {
    const float x = lo_get(a, gA + k * p.a.along, p.a.type);
    for (int l = 0; l < VW && col + l < p.b.count; l++)
      acc[l] += x * lo_get(b, gB + l * p.b.across + k * p.b.along, p.b.type);
  }
  lo_finish(&p.epilogue, &targets, LO_LOAD(acc), p.batch + batch, row, p.col + col,
            p.b.count - col);
}

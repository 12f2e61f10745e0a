/* Element-wise kernels: LO_EACH runs its body for each vector of the item, with the row i, the first
 * column j and the number of columns left, `count`. */
#define LO_EACH(s)                                                                                 \
  const long lo_item = get_global_id(0);                                                           \
  const long lo_i0 = lo_item / (s).across * (s).item_rows, lo_j0 = lo_item % (s).across * (s).item_cols; \
  const long lo_i1 = lo_item < (s).items ? min(lo_i0 + (s).item_rows, (s).rows) : 0;               \
  const long lo_j1 = min(lo_j0 + (s).item_cols, (s).cols);                                         \
  for (long i = lo_i0; i < lo_i1; i++)                                                             \
    for (long j = lo_j0, count; j < lo_j1 && (count = lo_j1 - j, true); j += VW)

LO_FN long lo_at(const lo_cl_view *v, long i, long j) { return v->offset + i * v->stride + j; }
LO_FN lo_vec lo_load_at(lo_in p, const lo_cl_view *v, long i, long j, long count) {
  return lo_load(p, lo_at(v, i, j), v->type, count, 0.0f);
}
LO_FN void lo_store_at(lo_out p, const lo_cl_view *v, long i, long j, long count, lo_vec x) {
  lo_store(p, lo_at(v, i, j), v->type, count, x);
}

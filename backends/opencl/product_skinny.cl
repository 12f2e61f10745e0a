/* A few rows times W^T, as a layer has them at a small batch: both operands lie along k, and packing W would
 * cost more than the product. An item multiplies ROWS rows with COLUMNS columns, vectors along k. */
#define ROWS 4
#define COLUMNS 4

LO_KERNEL(GROUP) void product(lo_in a, lo_in b, LO_TARGETS, lo_cl_product p) {
  const lo_targets targets = LO_TARGETS_OF(p.epilogue);
  const long row = get_group_id(0) * ROWS, col = get_group_id(1) * COLUMNS, batch = get_group_id(2);
  const long depth = targets.alpha == 0.0f ? 0 : p.k;
  const long whole = depth / VW * VW;
  long gA[ROWS], gB[COLUMNS]; /* those beyond the last are the last once more, and are dropped */
  lo_vec acc[ROWS][COLUMNS];
#pragma unroll
  for (int i = 0; i < ROWS; i++)
    gA[i] = p.a.offset + batch * p.a.batch_stride + min(row + i, p.a.count - 1) * p.a.across;
#pragma unroll
  for (int j = 0; j < COLUMNS; j++)
    gB[j] = p.b.offset + batch * p.b.batch_stride + min(col + j, p.b.count - 1) * p.b.across;
#pragma unroll
  for (int i = 0; i < ROWS; i++)
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) acc[i][j] = (lo_vec)(0.0f);
#define LO_STEP(LOAD_A, LOAD_B)                                                                    \
  {                                                                                                \
    lo_vec rB[COLUMNS];                                                                            \
    _Pragma("unroll") for (int j = 0; j < COLUMNS; j++) rB[j] = LOAD_B;                            \
    _Pragma("unroll") for (int i = 0; i < ROWS; i++) {                                             \
      const lo_vec rA = LOAD_A;                                                                    \
      _Pragma("unroll") for (int j = 0; j < COLUMNS; j++) acc[i][j] += rA * rB[j];                 \
    }                                                                                              \
  }
  for (long k = 0; k < whole; k += VW)
    LO_STEP(lo_load_all(a, gA[i] + k, p.a.type), lo_load_all(b, gB[j] + k, p.b.type))
  if (whole < depth)
    LO_STEP(lo_load(a, gA[i] + whole, p.a.type, depth - whole, 0.0f),
            lo_load(b, gB[j] + whole, p.b.type, depth - whole, 0.0f))
  float tile[ROWS * VW];
  for (int i = 0; i < ROWS * VW; i++) tile[i] = 0.0f;
#pragma unroll
  for (int i = 0; i < ROWS; i++)
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) tile[i * VW + j] = lo_lanes_sum(acc[i][j]);
  const long count = min(p.b.count - col, (long)COLUMNS);
  LO_ROLLED for (int i = 0; i < ROWS; i++)
    if (row + i < p.a.count)
      lo_finish(&p.epilogue, &targets, LO_LOAD(tile + i * VW), p.batch + batch, row + i, p.col + col,
                count);
}

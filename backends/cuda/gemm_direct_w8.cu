/* Tensor cores' kernels of gemm_direct.cuh for op(A) of 16 bits and op(B) of 8, or both of 8-bit
 * floats, made f16. */
#include "backends/cuda/gemm_direct_launch.cuh"

#define ENTRY(CORE, MT, NT, KS, M, N, K, UNROLL, BYTES, FEW, BLOCKS)                               \
  lo_entry<lo_direct<CORE<UNIT, TYPE, MT, NT, KS>, M, N, K, UNROLL, BYTES>, BLOCKS, FEW,           \
           UNIT != LO_DIRECT_K8_F16>(),
#define X(NAME, MT, NT, KS, M, N, K, UNROLL, BYTES, FEW, BLOCKS, ...)                              \
  ENTRY(lo_direct_mixed, MT, NT, KS, M, N, K, UNROLL, BYTES, FEW, BLOCKS)
#define BOTH(NAME, MT, NT, KS, M, N, K, UNROLL, BYTES, FEW, BLOCKS, ...)                           \
  ENTRY(lo_direct_widened, MT, NT, KS, M, N, K, UNROLL, BYTES, FEW, BLOCKS)

template <int UNIT, int TYPE> static const lo_direct_entry *list_of() {
  if constexpr (UNIT == LO_DIRECT_K8_F16) {
    static const lo_direct_entry list[] = {LO_CU_DIRECT_W8(X)};
    return list;
  } else {
    static const lo_direct_entry list[] = {LO_CU_DIRECT_W8(X) LO_CU_DIRECT_W8_LARGE(X)};
    return list;
  }
}

template <int UNIT> static const lo_direct_entry *list_by(int type) {
  return type == LO_TYPE_I8       ? list_of<UNIT, LO_TYPE_I8>()
         : type == LO_TYPE_F8E4M3 ? list_of<UNIT, LO_TYPE_F8E4M3>()
                                  : list_of<UNIT, LO_TYPE_F8E5M2>();
}

template <int TYPE> static const lo_direct_entry *list_of_both() {
  constexpr int UNIT = LO_DIRECT_F16;
  static const lo_direct_entry list[] = {LO_CU_DIRECT_W8(BOTH) LO_CU_DIRECT_W8_LARGE(BOTH)};
  return list;
}

int lo_cu_run_direct_w8(int number, int unit, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  const lo_direct_entry *list = unit == LO_DIRECT_K8_F16 ? list_by<LO_DIRECT_K8_F16>(p->b.type)
                                : unit == LO_DIRECT_F16  ? list_by<LO_DIRECT_F16>(p->b.type)
                                                         : list_by<LO_DIRECT_BF16>(p->b.type);
  if (p->a.type == LO_TYPE_F8E4M3 || p->a.type == LO_TYPE_F8E5M2)
    list = p->b.type == LO_TYPE_F8E4M3 ? list_of_both<LO_TYPE_F8E4M3>()
                                       : list_of_both<LO_TYPE_F8E5M2>();
  return lo_run_direct(list + number, p, grid, stream);
}

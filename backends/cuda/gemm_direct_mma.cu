/* Tensor cores' kernels of gemm_direct.cuh. */
#include "backends/cuda/gemm_direct_launch.cuh"

#define X(NAME, MT, NT, KS, M, N, K, UNROLL, BYTES, FEW, BLOCKS, ...)                              \
  lo_entry<lo_direct<lo_direct_mma<UNIT, MT, NT, KS>, M, N, K, UNROLL, BYTES>, BLOCKS, FEW,        \
           UNIT != LO_DIRECT_K8_F16 && UNIT != LO_DIRECT_K16_S8>(),

template <int UNIT> static const lo_direct_entry *halves() {
  static const lo_direct_entry list[] = {LO_CU_DIRECT_MMA(X) LO_CU_DIRECT_LOOSE(X)};
  return list;
}
template <int UNIT> static const lo_direct_entry *bytes() {
  static const lo_direct_entry list[] = {LO_CU_DIRECT_MMA(X)};
  return list;
}

int lo_cu_run_direct_mma(int number, int unit, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  const lo_direct_entry *list = unit == LO_DIRECT_K8_F16   ? halves<LO_DIRECT_K8_F16>()
                                : unit == LO_DIRECT_F16    ? halves<LO_DIRECT_F16>()
                                : unit == LO_DIRECT_BF16   ? halves<LO_DIRECT_BF16>()
                                : unit == LO_DIRECT_K16_S8 ? bytes<LO_DIRECT_K16_S8>()
                                                           : bytes<LO_DIRECT_S8>();
  return lo_run_direct(list + number, p, grid, stream);
}

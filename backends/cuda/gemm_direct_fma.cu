/* Ordinary cores' kernels of gemm_direct.cuh. */
#include "backends/cuda/gemm_direct_launch.cuh"

#define X(NAME, LM, LN, TM, TN, M, N, K, UNROLL, BYTES, FEW, BLOCKS, ...)                          \
  lo_entry<lo_direct<lo_direct_fma<E, LM, LN, TM, TN>, M, N, K, UNROLL, BYTES>, BLOCKS, FEW,       \
           false>(),

int lo_cu_run_direct_fma(int number, int has_halves, const lo_cu_gemm *p, lo_cu_grid grid,
                         void *stream) {
  static const lo_direct_entry f32[] = {
#define E float
      LO_CU_DIRECT_FMA(X) LO_CU_FEW_FMA(X)
#undef E
  };
  static const lo_direct_entry halves[] = {
#define E unsigned short
      LO_CU_FEW_FMA(X)
#undef E
  };
  return lo_run_direct((has_halves ? halves : f32) + number, p, grid, stream);
}

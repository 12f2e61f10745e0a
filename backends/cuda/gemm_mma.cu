/* The tensor cores' kernels that stage operands through registers. Those of an instruction that an
 * architecture lacks are empty there, and are never chosen. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/gemm_mma.cuh"
#include "backends/cuda/launch.h"

template <int MMA, bool TRANS_A, bool TRANS_B, int BM, int BN, int WM, int WN, int BLOCKS>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, BLOCKS)
    mma_kernel(const __grid_constant__ lo_cu_gemm p) {
  lo_follow();
#ifdef __CUDA_ARCH__
  if constexpr (__CUDA_ARCH__ >= 800 || (MMA != LO_MMA_K16_F16 && MMA != LO_MMA_K16_BF16))
    lo_gemm_mma<lo_mma_core<MMA, BM, BN, WM, WN, TRANS_A, TRANS_B>, TRANS_A>(p);
#endif
}

typedef struct tile {
  const void *kernel[2][2]; /* A transposed, B transposed */
  unsigned threads, shared;
} tile;

#define KERNEL(MMA, TRANS_A, TRANS_B, BM, BN, WM, WN, BLOCKS, ...)                                 \
  (const void *)mma_kernel<MMA, TRANS_A, TRANS_B, BM, BN, WM, WN, BLOCKS>
#define SIZES(BM, BN, WM, WN, ...) BM / WM *(BN / WN) * 32, LO_CU_MMA_SHARED(BM, BN)
#define ALL(MMA, ...)                                                                              \
  {{{KERNEL(MMA, false, false, __VA_ARGS__), KERNEL(MMA, false, true, __VA_ARGS__)},               \
    {KERNEL(MMA, true, false, __VA_ARGS__), KERNEL(MMA, true, true, __VA_ARGS__)}},                \
   SIZES(__VA_ARGS__)},
#define ALONG_K(MMA, ...)                                                                          \
  {{{nullptr, KERNEL(MMA, false, true, __VA_ARGS__)}, {nullptr, nullptr}}, SIZES(__VA_ARGS__)},

static int run(const tile *t, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  grid.threads = t->threads;
  grid.shared = t->shared;
  return lo_cu_launch(t->kernel[!p->a.k_inner][p->b.k_inner != 0], grid, p, stream);
}

int lo_cu_run_gemm_mma_k8(int number, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  static const tile tiles[] = {
#define X(...) ALL(LO_MMA_K8_F16, __VA_ARGS__)
      LO_CU_MMA_TILES(X)
#undef X
  };
  return run(&tiles[number], p, grid, stream);
}

int lo_cu_run_gemm_mma_k16(int number, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  static const tile tiles[] = {
#define X(...) ALL(LO_MMA_K16_F16, __VA_ARGS__) ALL(LO_MMA_K16_BF16, __VA_ARGS__)
      LO_CU_MMA_K16_TILES(X)
#undef X
  };
  return run(&tiles[2 * number + p->bf16], p, grid, stream);
}

int lo_cu_run_gemm_mma_int8(int number, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  static const tile tiles[] = {
#define X(...) ALONG_K(LO_MMA_S8, __VA_ARGS__) ALONG_K(LO_MMA_U8, __VA_ARGS__)
      LO_CU_MMA_TILES(X)
#undef X
#define X(...) ALL(LO_MMA_S8, __VA_ARGS__) ALL(LO_MMA_U8, __VA_ARGS__)
          LO_CU_MMA_ANY_INT8_TILES(X)
#undef X
  };
  return run(&tiles[2 * number + p->a_unsigned], p, grid, stream);
}

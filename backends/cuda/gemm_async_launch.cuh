/* The asynchronous kernels of one type of operands, for each tile those for rows aligned to 16
 * bytes and those for words, and their launch. They are empty before Ampere, and never chosen
 * there. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/gemm_async.cuh"
#include "backends/cuda/launch.h"

template <int TYPE, class T, int BLOCKS, int UNIT, bool TRANS_A, bool TRANS_B>
__global__ void __launch_bounds__(T::THREADS, BLOCKS)
    async_kernel(const __grid_constant__ lo_cu_gemm p) {
#if __CUDA_ARCH__ >= 800
  lo_gemm_async<lo_async_core<TYPE, T, TRANS_A, TRANS_B, UNIT>, TRANS_A, TRANS_B>(p);
#endif
}

typedef struct async_row {
  unsigned threads, shared;
  const void *kernels[2][4]; /* words; 2 * A transposed + B transposed, or of integers a_unsigned */
  unsigned long long devices[2][4];
} async_row;

static int launch_async(async_row *row, int words, int variant, const lo_cu_gemm *p,
                        lo_cu_grid grid, void *stream) {
  const void *kernel = row->kernels[words][variant];
  int error = lo_cu_allow_shared(kernel, row->shared, &row->devices[words][variant]);
  grid.threads = row->threads;
  grid.shared = row->shared;
  return error ? error : lo_cu_launch(kernel, grid, p, stream);
}

#define LO_ASYNC_KERNEL(TYPE, BLOCKS, UNIT, TRANS_A, TRANS_B, ...)                                 \
  (const void *)async_kernel<TYPE, lo_async_tile<__VA_ARGS__>, BLOCKS, UNIT, TRANS_A, TRANS_B>
#define LO_ASYNC_ROW(VARIANTS, BLOCKS, ...)                                                        \
  {lo_async_tile<__VA_ARGS__>::THREADS,                                                            \
   lo_async_tile<__VA_ARGS__>::BYTES,                                                              \
   {VARIANTS(BLOCKS, 16, __VA_ARGS__), VARIANTS(BLOCKS, 4, __VA_ARGS__)},                          \
   {}},

/* Floats: each order of operands. */
template <int TYPE>
static int launch_floats(int number, int words, const lo_cu_gemm *p, lo_cu_grid grid,
                         void *stream) {
#define ORDERS(BLOCKS, UNIT, ...)                                                                  \
  {                                                                                                \
    LO_ASYNC_KERNEL(TYPE, BLOCKS, UNIT, false, false, __VA_ARGS__),                                \
        LO_ASYNC_KERNEL(TYPE, BLOCKS, UNIT, false, true, __VA_ARGS__),                             \
        LO_ASYNC_KERNEL(TYPE, BLOCKS, UNIT, true, false, __VA_ARGS__),                             \
        LO_ASYNC_KERNEL(TYPE, BLOCKS, UNIT, true, true, __VA_ARGS__)                               \
  }
#define X(BM, BN, WM, WN, STAGES, RING, BLOCKS, ...)                                               \
  LO_ASYNC_ROW(ORDERS, BLOCKS, BM, BN, WM, WN, STAGES, RING)
  static async_row rows[] = {LO_CU_ASYNC_TILES(X)};
#undef X
#undef ORDERS
  return launch_async(&rows[number], words, 2 * !p->a.k_inner + (p->b.k_inner != 0), p, grid,
                      stream);
}

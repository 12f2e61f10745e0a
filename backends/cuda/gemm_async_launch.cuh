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
  lo_follow();
#if __CUDA_ARCH__ >= 800
  lo_gemm_async<lo_async_core<TYPE, T, TRANS_A, TRANS_B, UNIT>, TRANS_A, TRANS_B>(p);
#endif
}

typedef struct async_row {
  unsigned threads, shared;
  const void *kernels[4]; /* 2 * A transposed + B transposed, or of integers whether A is u8 */
} async_row;

static int launch_async(const async_row *row, int variant, const lo_cu_gemm *p, lo_cu_grid grid,
                        void *stream) {
  const void *kernel = row->kernels[variant];
  grid.threads = row->threads;
  grid.shared = row->shared;
  return lo_cu_launch(kernel, grid, p, stream);
}

#define LO_ASYNC_KERNEL(TYPE, BLOCKS, UNIT, TRANS_A, TRANS_B, ...)                                 \
  (const void *)async_kernel<TYPE, lo_async_tile<__VA_ARGS__>, BLOCKS, UNIT, TRANS_A, TRANS_B>
#define LO_ASYNC_ROW(VARIANTS, BLOCKS, UNIT, ...)                                                  \
  {lo_async_tile<__VA_ARGS__>::THREADS,                                                            \
   lo_async_tile<__VA_ARGS__>::BYTES,                                                              \
   {VARIANTS(BLOCKS, UNIT, __VA_ARGS__)}},
#define LO_ASYNC_CHUNKS(BM, BN, WM, WN, STAGES, RING, BLOCKS, ...)                                 \
  LO_ASYNC_ROW(LO_ASYNC_VARIANTS, BLOCKS, 16, BM, BN, WM, WN, STAGES, RING)
#define LO_ASYNC_WORDS(BM, BN, WM, WN, STAGES, RING, BLOCKS, ...)                                  \
  LO_ASYNC_ROW(LO_ASYNC_VARIANTS, BLOCKS, 4, BM, BN, WM, WN, STAGES, RING)

/* Floats: each order of operands. */
template <int TYPE>
static int launch_floats(int number, int words, const lo_cu_gemm *p, lo_cu_grid grid,
                         void *stream) {
#define LO_ASYNC_VARIANTS(BLOCKS, UNIT, ...)                                                       \
  LO_ASYNC_KERNEL(TYPE, BLOCKS, UNIT, false, false, __VA_ARGS__),                                  \
      LO_ASYNC_KERNEL(TYPE, BLOCKS, UNIT, false, true, __VA_ARGS__),                               \
      LO_ASYNC_KERNEL(TYPE, BLOCKS, UNIT, true, false, __VA_ARGS__),                               \
      LO_ASYNC_KERNEL(TYPE, BLOCKS, UNIT, true, true, __VA_ARGS__)
  static const async_row chunk_rows[] = {LO_CU_ASYNC_TILES(LO_ASYNC_CHUNKS)};
  static const async_row word_rows[] = {LO_CU_ASYNC_WORD_TILES(LO_ASYNC_WORDS)};
#undef LO_ASYNC_VARIANTS
  return launch_async(words ? &word_rows[number] : &chunk_rows[number],
                      2 * !p->a.k_inner + (p->b.k_inner != 0), p, grid, stream);
}

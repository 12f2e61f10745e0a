/* Hopper's main loops once more, with warps that come late to where they meet others. */
#include <config.h>

#include <cuda_runtime_api.h>

#define LO_DELAY(where) come_late(__LINE__)
static __device__ __forceinline__ void come_late(unsigned line);

#include "backends/cuda/gemm_triple_wgmma.cuh"
#include "backends/cuda/gemm_wgmma.cuh"
#include "t/cuda/delays.h"

static __constant__ unsigned late;

static __device__ __forceinline__ unsigned scramble(unsigned x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

/* Most often not at all, else up to 2 us; but one warp in 16, others each 16 us, up to 8 us each
 * time. */
static __device__ __forceinline__ void come_late(unsigned line) {
  if (!late) return;
  unsigned time, warp = 32 * (blockIdx.x + 64 * blockIdx.y) + threadIdx.x / 32;
  asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(time));
  unsigned dice = scramble(scramble(late + line) + clock() + warp * 0x9e3779b9u);
  bool slow = scramble(warp ^ scramble(late ^ time >> 14)) % 16 == 0;
  if (!slow && dice % 8) return;
  asm volatile("nanosleep.u32 %0;" ::"r"(dice >> 8 & (slow ? 4095 : 1023)) : "memory");
}

template <int INPUT, class T, bool TRANS_A, bool TRANS_B, bool PROMOTES>
__global__ void __launch_bounds__(T::THREADS, T::RESIDENT)
    late_wgmma(const __grid_constant__ lo_cu_boxed_gemm p) {
#if __CUDA_ARCH_FEAT_SM90_ALL
  lo_gemm_wgmma<lo_wgmma_core<INPUT, T, TRANS_A, TRANS_B, PROMOTES>, T, TRANS_A>(p);
#endif
}
template <class Core, bool TRANS_A>
__global__ void __launch_bounds__(Core::THREADS) late_triple(const __grid_constant__ lo_cu_gemm p) {
  LO_DELAY(START);
  lo_follow();
#if __CUDA_ARCH_FEAT_SM90_ALL
  lo_gemm_triple<Core, TRANS_A>(p);
#endif
}

/* GROUPS, TALL, BN, STAGES, CLUSTER */
#define TILE(...) lo_wgmma_tile<__VA_ARGS__>
#define WGMMA(NAME, T, INPUT, TYPE, ELEMENT, TRANS_A, TRANS_B, PROMOTES, PARTS)                    \
  {                                                                                                \
    NAME, (const void *)late_wgmma<INPUT, T, TRANS_A, TRANS_B, PROMOTES>, T::THREADS, T::BYTES,    \
        true, T::CLUSTER, T::BM, T::BN, 128 / ELEMENT, PARTS, TYPE, TRANS_A, TRANS_B               \
  }
#define F16_NT(T, PARTS)                                                                           \
  WGMMA("f16 NT " #T, T, LO_WGMMA_F16, LO_TYPE_F16, 2, false, true, false, PARTS)
#define F16_TN(T, PARTS)                                                                           \
  WGMMA("f16 TN " #T, T, LO_WGMMA_F16, LO_TYPE_F16, 2, true, false, false, PARTS)
#define INT8(T, PARTS) WGMMA("int8 " #T, T, LO_WGMMA_S8, LO_TYPE_I8, 1, false, true, false, PARTS)
#define F8(T, PARTS)                                                                               \
  WGMMA("e4m3 " #T, T, LO_WGMMA_E4M3_E4M3, LO_TYPE_F8E4M3, 1, false, true, true, PARTS)
#define F32(BM, BN, STAGES, TRANS_A, TRANS_B, PARTS)                                               \
  {                                                                                                \
    "f32 " #BM "x" #BN,                                                                            \
        (const void *)                                                                             \
            late_triple<lo_triple_wgmma_core<BM, BN, STAGES, TRANS_A, TRANS_B>, TRANS_A>,          \
        lo_triple_wgmma_core<BM, BN, STAGES, TRANS_A, TRANS_B>::THREADS,                           \
        lo_triple_wgmma_core<BM, BN, STAGES, TRANS_A, TRANS_B>::BYTES, false, 1, BM, BN,           \
        LO_TRIPLE_BK, PARTS, LO_TYPE_F32, TRANS_A, TRANS_B                                         \
  }

typedef TILE(2, 1, 256, 4, 2) pair256;
typedef TILE(2, 1, 128, 6, 2) pair128;
typedef TILE(2, 2, 128, 4, 1) tall256x128;
typedef TILE(2, 1, 128, 6, 1) tile128x128;
typedef TILE(1, 1, 64, 6, 1) tile64x64;

extern "C" const late_kernel late_kernels[] = {
    F16_NT(pair128, 0),
    F16_NT(tall256x128, 0),
    F16_NT(tile128x128, 4),
    F16_NT(tile64x64, 8),
    F16_TN(pair256, 0),
    F16_TN(tile128x128, 3),
    F16_TN(tile64x64, 2),
    INT8(pair256, 0),
    INT8(tile128x128, 2),
    INT8(tile64x64, 4),
    F8(pair128, 0),
    F8(tall256x128, 2),
    F8(tile64x64, 4),
    F32(128, 128, 3, false, true, 4),
    F32(64, 64, 3, true, false, 3),
};
extern "C" const int late_kernel_count = sizeof late_kernels / sizeof *late_kernels;

extern "C" int late_seed(unsigned seed) {
  return cudaMemcpyToSymbol(late, &seed, sizeof seed);
}

static __global__ void compare(const __grid_constant__ late_comparison p) {
  lo_follow();
  for (int i = 0; i < p.count; i++) {
    const late_pair &pair = p.pairs[i];
    lo_u64 differing = 0;
    for (lo_i64 at = blockIdx.x * blockDim.x + threadIdx.x; at < pair.words;
         at += gridDim.x * blockDim.x)
      differing += pair.is[at] != pair.wanted[at];
    if (!differing) continue;
    atomicAdd(&p.differing[0], differing);
    atomicMin(&p.differing[1], (lo_u64)p.round);
  }
}

extern "C" int late_compare(const late_comparison *p, void *stream) {
  lo_cu_grid grid = {64, 1, 1, 256};
  return lo_cu_launch((const void *)compare, grid, p, stream);
}

/* Lines of blocks are of any length, so the blocks of a grid take its tiles as they come: a block's
 * copying warp asks for the next one, and names it to the other warps. */
#ifndef LO_CUDA_BSR_QUEUE_CUH
#define LO_CUDA_BSR_QUEUE_CUH

#include "backends/cuda/bsr_launch.h"
#include "backends/cuda/tma.cuh"

/* Tiles that have a name at once, and the bytes of these: a tile and two barriers each. */
enum { LO_BSR_NAMED = 4, LO_BSR_QUEUE = LO_BSR_NAMED * 48 };

#if __CUDA_ARCH__ >= 900
/* A tile: of kept blocks, or steps, begin ... end - 1 of a line, below 0 where there is none; tm:
 * which rows of X; part: which of a block's outputs, or rows. */
struct lo_bsr_tile {
  int line, begin, end, tm, part;
};

/* Numbers of tiles, for the copying warp. taken[0] counts those that blocks took beside their first
 * one, [1] the blocks that found no more; the last one leaves both 0. */
struct lo_bsr_numbers {
  unsigned *taken;
  unsigned at; /* of lane 0: on its way after ask() */
  __device__ __forceinline__ lo_bsr_numbers(unsigned *taken_) : taken(taken_), at(blockIdx.x) {}
  __device__ __forceinline__ unsigned next() const { return __shfl_sync(~0u, at, 0); }
  __device__ __forceinline__ void ask() {
    if (threadIdx.x % 32 == 0) at = gridDim.x + atomicAdd(taken, 1u);
  }
  __device__ __forceinline__ void end() const {
    if (threadIdx.x % 32 == 0 && atomicAdd(taken + 1, 1u) == gridDim.x - 1) taken[0] = taken[1] = 0;
  }
};

/* Tiles on their way from the copying warp to the others, of which each warp takes every one. */
template <class T> struct lo_bsr_queue {
  unsigned base;
  int at;
  unsigned parity;
  __device__ __forceinline__ lo_bsr_queue(unsigned memory)
      : base(memory + T::QUEUE), at(0), parity(0) {}
  __device__ __forceinline__ unsigned place() const { return base + at * 48; }
  __device__ __forceinline__ unsigned full() const { return place() + 32; }
  __device__ __forceinline__ unsigned empty() const { return place() + 40; }
  __device__ __forceinline__ void next() {
    if (++at < LO_BSR_NAMED) return;
    at = 0;
    parity ^= 1;
  }
  __device__ __forceinline__ void init() const {
    if (lo_elect()) {
#pragma unroll
      for (int i = 0; i < LO_BSR_NAMED; i++) {
        lo_mbarrier_init(base + i * 48 + 32, 1);
        lo_mbarrier_init(base + i * 48 + 40, T::WORKERS / 32);
      }
      lo_mbarrier_publish();
    }
    __syncwarp();
  }
  __device__ __forceinline__ void put(const lo_bsr_tile &t) {
    LO_DELAY(EMPTY);
    lo_mbarrier_wait(empty(), parity ^ 1);
    if (threadIdx.x % 32 == 0) {
      asm volatile(
          "st.shared.v4.s32 [%0], {%1, %2, %3, %4};\nst.shared.s32 [%0 + 16], %5;" ::"r"(place()),
          "r"(t.line), "r"(t.begin), "r"(t.end), "r"(t.tm), "r"(t.part)
          : "memory");
      lo_mbarrier_arrive(full());
    }
    __syncwarp();
    next();
  }
  __device__ __forceinline__ bool take(lo_bsr_tile &t) {
    LO_DELAY(FULL);
    lo_mbarrier_wait(full(), parity);
    asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%5];\nld.shared.s32 %4, [%5 + 16];"
                 : "=r"(t.line), "=r"(t.begin), "=r"(t.end), "=r"(t.tm), "=r"(t.part)
                 : "r"(place())
                 : "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0) lo_mbarrier_arrive(empty());
    next();
    t.line = __shfl_sync(~0u, t.line, 0);
    return t.line >= 0;
  }
};

#endif

#endif

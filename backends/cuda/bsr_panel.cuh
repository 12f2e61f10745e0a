/* Operands of mma.sync in stages of shared memory, for block-sparse products. */
#ifndef LO_CUDA_BSR_PANEL_CUH
#define LO_CUDA_BSR_PANEL_CUH

#include "backends/cuda/async_copy.cuh"

LO_FN void lo_store_shared(unsigned to, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}
/* Eight elements from there, of which the first `count` are read and the others zeros, to shared
 * memory: on their way only, from Ampere on, unless LOOSE, off borders of 16 bytes. */
template <bool LOOSE> LO_FN void lo_bring(unsigned to, const char *from, int count) {
#if __CUDA_ARCH__ >= 800
  if (!LOOSE) {
    lo_copy_some<16>(to, from, 2 * count);
    return;
  }
#endif
  uint4 v = make_uint4(0, 0, 0, 0);
  if (!LOOSE && count == 8) {
    v = *(const uint4 *)from;
  } else {
    unsigned h[8];
#pragma unroll
    for (int i = 0; i < 8; i++) h[i] = i < count ? ((const unsigned short *)from)[i] : 0;
    v = make_uint4(h[0] | h[1] << 16, h[2] | h[3] << 16, h[4] | h[5] << 16, h[6] | h[7] << 16);
  }
  lo_store_shared(to, v);
}

/* EXTENT rows (columns) of the result by BK of k, in lines along k, K_INNER, or across it. Chunks
 * of 8 elements are swizzled, so that copies and ldmatrix find all banks. */
template <bool K_INNER_, int EXTENT_, int BK_, int THREADS_> struct lo_bsr_panel {
  static constexpr bool K_INNER = K_INNER_;
  static constexpr int EXTENT = EXTENT_, BK = BK_, THREADS = THREADS_;
  static constexpr int LINES = K_INNER ? EXTENT : BK, LINE = 2 * (K_INNER ? BK : EXTENT);
  static constexpr int BYTES = LINES * LINE, CHUNKS = LINE / 16, ALL = LINES * CHUNKS;
  /* A thread has LOADS chunks of a panel, APART lines from each other. */
  static constexpr int APART = THREADS / CHUNKS, LOADS = (ALL + THREADS - 1) / THREADS;
  static_assert(LINE >= 32 && EXTENT % 16 == 0 && BK % 16 == 0, "fragments");
  static_assert(APART % 8 == 0 && (LOADS == 1 || ALL % THREADS == 0), "one swizzle");

  static __device__ __forceinline__ unsigned place(int line, int chunk) {
    int swizzle = LINE >= 128 ? line % 8 : LINE == 64 ? line / 2 % 4 : line / 4 % 2;
    return (unsigned)(line * LINE + ((chunk ^ swizzle) << 4));
  }
  /* The thread's first chunk, and whether it has any. */
  static __device__ __forceinline__ int line() { return (int)threadIdx.x / CHUNKS; }
  static __device__ __forceinline__ int chunk() { return (int)threadIdx.x % CHUNKS; }
  static __device__ __forceinline__ bool mine() { return ALL >= THREADS || threadIdx.x < ALL; }
  static __device__ __forceinline__ unsigned own(unsigned panel, int load) {
    return panel + place(line(), chunk()) + load * (APART * LINE);
  }
  /* 16 rows from `row` on by 16 of k, as mma.sync takes A, or 16 columns as it takes B, twice. */
  template <bool A>
  static __device__ __forceinline__ void read(unsigned (&r)[4], unsigned panel, int row, int k) {
    int lane = threadIdx.x % 32, matrix = lane / 8;
    row += 8 * (A ? matrix % 2 : matrix / 2);
    k += 8 * (A ? matrix / 2 : matrix % 2);
    if (K_INNER)
      lo_read_matrices<false>(r, panel + place(row + lane % 8, k / 8));
    else
      lo_read_matrices<true>(r, panel + place(k + lane % 8, row / 8));
  }
};

#endif

/* Block-sparse products of 16-bit types, for small grids (from Ampere on): as bsr_direct.cuh, but
 * by way of shared memory, so that more is on its way than registers have room for, and blocks are
 * turned as they are read.
 *
 * Warps share out the kept blocks of a line, four chunks of 8 elements at a time: a stage of the
 * warp's own ring, which no other warp waits for. */
#ifndef LO_CUDA_BSR_RINGS_CUH
#define LO_CUDA_BSR_RINGS_CUH

#include "backends/cuda/bsr_mma.cuh"

/* 32 rows of the result by 8 NT columns. */
template <bool BF16_, bool TURN_, int NT_, int WARPS_M_, int WARPS_K_, int STAGES_, int RESIDENT_>
struct lo_bsr_rings {
  static constexpr bool BF16 = BF16_, TURN = TURN_;
  static constexpr int MT = 2, NT = NT_, WARPS_M = WARPS_M_, WARPS_K = WARPS_K_;
  static constexpr int STAGES = STAGES_, RESIDENT = RESIDENT_;
  static constexpr int WARPS = WARPS_M * WARPS_K, THREADS = 32 * WARPS;
  static constexpr int WM = 16 * MT, BM = WARPS_M * WM, BN = 8 * NT;
  static constexpr int ROW_X = 64, ROW_W = TURN ? 2 * BN : 64; /* bytes of a line of a stage */
  static constexpr int STAGE_X = WM * ROW_X, STAGE = STAGE_X + 64 * BN;
  static constexpr int PITCH = BN + 8, SUMS = STAGES * STAGE / 4; /* of a warp: its ring */
  static constexpr int BYTES = WARPS * STAGES * STAGE;
  static_assert(WM * PITCH <= SUMS, "sums lie where stages did");

  float acc[MT][NT][4];

  __device__ __forceinline__ void multiply(unsigned stage) {
    int lane = threadIdx.x % 32, line = lane % 16;
    unsigned a[2][MT][4], b[2][NT / 2][4], w = stage + STAGE_X;
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
      for (int i = 0; i < MT; i++)
        lo_read_matrices<false>(a[k][i],
                                stage + (16 * i + line) * ROW_X +
                                    (((2 * k + lane / 16) ^ lo_swizzle<ROW_X>(line)) << 4));
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
      for (int j = 0; j < NT / 2; j++) {
        int l = TURN ? 16 * k + line : 16 * j + lane / 16 * 8 + lane % 8;
        int c = TURN ? 2 * j + lane / 16 : 2 * k + lane / 8 % 2;
        lo_read_matrices<TURN>(b[k][j], w + l * ROW_W + ((c ^ lo_swizzle<ROW_W>(l)) << 4));
      }
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
      for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++)
          lo_mma_16<BF16>(acc[i][j], a[k][i][0], a[k][i][1], a[k][i][2], a[k][i][3],
                          b[k][j / 2][j % 2 * 2], b[k][j / 2][j % 2 * 2 + 1]);
  }
  __device__ __forceinline__ void put(float *sums) const {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
      for (int j = 0; j < NT; j++) {
        float *line = sums + (16 * i + lane / 4) * PITCH + 8 * j + lane % 4 * 2;
        *(float2 *)line = make_float2(acc[i][j][0], acc[i][j][1]);
        *(float2 *)(line + 8 * PITCH) = make_float2(acc[i][j][2], acc[i][j][3]);
      }
  }
};

/* A warp's way through a line of blocks, whose head the lanes hold, a word each. */
template <class T> struct lo_ring_loader {
  const lo_cu_bsr16 &p;
  int word, chunks, begin, rows; /* rows: of X, from the lane's first on */
  const unsigned short *x, *w;   /* x: of its first row */

  __device__ __forceinline__ int index(int e) const {
    int v = __shfl_sync(~0u, word, e < LO_CU_BSR_ENTRIES ? 4 + 2 * e : 0);
    if (e >= LO_CU_BSR_ENTRIES) v = e << (p.k_log2 - 3) < chunks ? p.index[begin + e] : 0;
    return v;
  }
  __device__ __forceinline__ int place(int e) const {
    if (!T::TURN) return begin + e;
    int v = __shfl_sync(~0u, word, e < LO_CU_BSR_ENTRIES ? 5 + 2 * e : 0);
    if (e >= LO_CU_BSR_ENTRIES) v = e << (p.k_log2 - 3) < chunks ? p.place[begin + e] : 0;
    return v;
  }
  __device__ __forceinline__ void fill_x(unsigned stage, int t) const {
    int lane = threadIdx.x % 32, q = lane % 4, row = lane / 4, log2 = p.k_log2 - 3, c = 4 * t + q;
    lo_i64 column = ((lo_i64)index(c >> log2) << p.k_log2) + 8 * (c & ((1 << log2) - 1));
    int left = c < chunks ? lo_left(p.k, column, 8) : 0, bytes = left > 0 ? 2 * left : 0;
    const unsigned short *from = x + column;
#pragma unroll
    for (int i = 0; i < T::WM; i += 8) {
      bool there = i < rows && bytes;
      lo_copy_some<16>(stage + (row + i) * T::ROW_X + ((q ^ lo_swizzle<T::ROW_X>(row + i)) << 4),
                       there ? from + i * p.x_stride : p.w, there ? bytes : 0);
    }
  }
  __device__ __forceinline__ void fill_w(unsigned stage, int t) const {
    int lane = threadIdx.x % 32, log2 = p.k_log2 - 3;
#pragma unroll
    for (int i = 0; i < T::NT; i++) {
      /* TURN: lines are of k, eight of them a chunk */
      int line = T::TURN ? (lane + 32 * i) / T::NT : lane / 4 + 8 * i;
      int in = T::TURN ? lane % T::NT : lane % 4, c = 4 * t + (T::TURN ? line / 8 : in);
      int k = 8 * (c & ((1 << log2) - 1));
      const unsigned short *from =
          w + ((lo_i64)place(c >> log2) << (p.k_log2 + p.n_log2)) +
          (T::TURN ? ((k + line % 8) << p.n_log2) + 8 * in : (line << p.k_log2) + k);
      lo_copy_some<16>(stage + T::STAGE_X + line * T::ROW_W +
                           ((in ^ lo_swizzle<T::ROW_W>(line)) << 4),
                       c < chunks ? from : p.w, c < chunks ? 16 : 0);
    }
  }
};

template <class T>
__global__ void __launch_bounds__(T::THREADS, T::RESIDENT)
    bsr_rings_kernel(const __grid_constant__ lo_cu_bsr16 p) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(1024) char memory[];
  __shared__ __align__(16) lo_tile_columns<T::BN, false> columns;
  int warp = threadIdx.x / 32, warp_k = warp % T::WARPS_K, warp_m = warp / T::WARPS_K;
  int lane = threadIdx.x % 32;
  unsigned tm = blockIdx.x % (unsigned)p.tiles_m, item = blockIdx.x / (unsigned)p.tiles_m;
  int part = item & ((1 << p.parts_log2) - 1);
  /* The pattern was complete before any product was launched. */
  int word = p.heads[(item >> p.parts_log2) * (lo_i64)LO_CU_BSR_HEAD_WORDS + lane];
  static_assert(LO_CU_BSR_HEAD_WORDS == 32, "a lane each");
  lo_i64 row0 = (lo_i64)tm * T::BM + warp_m * T::WM;
  lo_ring_loader<T> loader = {p,
                              word,
                              __shfl_sync(~0u, word, 1) << (p.k_log2 - 3),
                              __shfl_sync(~0u, word, 2),
                              lo_left(p.m, row0, T::WM) - lane / 4,
                              (const unsigned short *)p.x + (row0 + lane / 4) * p.x_stride,
                              (const unsigned short *)p.w +
                                  (T::TURN ? part * T::BN : (lo_i64)part * T::BN << p.k_log2)};
  lo_i64 col0 = ((lo_i64)__shfl_sync(~0u, word, 0) << p.n_log2) + part * T::BN;
  unsigned ring = (unsigned)__cvta_generic_to_shared(memory) + warp * T::STAGES * T::STAGE;
  int groups = (loader.chunks + 3) / 4;
  lo_follow();
  if (lo_scalar_float(p.e.alpha) == 0.0f) groups = 0;
#pragma unroll
  for (int s = 0; s < T::STAGES; s++) {
    int t = warp_k + s * T::WARPS_K;
    if (t < groups) {
      loader.fill_x(ring + s * T::STAGE, t);
      loader.fill_w(ring + s * T::STAGE, t);
    }
    lo_copy_commit();
  }
  auto column = columns.load(p.e, col0, lo_left(p.n, col0, T::BN));
  lo_ending ending = lo_ending_of(p.e, 0, false); /* parameters are waited for meanwhile */
  T core;
#pragma unroll
  for (int i = 0; i < T::MT; i++)
#pragma unroll
    for (int j = 0; j < T::NT; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) core.acc[i][j][e] = 0;
  unsigned stage = ring;
#pragma unroll 1
  for (int t = warp_k; t < groups; t += T::WARPS_K) {
    lo_copy_wait<T::STAGES - 1>();
    __syncwarp();
    core.multiply(stage);
    int next = t + T::STAGES * T::WARPS_K;
    if (next < groups) {
      __syncwarp();
      loader.fill_x(stage, next);
      loader.fill_w(stage, next);
    }
    lo_copy_commit();
    stage = stage + T::STAGE == ring + T::STAGES * T::STAGE ? ring : stage + T::STAGE;
  }
  lo_lead();
  if (threadIdx.x < T::BN) columns.store(column);
  __syncwarp();
  lo_finish_shares<T>(p, ending, core, columns, (float *)memory, warp_m, warp_k, row0, col0);
#endif
}

#endif

/* Block-sparse products of 16-bit types from memory straight into fragments, for small grids, where
 * what counts is how soon all bytes are on their way.
 *
 * A block of threads has 16 MT rows of the result by 8 NT columns; its warps share out the kept
 * blocks and add up their sums in their order. k, the side of blocks that is summed over, is taken
 * in chunks of 8 elements, 16 bytes: lane q of four has every fourth chunk of the line of blocks,
 * so that four chunks make two steps of the instruction, whatever the blocks' size. */
#ifndef LO_CUDA_BSR_DIRECT_CUH
#define LO_CUDA_BSR_DIRECT_CUH

#include "backends/cuda/bsr_mma.cuh"

template <bool BF16_, bool TURN_, bool LOOSE_, int MT_, int NT_, int WARPS_M_, int WARPS_K_,
          int DEPTH_, int RESIDENT_>
struct lo_bsr_direct {
  static constexpr bool BF16 = BF16_, TURN = TURN_, LOOSE = LOOSE_;
  static constexpr int MT = MT_, NT = NT_, WARPS_M = WARPS_M_, WARPS_K = WARPS_K_, DEPTH = DEPTH_;
  static constexpr int WARPS = WARPS_M * WARPS_K, THREADS = 32 * WARPS;
  static constexpr int RESIDENT = RESIDENT_; /* blocks on an SM */
  static constexpr int WM = 16 * MT, BM = WARPS_M * WM, BN = 8 * NT;
  static constexpr int PITCH = BN + 8, SUMS = WM * PITCH; /* of a warp */
  static constexpr int BYTES = WARPS * SUMS * 4;

  float acc[MT][NT][4];
  uint4 a[DEPTH][MT][2];
  unsigned b[DEPTH][2][2][NT]; /* halves of the instruction's k: step, half */

  static __device__ __forceinline__ void
  load_w(unsigned (&to)[2][2][NT], const unsigned short *from, lo_i64 pitch, bool there) {
    if constexpr (!TURN) {
#pragma unroll
      for (int j = 0; j < NT; j++) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (there) v = *(const uint4 *)(from + 8 * j * pitch);
        to[0][0][j] = v.x, to[0][1][j] = v.y, to[1][0][j] = v.z, to[1][1][j] = v.w;
      }
    } else {
#pragma unroll
      for (int s = 0; s < 2; s++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const unsigned short *p = from + (4 * s + 2 * h) * pitch;
#pragma unroll
          for (int j = 0; j < NT; j++) to[s][h][j] = 0;
          if (!there) continue;
          if (NT == 4)
            *(uint4 *)to[s][h] = *(const uint4 *)p;
          else if (NT == 2)
            *(uint2 *)to[s][h] = *(const uint2 *)p;
          else
            to[s][h][0] = *(const unsigned *)p;
        }
    }
  }
  __device__ __forceinline__ void multiply(int d) {
#pragma unroll
    for (int s = 0; s < 2; s++) {
      if (TURN)
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
          for (int j = 0; j < NT; j++) b[d][s][h][j] = lo_turn_matrix(b[d][s][h][j]);
#pragma unroll
      for (int i = 0; i < MT; i++) {
        uint4 u = a[d][i][0], v = a[d][i][1];
#pragma unroll
        for (int j = 0; j < NT; j++)
          lo_mma_16<BF16>(acc[i][j], s ? u.z : u.x, s ? v.z : v.x, s ? u.w : u.y, s ? v.w : v.y,
                          b[d][s][0][j], b[d][s][1][j]);
      }
    }
  }
  /* The warp's sums to shared memory. */
  __device__ __forceinline__ void put(float *mine) const {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
      for (int j = 0; j < NT; j++) {
        int column = TURN ? 2 * NT * (lane % 4) + 2 * j : 8 * j + lane % 4 * 2;
        float *line = mine + (16 * i + lane / 4) * PITCH + column;
        *(float2 *)line = make_float2(acc[i][j][0], acc[i][j][1]);
        *(float2 *)(line + 8 * PITCH) = make_float2(acc[i][j][2], acc[i][j][3]);
      }
  }
};

/* A line of blocks: what its first blocks are stands beside how many it keeps, so that both are
 * known at once. */
template <class T> struct lo_direct_line {
  const lo_cu_bsr16 &p;
  const int *head;
  int count, begin;
  /* Of block e. */
  __device__ __forceinline__ int index(int e) const {
    if (e < LO_CU_BSR_ENTRIES) return head[4 + 2 * e];
    return e < count ? p.index[begin + e] : 0;
  }
  __device__ __forceinline__ int place(int e) const {
    if (!T::TURN) return begin + e;
    if (e < LO_CU_BSR_ENTRIES) return head[5 + 2 * e];
    return e < count ? p.place[begin + e] : 0;
  }
};

template <class T>
__global__ void __launch_bounds__(T::THREADS, T::RESIDENT)
    bsr_direct_kernel(const __grid_constant__ lo_cu_bsr16 p) {
  constexpr int DEPTH = T::DEPTH, MT = T::MT, STEP = T::WARPS_K;
  extern __shared__ __align__(1024) char memory[];
  __shared__ __align__(16) lo_tile_columns<T::BN, false> columns;
  int warp = threadIdx.x / 32 % T::WARPS_K, warp_m = threadIdx.x / 32 / T::WARPS_K;
  int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
  unsigned tm = blockIdx.x % (unsigned)p.tiles_m, item = blockIdx.x / (unsigned)p.tiles_m;
  int part = item & ((1 << p.parts_log2) - 1), log2 = p.k_log2 - 3, within = (1 << log2) - 1;
  /* The pattern was complete before any product was launched. */
  const int *head = p.heads + (item >> p.parts_log2) * (lo_i64)LO_CU_BSR_HEAD_WORDS;
  int number = head[0];
  const lo_direct_line<T> line = {p, head, head[1], head[2]};
  /* TURN: rows of blocks are of k; the lane has two of those of chunk g / 2 of four */
  int chunks = line.count << log2, other = T::TURN ? g / 2 : q;
  int which[DEPTH], place[DEPTH];
  auto look_up = [&](int d, int t) {
    int c = 4 * t + q, o = 4 * t + other;
    which[d] = line.index(c >> log2);
    place[d] = line.place(o >> log2);
  };
#pragma unroll
  for (int d = 0; d < DEPTH; d++) look_up(d, warp + d * STEP);
  int groups = (chunks + 3) / 4;
  lo_i64 row0 = (lo_i64)tm * T::BM + warp_m * T::WM;
  lo_i64 col0 = ((lo_i64)number << p.n_log2) + part * T::BN;
  const unsigned short *x = (const unsigned short *)p.x + (row0 + g) * p.x_stride;
  const unsigned short *w = (const unsigned short *)p.w;
  if (T::TURN)
    w += ((lo_i64)(g % 2) << p.n_log2) + part * T::BN + q * (2 * T::NT);
  else
    w += (lo_i64)(part * T::BN + g) << p.k_log2;
  int rows = lo_left(p.m, row0, T::WM) - g;
  lo_follow();
  if (lo_scalar_float(p.e.alpha) == 0.0f) groups = 0;
  auto column = columns.load(p.e, col0, lo_left(p.n, col0, T::BN));
  T core;
#pragma unroll
  for (int i = 0; i < MT; i++)
#pragma unroll
    for (int j = 0; j < T::NT; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) core.acc[i][j][e] = 0;
#pragma unroll 1
  for (int t = warp; t < groups; t += DEPTH * STEP) {
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
      int c = 4 * (t + d * STEP) + q, o = 4 * (t + d * STEP) + other;
      lo_i64 column = ((lo_i64)which[d] << p.k_log2) + 8 * (c & within);
      int left = c < chunks ? lo_left(p.k, column, 8) : 0;
      const unsigned short *from = x + column;
#pragma unroll
      for (int i = 0; i < MT; i++)
#pragma unroll
        for (int h = 0; h < 2; h++)
          core.a[d][i][h] = lo_load_chunk<T::LOOSE>(from + (16 * i + 8 * h) * p.x_stride,
                                                    16 * i + 8 * h < rows ? left : 0);
      int k = 8 * (o & within);
      from = w + ((lo_i64)place[d] << (p.k_log2 + p.n_log2)) + (T::TURN ? k << p.n_log2 : k);
      core.load_w(core.b[d], from, 1 << (T::TURN ? p.n_log2 : p.k_log2), o < chunks);
    }
#pragma unroll
    for (int d = 0; d < DEPTH; d++) look_up(d, t + (d + DEPTH) * STEP);
#pragma unroll
    for (int d = 0; d < DEPTH; d++)
      if (t + d * STEP < groups) core.multiply(d);
  }
  lo_lead();
  if (threadIdx.x < T::BN) columns.store(column);
  lo_finish_shares<T>(p, lo_ending_of(p.e, 0, false), core, columns, (float *)memory, warp_m, warp,
                      row0, col0);
}

#endif

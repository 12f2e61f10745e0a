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

LO_FN unsigned lo_turn_matrix(unsigned r) {
  unsigned t;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(t) : "r"(r));
  return t;
}
/* Up to 8 elements from there, and zeros. */
template <bool LOOSE> LO_FN uint4 lo_load_chunk(const unsigned short *from, int count) {
  uint4 z = make_uint4(0, 0, 0, 0);
  if constexpr (LOOSE) {
    unsigned h[8];
#pragma unroll
    for (int i = 0; i < 8; i++) h[i] = i < count ? from[i] : 0;
    z = make_uint4(h[0] | h[1] << 16, h[2] | h[3] << 16, h[4] | h[5] << 16, h[6] | h[7] << 16);
  } else if (count > 0) {
    z = *(const uint4 *)from;
  }
  return z;
}

template <bool BF16_, bool TURN_, bool LOOSE_, int MT_, int NT_, int WARPS_, int DEPTH_,
          int RESIDENT_>
struct lo_bsr_direct {
  static constexpr bool BF16 = BF16_, TURN = TURN_, LOOSE = LOOSE_;
  static constexpr int MT = MT_, NT = NT_, WARPS = WARPS_, DEPTH = DEPTH_, THREADS = 32 * WARPS;
  static constexpr int RESIDENT = RESIDENT_; /* blocks on an SM */
  static constexpr int BM = 16 * MT, BN = 8 * NT, PITCH = BN + 8, SUMS = BM * PITCH;
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

template <class T>
__global__ void __launch_bounds__(T::THREADS, T::RESIDENT)
    bsr_direct_kernel(const __grid_constant__ lo_cu_bsr16 p) {
  constexpr int DEPTH = T::DEPTH, MT = T::MT, STEP = T::WARPS;
  extern __shared__ __align__(1024) char memory[];
  __shared__ __align__(16) lo_tile_columns<T::BN, false> columns;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
  unsigned tm = blockIdx.x % (unsigned)p.tiles_m, item = blockIdx.x / (unsigned)p.tiles_m;
  int line = (int)(item >> p.parts_log2), part = item & ((1 << p.parts_log2) - 1);
  /* The pattern was complete before any product was launched. */
  int begin = p.start[line], end = p.start[line + 1];
  int log2 = p.k_log2 - 3, chunks = (end - begin) << log2, within = (1 << log2) - 1;
  int groups = (chunks + 3) / 4;
  int which[DEPTH];
#pragma unroll
  for (int d = 0; d < DEPTH; d++) {
    int c = 4 * (warp + d * STEP) + q;
    which[d] = c < chunks ? p.index[begin + (c >> log2)] : 0;
  }
  lo_follow();
  lo_i64 row0 = (lo_i64)tm * T::BM, col0 = ((lo_i64)line << p.n_log2) + part * T::BN;
  if (lo_scalar_float(p.e.alpha) == 0.0f) groups = 0;
  columns.stage(p.e, col0, lo_left(p.n, col0, T::BN));
  const unsigned short *x = (const unsigned short *)p.x + (row0 + g) * p.x_stride;
  const unsigned short *w = (const unsigned short *)p.w;
  int rows = lo_left(p.m, row0, T::BM) - g;
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
      int c = 4 * (t + d * STEP) + q;
      lo_i64 column = ((lo_i64)which[d] << p.k_log2) + 8 * (c & within);
      int left = c < chunks ? lo_left(p.k, column, 8) : 0;
      const unsigned short *from = x + column;
#pragma unroll
      for (int i = 0; i < MT; i++)
#pragma unroll
        for (int h = 0; h < 2; h++)
          core.a[d][i][h] = lo_load_chunk<T::LOOSE>(from + (16 * i + 8 * h) * p.x_stride,
                                                    16 * i + 8 * h < rows ? left : 0);
      if (T::TURN) {
        int e = c - q + g / 2;
        bool there = e < chunks;
        lo_i64 place = there ? p.place[begin + (e >> log2)] : 0;
        lo_i64 row = (place << p.k_log2) + 8 * (e & within) + g % 2;
        core.load_w(core.b[d], w + (row << p.n_log2) + part * T::BN + q * (2 * T::NT),
                    1 << p.n_log2, there);
      } else {
        lo_i64 row = ((lo_i64)(begin + (c >> log2)) << p.n_log2) + part * T::BN + g;
        core.load_w(core.b[d], w + (row << p.k_log2) + 8 * (c & within), 1 << p.k_log2, c < chunks);
      }
    }
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
      int c = 4 * (t + (d + DEPTH) * STEP) + q;
      which[d] = c < chunks ? p.index[begin + (c >> log2)] : 0;
    }
#pragma unroll
    for (int d = 0; d < DEPTH; d++)
      if (t + d * STEP < groups) core.multiply(d);
  }
  lo_lead();
  float *sums = (float *)memory;
  core.put(sums + warp * T::SUMS);
  __syncthreads();
  /* A warp's rows of all sums: as many as the epilogue takes at once, or more. */
  constexpr int LEAST = T::BN == 32 ? 4 : T::BN == 16 ? 16 : 32, SHARE = T::BM / T::WARPS;
  constexpr int ROWS = SHARE < LEAST ? LEAST : SHARE, QUADS = ROWS * T::BN / 4;
  if (warp * ROWS >= T::BM) return;
  sums += warp * ROWS * T::PITCH;
  if (T::WARPS > 1) {
#pragma unroll
    for (int v = lane; v < QUADS; v += 32) {
      float *to = sums + v / (T::BN / 4) * T::PITCH + v % (T::BN / 4) * 4;
      float4 quad = *(const float4 *)to;
#pragma unroll
      for (int i = 1; i < T::WARPS; i++) quad = lo_add4(quad, *(const float4 *)(to + i * T::SUMS));
      *(float4 *)to = quad;
    }
    __syncwarp();
  }
  if (row0 + warp * ROWS < p.m)
    lo_finish_warp<ROWS, T::BN, T::PITCH>(lo_ending_of(p.e, 0, false), columns, 0, sums,
                                          row0 + warp * ROWS, col0, p.m, p.n);
}

#endif

/* The gradient of block-sparse weights of 16-bit types, dZ^T X where blocks are kept: for few
 * samples, small blocks, any rows in memory, and Turing.
 *
 * A block of threads has an item: four chunks of 8 columns of X that a line of blocks keeps, side
 * by side or not, and 8 STRIPS columns of dZ. Its warps share out the samples, 32 at a time, a lane
 * each, and turn them around in shared memory; sums are added in the order of the warps. */
#ifndef LO_CUDA_BSR_WGRAD_DIRECT_CUH
#define LO_CUDA_BSR_WGRAD_DIRECT_CUH

#include "backends/cuda/bsr_mma.cuh"

template <bool BF16_, bool LOOSE_, int STRIPS_, int WARPS_, int DEPTH_> struct lo_bsr_wgrad_direct {
  static constexpr bool BF16 = BF16_, LOOSE = LOOSE_;
  static constexpr int STRIPS = STRIPS_, WARPS = WARPS_, DEPTH = DEPTH_, THREADS = 32 * WARPS;
  static constexpr int CHUNKS = 4, ROWS = 8 * STRIPS, COLS = 8 * CHUNKS, PITCH = COLS + 4;
  static constexpr int STEP = 32 * 16 * (STRIPS + CHUNKS); /* bytes of a warp's 32 samples */
  static constexpr int SUMS = 4 * ROWS * PITCH, EACH = SUMS > STEP ? SUMS : STEP;

  float acc[CHUNKS / 2][STRIPS][4]; /* transposed: columns of X by columns of dZ */

  /* The samples that the warp has in shared memory. */
  __device__ __forceinline__ void multiply(unsigned z, unsigned x) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < 2; k++) {
      unsigned a[CHUNKS / 2][4], b[(STRIPS + 1) / 2][4];
      /* matrices (chunk, k): (0, 0), (1, 0), (0, 8), (1, 8); (strip, k): (0, 0), (0, 8), ... */
#pragma unroll
      for (int i = 0; i < CHUNKS / 2; i++)
        lo_read_matrices<true>(a[i], x + (2 * i + lane / 8 % 2) * 512 +
                                         (16 * k + lane / 16 * 8 + lane % 8) * 16);
#pragma unroll
      for (int j = 0; j < (STRIPS + 1) / 2; j++) {
        int strip = STRIPS == 1 ? 0 : 2 * j + lane / 16;
        lo_read_matrices<true>(b[j], z + strip * 512 + (16 * k + lane % 16) * 16);
      }
#pragma unroll
      for (int i = 0; i < CHUNKS / 2; i++)
#pragma unroll
        for (int j = 0; j < STRIPS; j++)
          lo_mma_16<BF16>(acc[i][j], a[i][0], a[i][1], a[i][2], a[i][3], b[j / 2][j % 2 * 2],
                          b[j / 2][j % 2 * 2 + 1]);
    }
  }
  /* Turned around again. */
  __device__ __forceinline__ void put(float *sums) const {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < CHUNKS / 2; i++)
#pragma unroll
      for (int j = 0; j < STRIPS; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
          sums[(8 * j + lane % 4 * 2 + e % 2) * PITCH + 16 * i + lane / 4 + e / 2 * 8] =
              acc[i][j][e];
  }
};

/* Up to `samples` of 8 columns of a matrix, from the lane's on. */
template <bool LOOSE> struct lo_sample_loader {
  const unsigned short *p;
  int columns;
  __device__ __forceinline__ uint4 load(lo_i64 row, lo_i64 stride, bool there) const {
    return lo_load_chunk<LOOSE>(p + row * stride, there ? columns : 0);
  }
};

template <class T>
__global__ void __launch_bounds__(T::THREADS)
    bsr_wgrad_direct_kernel(const __grid_constant__ lo_cu_bsr_wgrad p) {
  __shared__ __align__(16) char memory[T::WARPS * T::EACH];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned part = blockIdx.x & ((1u << p.parts_log2) - 1);
  const int *item = p.items + (lo_i64)(blockIdx.x >> p.parts_log2) * LO_CU_BSR_ITEM_WORDS;
  /* The pattern was complete before any product was launched. */
  lo_i64 row0 = ((lo_i64)item[0] << p.n_log2) + part * T::ROWS; /* of W */
  int first = item[1], column[T::CHUNKS];
#pragma unroll
  for (int i = 0; i < T::CHUNKS; i++) column[i] = item[2 + i];
  lo_follow();
  lo_sample_loader<T::LOOSE> z[T::STRIPS], x[T::CHUNKS];
#pragma unroll
  for (int j = 0; j < T::STRIPS; j++)
    z[j] = {(const unsigned short *)p.z + row0 + 8 * j, lo_left(p.n, row0 + 8 * j, 8)};
#pragma unroll
  for (int i = 0; i < T::CHUNKS; i++)
    x[i] = {(const unsigned short *)p.x + column[i],
            column[i] < 0 ? 0 : lo_left(p.k, column[i], 8)};
  char *mine = memory + warp * T::EACH;
  unsigned at_z = (unsigned)__cvta_generic_to_shared(mine), at_x = at_z + T::STRIPS * 512;
  T core;
#pragma unroll
  for (int i = 0; i < T::CHUNKS / 2; i++)
#pragma unroll
    for (int j = 0; j < T::STRIPS; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) core.acc[i][j][e] = 0;
  lo_i64 samples = lo_scalar_float(p.e.alpha) == 0.0f ? 0 : p.m;
#pragma unroll 1
  for (lo_i64 s = 32 * warp; s < samples; s += 32 * T::WARPS * T::DEPTH) {
    uint4 from_z[T::DEPTH][T::STRIPS], from_x[T::DEPTH][T::CHUNKS];
#pragma unroll
    for (int d = 0; d < T::DEPTH; d++) {
      lo_i64 row = s + 32 * T::WARPS * d + lane;
#pragma unroll
      for (int j = 0; j < T::STRIPS; j++) from_z[d][j] = z[j].load(row, p.z_stride, row < samples);
#pragma unroll
      for (int i = 0; i < T::CHUNKS; i++) from_x[d][i] = x[i].load(row, p.x_stride, row < samples);
    }
#pragma unroll
    for (int d = 0; d < T::DEPTH; d++) {
      if (s + 32 * T::WARPS * d >= samples) break;
#pragma unroll
      for (int j = 0; j < T::STRIPS; j++) ((uint4 *)mine)[32 * j + lane] = from_z[d][j];
#pragma unroll
      for (int i = 0; i < T::CHUNKS; i++)
        ((uint4 *)mine)[32 * (T::STRIPS + i) + lane] = from_x[d][i];
      __syncwarp();
      core.multiply(at_z, at_x);
      __syncwarp();
    }
  }
  lo_lead();
  core.put((float *)mine);
  __syncthreads();
  /* What lies outside of W is 0. */
  lo_ending ending = lo_ending_of(p.e, 0, false);
  const lo_cu_view dw = {p.e.c.p, p.values, 0, p.e.c.stride, 0, p.e.c.type, 0};
#pragma unroll 1
  for (int v = threadIdx.x; v < T::ROWS * T::COLS / 4; v += T::THREADS) {
    int r = v / 8, c = v % 8, i = c / 2;
    if (item[2 + i] < 0) continue;
    lo_i64 col = item[2 + i] + c % 2 * 4;
    float4 quad = make_float4(0, 0, 0, 0);
    for (int w = 0; w < T::WARPS; w++)
      quad = lo_add4(quad, *(const float4 *)(memory + w * T::EACH + 4 * (r * T::PITCH + 4 * c)));
    int log2 = p.pitch_log2 - 3, number = first + i; /* of the chunk, among all */
    lo_i64 row = ((lo_i64)(number >> log2) << p.n_log2) + part * T::ROWS + r;
    int at = 8 * (number & ((1 << log2) - 1)) + c % 2 * 4;
    lo_finish_quad(ending, lo_no_columns().at<4>(0), quad, row, at, 4);
    int in = row0 + r < p.n ? lo_left(p.k, col, 4) : 0;
    for (int out = in < 0 ? 0 : in; out < 4; out++)
      lo_store(dw, row * p.e.c.stride + at + out, 0.0f);
  }
}

#endif

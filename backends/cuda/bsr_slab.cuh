/* Block-sparse products of 16-bit types in small blocks (from Ampere on): so many blocks meet each
 * row of X that a block of threads has a few whole rows in shared memory, on their way before
 * anything is known about the blocks, whose values go straight into fragments.
 *
 * A warp has a strip of 16 columns of the result: of one line of blocks, or two lines of blocks of
 * 8. k is taken in chunks of 8 elements; the two halves of the instruction's k are two chunks of
 * the line, wherever these are. */
#ifndef LO_CUDA_BSR_SLAB_CUH
#define LO_CUDA_BSR_SLAB_CUH

#include "backends/cuda/bsr_mma.cuh"

template <bool BF16_, bool TURN_, int LINES_> struct lo_bsr_slab {
  static constexpr bool BF16 = BF16_, TURN = TURN_;
  static constexpr int LINES = LINES_; /* of a strip */
  static constexpr int BM = LO_CU_BSR_SLAB_ROWS, MT = BM / 16;
  static constexpr int WARPS = LO_CU_BSR_STRIPS, THREADS = 32 * WARPS;
  static constexpr int ROUND = 12; /* chunks of a line whose values a warp has at once */
  static constexpr int VALUES = 2 * ROUND * 128;
  static constexpr int STRIP = 16, PITCH = STRIP + 8, SUMS = BM * PITCH * 4;
  static_assert(SUMS <= VALUES, "sums lie where values did");

  int chunks[LINES], begin[LINES]; /* of the lines; begin: in the lists */
  int index[LINES];                /* lane l: of block l from the round's first on */
  float acc[MT][2][4];

  /* What the lists say about the blocks of the round that begins with chunk `first`. */
  __device__ __forceinline__ void look_up(const lo_cu_bsr16 &p, int first) {
    int log2 = p.k_log2 - 3;
#pragma unroll
    for (int l = 0; l < LINES; l++) {
      int e = (first >> log2) + (int)threadIdx.x % 32;
      index[l] = e << log2 < chunks[l] ? p.index[begin[l] + e] : 0;
    }
  }
  /* A round's values, two chunks of both tiles at a time; w: what the lane has of each. */
  __device__ __forceinline__ void copy(const lo_cu_bsr16 &p, const unsigned short *w,
                                       unsigned values, int first) const {
    int lane = threadIdx.x % 32, tile = lane / 8 % 2, log2 = p.k_log2 - 3;
    int count = LINES == 2 && tile ? chunks[LINES - 1] : chunks[0];
    int from = LINES == 2 && tile ? begin[LINES - 1] : begin[0];
#pragma unroll
    for (int u = 0; u < ROUND; u += 2) {
      int c = first + u + lane / 16, at = from + (c >> log2), k = 8 * (c & ((1 << log2) - 1));
      bool there = c < count;
      lo_i64 place = TURN && there ? p.place[at] : at;
      const unsigned short *block =
          w + (place << (p.k_log2 + p.n_log2)) + (TURN ? k << p.n_log2 : k);
      lo_copy_some<16>(values + (tile * ROUND + u + lane / 16) * 128 + lane % 8 * 16,
                       there ? block : w, there ? 16 : 0);
    }
    lo_copy_commit();
  }
  /* slab: of the lane's row; zeros: 16 bytes of them */
  __device__ __forceinline__ void multiply(const lo_cu_bsr16 &p, unsigned slab, int pitch,
                                           unsigned zeros, unsigned values, int first) {
    int lane = threadIdx.x % 32, log2 = p.k_log2 - 3, base = first >> log2;
#pragma unroll
    for (int u = 0; u < ROUND; u += 4) {
      unsigned b[2][4], a[2][MT][4];
#pragma unroll
      for (int t = 0; t < 2; t++) {
        int l = LINES == 2 ? t : 0;
        if (first + u >= chunks[l]) continue;
        lo_read_matrices<TURN>(b[t], values + (t * ROUND + u) * 128 + lane * 16);
#pragma unroll
        for (int h = 0; h < 2 && t < LINES; h++) {
          int c = first + u + 2 * h + lane / 16;
          int column = __shfl_sync(~0u, index[l], (c >> log2) - base) << log2;
          column += c & ((1 << log2) - 1);
          bool there = c < chunks[l] && 8 * column < p.k; /* blocks may be ragged */
          unsigned at = slab + (column << 4);
#pragma unroll
          for (int i = 0; i < MT; i++)
            lo_read_matrices<false>(a[h][i], there ? at + 16 * i * pitch : zeros);
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
          for (int i = 0; i < MT; i++)
            lo_mma_16<BF16>(acc[i][t], a[h][i][0], a[h][i][1], a[h][i][2], a[h][i][3], b[t][2 * h],
                            b[t][2 * h + 1]);
      }
    }
  }
  __device__ __forceinline__ void put(float *sums) const {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
      for (int t = 0; t < 2; t++) {
        float *line = sums + (16 * i + lane / 4) * PITCH + 8 * t + lane % 4 * 2;
        *(float2 *)line = make_float2(acc[i][t][0], acc[i][t][1]);
        *(float2 *)(line + 8 * PITCH) = make_float2(acc[i][t][2], acc[i][t][3]);
      }
  }
};

/* Whole rows of X, a warp a row, to lines of `pitch` bytes. */
template <class T>
LO_FN void lo_fill_slab(const lo_cu_bsr16 &p, unsigned slab, int pitch, lo_i64 row0) {
#pragma unroll
  for (int r = threadIdx.x / 32; r < T::BM; r += T::WARPS) {
    bool there = row0 + r < p.m;
    const unsigned short *from = (const unsigned short *)p.x + (there ? row0 + r : 0) * p.x_stride;
#pragma unroll 4
    for (int column = threadIdx.x % 32 * 8; column < p.k; column += 256) {
      int left = there ? lo_left(p.k, column, 8) : 0;
      lo_copy_some<16>(slab + r * pitch + 2 * column, from + column, 2 * left);
    }
  }
  lo_copy_commit();
}

template <class T>
__global__ void __launch_bounds__(T::THREADS, 2)
    bsr_slab_kernel(const __grid_constant__ lo_cu_bsr16 p) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(1024) char memory[];
  __shared__ __align__(16) lo_tile_columns<T::STRIP * T::WARPS, false> columns;
  __shared__ __align__(16) uint4 none;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned tm = blockIdx.x % (unsigned)p.tiles_m, group = blockIdx.x / (unsigned)p.tiles_m;
  lo_i64 strip = (lo_i64)group * T::WARPS + warp, col = strip * T::STRIP;
  T core;
  /* The pattern was complete before any product was launched. */
#pragma unroll
  for (int l = 0; l < T::LINES; l++) {
    lo_i64 line = T::LINES == 2 ? 2 * strip + l : strip >> p.parts_log2;
    core.chunks[l] = core.begin[l] = 0;
    if (line << p.n_log2 < p.n) {
      core.begin[l] = p.start[line];
      core.chunks[l] = (p.start[line + 1] - core.begin[l]) << (p.k_log2 - 3);
    }
  }
  core.look_up(p, 0);
  int n = T::LINES == 2 ? 0 : (int)(col & ((1 << p.n_log2) - 1)) + lane / 8 % 2 * 8;
  const unsigned short *w = (const unsigned short *)p.w +
                            (T::TURN ? (lane % 8 << p.n_log2) + n : (n + lane % 8) << p.k_log2);
  if (threadIdx.x == 0) none = make_uint4(0, 0, 0, 0);
  unsigned slab = (unsigned)__cvta_generic_to_shared(memory);
  int pitch = 16 * ((int)((p.k + 7) / 8) | 1); /* odd: eight lines are in other banks */
  char *mine = memory + T::BM * pitch + warp * T::VALUES;
  unsigned values = (unsigned)__cvta_generic_to_shared(mine);
  lo_i64 row0 = (lo_i64)tm * T::BM;
  lo_follow();
  bool empty = lo_scalar_float(p.e.alpha) == 0.0f;
  if (!empty) lo_fill_slab<T>(p, slab, pitch, row0);
  int chunks = 0;
#pragma unroll
  for (int l = 0; l < T::LINES; l++) {
    if (empty) core.chunks[l] = 0;
    chunks = core.chunks[l] > chunks ? core.chunks[l] : chunks;
  }
  core.copy(p, w, values, 0);
  columns.stage(p.e, col - warp * T::STRIP,
                lo_left(p.n, col - warp * T::STRIP, T::STRIP * T::WARPS));
#pragma unroll
  for (int i = 0; i < T::MT; i++)
#pragma unroll
    for (int t = 0; t < 2; t++)
#pragma unroll
      for (int e = 0; e < 4; e++) core.acc[i][t][e] = 0;
  lo_copy_wait<0>();
  __syncthreads();
  unsigned zeros = (unsigned)__cvta_generic_to_shared(&none), row = slab + lane % 16 * pitch;
#pragma unroll 1
  for (int first = 0; first < chunks; first += T::ROUND) {
    if (first) {
      core.look_up(p, first);
      core.copy(p, w, values, first);
      lo_copy_wait<0>();
      __syncwarp();
    }
    core.multiply(p, row, pitch, zeros, values, first);
    __syncwarp();
  }
  lo_lead();
  float *sums = (float *)mine;
  core.put(sums);
  __syncwarp();
  if (col < p.n)
    lo_finish_warp<T::BM, T::STRIP, T::PITCH>(lo_ending_of(p.e, 0, false), columns, warp * T::STRIP,
                                              sums, row0, col, p.m, p.n);
#endif
}

#endif

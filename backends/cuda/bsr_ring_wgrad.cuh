/* The gradients of block-sparse weights and of their gates, for activations of 16 bits in either
 * layout, by mma.sync.
 *
 * A block of threads has 64 x 64 sums: a square of SIDE x SIDE of each of 64 / SIDE kept blocks, side
 * by side along dZ's features and X's, of which the squares on the diagonal count. (What is wider
 * than 64 is cut; what is narrower than SIDE is filled up with zeros.) All samples go through a ring
 * of stages, so that a sum has one order. */
#ifndef LO_CUDA_BSR_RING_WGRAD_CUH
#define LO_CUDA_BSR_RING_WGRAD_CUH

#include "backends/cuda/bsr_mma.cuh"
#include "backends/cuda/bsr_panel.cuh"

template <bool BF16_, bool FEATURES_, int SIDE_> struct lo_bsr_ring_wgrad {
  static constexpr bool BF16 = BF16_, FEATURES = FEATURES_;
  static constexpr int SIDE = SIDE_, SPAN = 64, SLOTS = SPAN / SIDE, WARPS = 4, THREADS = 128;
  static constexpr int BK = 64, STAGES = 3, AHEAD = STAGES - 1, RESIDENT = 4;
  typedef lo_bsr_panel<FEATURES, SPAN, BK, THREADS> P;
  static constexpr int STAGE = 2 * P::BYTES, RING = STAGES * STAGE;
  /* A warp's share: rows and columns of the sums. */
  static constexpr int WM = SIDE == 64 ? 32 : 16, WN = SIDE < 16 ? 16 : SIDE < 64 ? SIDE : 32;
  static constexpr int MT = WM / 16, NT = WN / 8;
  /* A square of 8 has lines read behind its own. */
  static constexpr int PITCH = WN + 8, SUMS = (WM + 8) * PITCH;
  static constexpr int BYTES = RING;
  static_assert(WARPS * SUMS * 4 <= RING, "the sums' room");
  /* Squares that a warp has to do with: two of 8, one else; and the first of them. */
  static constexpr int OWN = SIDE == 8 ? 2 : 1;
  static __device__ __forceinline__ int row(int warp) {
    return SIDE == 64 ? warp / 2 * 32 : 16 * warp;
  }
  static __device__ __forceinline__ int col(int warp) {
    return SIDE == 64 ? warp % 2 * 32 : SIDE == 32 ? warp / 2 * 32 : 16 * warp;
  }
};

/* A square: of block `block`, from its row and column `down`, `right` on; the first features. */
typedef struct lo_bsr_square {
  int block; /* -1: none */
  int rows, cols;     /* that lie in the block */
  int rows_in, cols_in; /* and in W */
  int down, right;
  lo_i64 n, k;
  float gate;
} lo_bsr_square;

/* The block row of a kept block: the last that begins with it or before. By all lanes of a warp. */
LO_FN int lo_bsr_row_of(const int *row_start, int block_rows, int block) {
  int low = 0, high = block_rows, lane = threadIdx.x % 32;
  while (high - low > 1) {
    int step = (high - low + 31) / 32, at = low + lane * step;
    unsigned before = __ballot_sync(~0u, at < high && row_start[at] <= block);
    low += (31 - __clz(before)) * step;
    if (low + step < high) high = low + step;
  }
  return low;
}

/* By a warp. */
template <class T>
LO_FN void lo_bsr_square_find(lo_bsr_square &s, const lo_cu_bsr_ring_wgrad &p, lo_i64 block,
                              int part) {
  int parts = (p.width + T::SPAN - 1) / T::SPAN;
  int down = part / parts * T::SPAN, right = part % parts * T::SPAN;
  bool there = block < p.count;
  int row = there ? lo_bsr_row_of(p.row_start, p.block_rows, (int)block) : 0;
  if (threadIdx.x % 32) return;
  s.block = there ? (int)block : -1;
  s.rows = p.height - down < T::SIDE ? p.height - down : T::SIDE;
  s.cols = p.width - right < T::SIDE ? p.width - right : T::SIDE;
  s.down = down;
  s.right = right;
  s.n = row * (lo_i64)p.height + down;
  s.k = (there ? p.column[block] : 0) * (lo_i64)p.width + right;
  s.rows_in = there ? lo_left(p.n, s.n, s.rows) : 0;
  s.cols_in = there ? lo_left(p.k, s.k, s.cols) : 0;
  s.gate = there && p.gate ? p.gate[block] : 1.0f;
  /* nothing of a block whose gate is 0 is read, but for the gate's own gradient */
  if (s.gate == 0.0f && !p.dgate) s.rows_in = s.cols_in = 0;
}

/* A step of dZ (X): samples from m0 on. */
template <class T>
LO_FN void lo_bsr_fetch_samples(const lo_cu_bsr_ring_wgrad &p, const lo_bsr_square *squares,
                                unsigned panel, lo_i64 m0, bool is_z) {
  const unsigned short *from = (const unsigned short *)(is_z ? p.z : p.x);
  lo_i64 stride = is_z ? p.z_stride : p.x_stride;
  T::P::each([&](int, unsigned to, int k, int row, bool) {
    const lo_bsr_square &s = squares[row / T::SIDE];
    int in = row % T::SIDE, extent = is_z ? s.rows_in : s.cols_in;
    lo_i64 feature = (is_z ? s.n : s.k) + in, sample = m0 + k;
    int left = T::FEATURES ? lo_left(p.m, sample, 8) : extent - in;
    bool is_there = left > 0 && (T::FEATURES ? in < extent : sample < p.m);
    lo_i64 at = T::FEATURES ? feature * stride + sample : sample * stride + feature;
    lo_bring(panel + to, from + (is_there ? at : 0), is_there ? left < 8 ? left : 8 : 0, p.loose);
  });
}

template <class T> struct lo_bsr_ring_wgrad_core {
  float acc[T::MT][T::NT][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < T::MT; i++)
#pragma unroll
      for (int j = 0; j < T::NT; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) acc[i][j][e] = 0;
  }
  __device__ __forceinline__ void multiply(unsigned stage, int row, int col) {
#pragma unroll
    for (int k = 0; k < T::BK; k += 16) {
      unsigned a[T::MT][4], b[T::NT / 2][4];
#pragma unroll
      for (int i = 0; i < T::MT; i++) T::P::template read<true>(a[i], stage, row + 16 * i, k);
#pragma unroll
      for (int j = 0; j < T::NT / 2; j++)
        T::P::template read<false>(b[j], stage + T::P::BYTES, col + 16 * j, k);
#pragma unroll
      for (int i = 0; i < T::MT; i++)
#pragma unroll
        for (int j = 0; j < T::NT; j++)
          lo_mma_16<T::BF16>(acc[i][j], a[i][0], a[i][1], a[i][2], a[i][3], b[j / 2][j % 2 * 2],
                             b[j / 2][j % 2 * 2 + 1]);
    }
  }
  /* Calls act(r, c, sum) for the lane's sums, places in the warp's share. */
  template <class Act> __device__ __forceinline__ void each(Act act) const {
    int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < T::MT; i++)
#pragma unroll
      for (int j = 0; j < T::NT; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
          act(16 * i + g + e / 2 * 8, 8 * j + 2 * q + e % 2, acc[i][j][e]);
  }
  /* Times the gate, for dW; what lies outside of W is 0. */
  __device__ __forceinline__ void put(float *sums, const lo_bsr_square *squares, int row,
                                      int col) const {
    each([&](int r, int c, float sum) {
      const lo_bsr_square &s = squares[(row + r) / T::SIDE];
      bool in = (row + r) % T::SIDE < s.rows_in && (col + c) % T::SIDE < s.cols_in;
      sums[r * T::PITCH + c] = in && s.gate != 0.0f ? __fmul_rn(s.gate, sum) : 0.0f;
    });
  }
  /* The lane's share of the sum of a square's times W. */
  __device__ __forceinline__ float dot(const lo_cu_bsr_ring_wgrad &p, const lo_bsr_square *squares,
                                       int row, int col, int square) const {
    const lo_bsr_square &s = squares[square];
    const unsigned short *w = (const unsigned short *)p.w +
                              ((lo_i64)s.block * p.height + s.down) * p.width + s.right;
    float total = 0;
    each([&](int r, int c, float sum) {
      r += row, c += col;
      if (r / T::SIDE != square || c / T::SIDE != square) return;
      r %= T::SIDE, c %= T::SIDE;
      if (r < s.rows_in && c < s.cols_in)
        total = __fmaf_rn(sum, lo_from_16(w[r * p.width + c], T::BF16), total);
    });
    return lo_warp_sum(total);
  }
};

/* A square of the warp's sums to dW. */
template <class T>
LO_FN void lo_bsr_square_finish(const lo_cu_bsr_ring_wgrad &p, const lo_ending &ending,
                                const lo_bsr_square &s, const float *sums, int row, int col) {
  lo_i64 first = (lo_i64)s.block * p.height + s.down;
  lo_finish_warp<T::WM, T::WN, T::PITCH>(ending, lo_no_columns(), 0, sums, first + row,
                                         s.right + col, first + s.rows, s.right + s.cols);
  int rows = s.n + s.rows > p.n ? (int)(p.n - s.n) : s.rows;
  int cols = s.k + s.cols > p.k ? (int)(p.k - s.k) : s.cols;
  if (rows == s.rows && cols == s.cols) return;
  __syncwarp();
  const lo_cu_view dw = {p.e.c.p, 0, 0, p.e.c.stride, 0, p.e.c.type, 0};
  for (int i = threadIdx.x % 32; i < T::WM * T::WN; i += 32) {
    int r = row + i / T::WN, c = col + i % T::WN;
    if (r < s.rows && c < s.cols && (r >= rows || c >= cols))
      lo_store(dw, (first + r) * p.e.c.stride + s.right + c, 0.0f);
  }
}

template <class T>
__global__ void __launch_bounds__(T::THREADS, T::RESIDENT)
    bsr_ring_wgrad_kernel(const __grid_constant__ lo_cu_bsr_ring_wgrad p) {
  extern __shared__ __align__(1024) char memory[];
  __shared__ lo_bsr_square squares[T::SLOTS];
  __shared__ float dots[T::WARPS][T::OWN];
  unsigned ring = (unsigned)__cvta_generic_to_shared(memory);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = T::row(warp), col = T::col(warp);
  int parts = (p.height + T::SPAN - 1) / T::SPAN * ((p.width + T::SPAN - 1) / T::SPAN);
  lo_i64 set = p.dgate ? blockIdx.x : blockIdx.x / parts;
  int part = p.dgate ? 0 : (int)(blockIdx.x % parts), end = p.dgate ? parts : part + 1;
  float gradient = 0; /* thread s: of square s's gate */
  lo_follow();
  int steps = (int)((p.m + T::BK - 1) / T::BK);
#pragma unroll 1
  for (; part < end; part++) {
    for (int s = warp; s < T::SLOTS; s += T::WARPS)
      lo_bsr_square_find<T>(squares[s], p, set * T::SLOTS + s, part);
    __syncthreads();
    auto fetch = [&](unsigned stage, int step) {
      lo_bsr_fetch_samples<T>(p, squares, stage, (lo_i64)step * T::BK, true);
      lo_bsr_fetch_samples<T>(p, squares, stage + T::P::BYTES, (lo_i64)step * T::BK, false);
    };
#pragma unroll 1
    for (int s = 0; s < T::AHEAD; s++) {
      if (s < steps) fetch(ring + s * T::STAGE, s);
      lo_copy_commit();
    }
    lo_bsr_ring_wgrad_core<T> core;
    core.clear();
    unsigned stage = ring, free = ring + T::AHEAD * T::STAGE;
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
      lo_copy_wait<T::AHEAD - 1>();
      __syncthreads();
      if (s + T::AHEAD < steps) fetch(free, s + T::AHEAD);
      lo_copy_commit();
      core.multiply(stage, row, col);
      free = stage;
      stage = stage + T::STAGE == ring + T::RING ? ring : stage + T::STAGE;
    }
    lo_copy_wait<0>();
    __syncthreads();
    int first = row / T::SIDE; /* the warp's squares */
    if (p.dgate) {
#pragma unroll
      for (int o = 0; o < T::OWN; o++) {
        float dot = squares[first + o].block < 0 ? 0 : core.dot(p, squares, row, col, first + o);
        if (lane == 0) dots[warp][o] = dot;
      }
      __syncthreads();
      if (threadIdx.x < T::SLOTS) {
        constexpr int EACH = T::SLOTS < T::WARPS ? T::WARPS / T::SLOTS : 1; /* warps of a square */
        int w = (int)threadIdx.x / T::OWN * EACH;
        for (int i = 0; i < EACH; i++) gradient += dots[w + i][threadIdx.x % T::OWN];
      }
    }
    if (p.e.c.p) {
      float *sums = (float *)memory + warp * T::SUMS;
      core.put(sums, squares, row, col);
      __syncwarp();
      lo_ending ending = lo_ending_of(p.e, 0, false);
#pragma unroll
      for (int o = 0; o < T::OWN; o++)
        if (squares[first + o].block >= 0)
          lo_bsr_square_finish<T>(p, ending, squares[first + o], sums + o * (8 * T::PITCH + 8),
                                  row - (first * T::SIDE), col - (first * T::SIDE));
    }
    __syncthreads();
  }
  lo_lead();
  lo_i64 block = set * T::SLOTS + threadIdx.x;
  if (!p.dgate || threadIdx.x >= T::SLOTS || block >= p.count) return;
  float beta = lo_scalar_float(p.beta);
  p.dgate[block] = beta == 0.0f ? gradient : __fmaf_rn(beta, p.dgate[block], gradient);
}

#endif

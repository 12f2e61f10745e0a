/* The gradients of block-sparse weights and of their gates, for activations of 16 bits in either
 * layout, by mma.sync.
 *
 * A block of threads has SPAN x SPAN sums: SPAN / SIDE kept blocks side by side along dZ's features
 * and X's, filled up to SIDE x SIDE with zeros; their squares on the diagonal count. All samples go
 * through a ring of stages, so that a sum has one order. */
#ifndef LO_CUDA_BSR_FEATURES_WGRAD_CUH
#define LO_CUDA_BSR_FEATURES_WGRAD_CUH

#include "backends/cuda/bsr_mma.cuh"
#include "backends/cuda/bsr_panel.cuh"

template <bool BF16_, bool FEATURES_, int SIDE_, int SPAN_, int WARPS_>
struct lo_bsr_features_wgrad {
  static constexpr bool BF16 = BF16_, FEATURES = FEATURES_;
  static constexpr int SIDE = SIDE_, SPAN = SPAN_, WARPS = WARPS_, THREADS = 32 * WARPS;
  static constexpr int SLOTS = SPAN / SIDE, BK = 64, STAGES = 3, AHEAD = STAGES - 1;
  static constexpr int RESIDENT = 16 / WARPS;
  typedef lo_bsr_panel<FEATURES, SPAN, BK, THREADS> P;
  static constexpr int STAGE = 2 * P::BYTES, RING = STAGES * STAGE, BYTES = RING;
  /* A warp's share: rows and columns of the sums, of PARTS_N side by side in a square. */
  static constexpr int WM = SIDE >= 64 ? SIDE / 2 : 16, WN = SIDE < 16 ? 16 : SIDE < 32 ? SIDE : 32;
  static constexpr int MT = WM / 16, NT = WN / 8, PARTS_N = SIDE <= WN ? 1 : SIDE / WN;
  /* A square of 8 has lines read behind its own. */
  static constexpr int PITCH = WN + 8, SUMS = (WM + 8) * PITCH;
  static_assert(WARPS * SUMS * 4 <= RING, "the sums' room");
  static_assert(RING == LO_CU_BSR_FEATURES_WGRAD_STAGES(SPAN), "what the host knows");
  /* Squares that a warp has to do with, and warps that have to do with a square. */
  static constexpr int OWN = SIDE == 8 ? 2 : 1, SHARERS = SLOTS < WARPS ? WARPS / SLOTS : 1;
  static __device__ __forceinline__ int row(int warp) { return warp / PARTS_N * WM; }
  static __device__ __forceinline__ int col(int warp) {
    return row(warp) / SIDE * SIDE + warp % PARTS_N * WN;
  }
};

/* A kept block: its first features; rows and columns that lie in W, and are to be read. */
typedef struct lo_bsr_square {
  lo_i64 n, k;
  int block; /* -1: none */
  int rows, cols;
  float gate;
} lo_bsr_square;

/* Kept block number `at` in the order of columns, as far as the pattern says. */
LO_FN lo_bsr_square lo_bsr_square_of(const lo_cu_bsr_features_wgrad &p, lo_i64 at) {
  lo_bsr_square s = {0, 0, -1, 0, 0, 1.0f};
  if (at >= p.count) return s;
  s.block = p.place[at];
  s.n = p.row[at] * (lo_i64)p.height;
  s.k = p.column[s.block] * (lo_i64)p.width;
  s.rows = lo_left(p.n, s.n, p.height);
  s.cols = lo_left(p.k, s.k, p.width);
  return s;
}

/* A thread's share of dZ or X: chunks of features that are lines of the panel, or of samples. */
template <class T> struct lo_bsr_sample_loader {
  typedef typename T::P P;
  /* Squares that the thread has chunks of, and how many of each. */
  static constexpr int OF = !T::FEATURES ? 1 : T::SLOTS < P::LOADS ? T::SLOTS : P::LOADS;
  static constexpr int EACH = P::LOADS / OF;
  const char *from[OF]; /* of the first chunk of each that comes next */
  int inside[OF];       /* features from there to the square's end */
  lo_i64 left, stride;  /* samples from the first chunk on; bytes */

  __device__ __forceinline__ lo_bsr_sample_loader(const lo_cu_bsr_features_wgrad &p,
                                                  const lo_bsr_square *squares, bool is_z) {
    stride = 2 * (is_z ? p.z_stride : p.x_stride);
    int sample = T::FEATURES ? 8 * P::chunk() : P::line();
    left = p.m - sample;
#pragma unroll
    for (int i = 0; i < OF; i++) {
      int row = T::FEATURES ? P::line() + i * EACH * P::APART : 8 * P::chunk();
      const lo_bsr_square &s = squares[row / T::SIDE];
      lo_i64 feature = (is_z ? s.n : s.k) + row % T::SIDE;
      inside[i] = (is_z ? s.rows : s.cols) - row % T::SIDE;
      if (s.gate == 0.0f && !p.dgate) inside[i] = 0;  /* of such a block nothing is read */
      if (inside[i] <= 0) inside[i] = 0, feature = 0; /* of which nothing is read */
      from[i] = (const char *)(is_z ? p.z : p.x) +
                (T::FEATURES ? feature * stride + 2 * sample : sample * stride + 2 * feature);
    }
  }
  template <bool LOOSE> __device__ __forceinline__ void fetch(unsigned panel) {
    int samples = left < 0 ? 0 : left < 8 ? (int)left : 8, features = inside[0] < 8 ? inside[0] : 8;
#pragma unroll
    for (int l = 0; l < P::LOADS; l++) {
      int i = l / EACH, on = l % EACH * P::APART;
      lo_bring<LOOSE>(P::own(panel, l), from[i] + on * stride,
                      T::FEATURES ? on < inside[i] ? samples : 0
                      : on < left ? features
                                  : 0);
    }
#pragma unroll
    for (int i = 0; i < OF; i++) from[i] += T::FEATURES ? 2 * T::BK : T::BK * stride;
    left -= T::BK;
  }
};

template <class T> struct lo_bsr_features_wgrad_core {
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
      bool in = (row + r) % T::SIDE < s.rows && (col + c) % T::SIDE < s.cols;
      sums[r * T::PITCH + c] = in && s.gate != 0.0f ? __fmul_rn(s.gate, sum) : 0.0f;
    });
  }
  /* The lane's share of the sum of a square's times W. */
  __device__ __forceinline__ float dot(const lo_cu_bsr_features_wgrad &p,
                                       const lo_bsr_square *squares, int row, int col,
                                       int square) const {
    const lo_bsr_square &s = squares[square];
    const unsigned short *w = (const unsigned short *)p.w + (lo_i64)s.block * p.height * p.width;
    float total = 0;
    each([&](int r, int c, float sum) {
      r += row, c += col;
      if (r / T::SIDE != square || c / T::SIDE != square) return;
      r %= T::SIDE, c %= T::SIDE;
      if (r < s.rows && c < s.cols)
        total = __fmaf_rn(sum, lo_from_16(w[r * p.width + c], T::BF16), total);
    });
    return lo_warp_sum(total);
  }
};

/* The warp's sums of a square to dW. */
template <class T>
LO_FN void lo_bsr_square_finish(const lo_cu_bsr_features_wgrad &p, const lo_ending &ending,
                                const lo_bsr_square &s, const float *sums, int row, int col) {
  lo_i64 first = (lo_i64)s.block * p.height;
  lo_finish_warp<T::WM, T::WN, T::PITCH>(ending, lo_no_columns(), 0, sums, first + row, col,
                                         first + p.height, p.width);
  if (s.rows == p.height && s.cols == p.width) return;
  __syncwarp();
  const lo_cu_view dw = {p.e.c.p, 0, 0, p.e.c.stride, 0, p.e.c.type, 0};
  for (int i = threadIdx.x % 32; i < T::WM * T::WN; i += 32) {
    int r = row + i / T::WN, c = col + i % T::WN;
    if (r < p.height && c < p.width && (r >= s.rows || c >= s.cols))
      lo_store(dw, (first + r) * p.e.c.stride + c, 0.0f);
  }
}

/* So that the values are near when the sums are multiplied by them. */
template <class T>
LO_FN void lo_bsr_square_prefetch(const lo_cu_bsr_features_wgrad &p, const lo_bsr_square *squares) {
  const lo_bsr_square &s = squares[threadIdx.x / T::SIDE % T::SLOTS];
  int row = threadIdx.x % T::SIDE;
  if (threadIdx.x >= T::SPAN || row >= s.rows) return;
  const char *at = (const char *)p.w + 2 * ((lo_i64)s.block * p.height + row) * p.width;
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
  if (T::SIDE > 64 && p.width > 64) asm volatile("prefetch.global.L2 [%0];" ::"l"(at + 128));
}

template <class T>
__global__ void __launch_bounds__(T::THREADS, T::RESIDENT)
    bsr_features_wgrad_kernel(const __grid_constant__ lo_cu_bsr_features_wgrad p) {
  extern __shared__ __align__(1024) char memory[];
  __shared__ lo_bsr_square squares[T::SLOTS];
  __shared__ float dots[T::WARPS][T::OWN];
  unsigned ring = (unsigned)__cvta_generic_to_shared(memory);
  int warp = threadIdx.x / 32, row = T::row(warp), col = T::col(warp), own = row / T::SIDE;
  /* The pattern was complete before any product was launched. */
  lo_bsr_square mine = {};
  if (threadIdx.x < T::SLOTS)
    mine = lo_bsr_square_of(p, (lo_i64)blockIdx.x * T::SLOTS + threadIdx.x);
  lo_follow();
  if (threadIdx.x < T::SLOTS) {
    if (mine.block >= 0 && p.gate) mine.gate = p.gate[mine.block];
    squares[threadIdx.x] = mine;
  }
  __syncthreads();
  lo_bsr_sample_loader<T> z(p, squares, true), x(p, squares, false);
  auto fetch = [&](unsigned stage) {
    if (p.loose) {
      z.template fetch<true>(stage);
      x.template fetch<true>(stage + T::P::BYTES);
    } else {
      z.template fetch<false>(stage);
      x.template fetch<false>(stage + T::P::BYTES);
    }
  };
  int steps = (int)((p.m + T::BK - 1) / T::BK);
#pragma unroll 1
  for (int s = 0; s < T::AHEAD; s++) {
    if (s < steps) fetch(ring + s * T::STAGE);
    lo_copy_commit();
  }
  if (p.dgate) lo_bsr_square_prefetch<T>(p, squares);
  lo_bsr_features_wgrad_core<T> core;
  core.clear();
  unsigned stage = ring, free = ring + T::AHEAD * T::STAGE;
#pragma unroll 1
  for (int s = 0; s < steps; s++) {
    lo_copy_wait<T::AHEAD - 1>();
    __syncthreads();
    if (s + T::AHEAD < steps) fetch(free);
    lo_copy_commit();
    core.multiply(stage, row, col);
    free = stage;
    stage = stage + T::STAGE == ring + T::RING ? ring : stage + T::STAGE;
  }
  lo_copy_wait<0>();
  __syncthreads();
  lo_lead();
  if (p.e.c.p) {
    float *sums = (float *)memory + warp * T::SUMS;
    core.put(sums, squares, row, col);
    __syncwarp();
    lo_ending ending = lo_ending_of(p.e, 0, false);
#pragma unroll
    for (int o = 0; o < T::OWN; o++)
      if (squares[own + o].block >= 0)
        lo_bsr_square_finish<T>(p, ending, squares[own + o], sums + o * (8 * T::PITCH + 8),
                                row - own * T::SIDE, col - own * T::SIDE);
  }
  if (!p.dgate) return;
#pragma unroll
  for (int o = 0; o < T::OWN; o++) {
    float dot = squares[own + o].block < 0 ? 0 : core.dot(p, squares, row, col, own + o);
    if (threadIdx.x % 32 == 0) dots[warp][o] = dot;
  }
  __syncthreads();
  if (threadIdx.x >= T::SLOTS || mine.block < 0) return;
  float sum = 0, beta = lo_scalar_float(p.beta), *to = p.dgate + mine.block;
#pragma unroll
  for (int i = 0; i < T::SHARERS; i++)
    sum += dots[(int)threadIdx.x / T::OWN * T::SHARERS + i][threadIdx.x % T::OWN];
  *to = beta == 0.0f ? sum : __fmaf_rn(beta, *to, sum);
}

#endif

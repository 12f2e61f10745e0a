/* Block-sparse products of 16-bit activations through a ring of stages in shared memory, by
 * mma.sync: whatever blocks, for activations of either layout, with or without a factor for each
 * block.
 *
 * A block of threads has BM samples by BN features, of one line of blocks. The line's kept blocks
 * lie end to end along k, whatever their size, and are taken BK at a time: 8 neighbours in k belong
 * to one block, and are a group. Where blocks have factors (gates, scales of 8-bit integers), the
 * sums of each are multiplied by its own, in f32, before they join the others. */
#ifndef LO_CUDA_BSR_RING_CUH
#define LO_CUDA_BSR_RING_CUH

#include "backends/cuda/bsr_mma.cuh"
#include "backends/cuda/bsr_panel.cuh"
#include "backends/cuda/widen.cuh"

template <bool BF16_, bool TURN_, bool FEATURES_, bool FACTORS_, int BM_, int BN_, int PARTS_M_,
          int PARTS_N_, int STAGES_, int RESIDENT_>
struct lo_bsr_ring {
  static constexpr bool BF16 = BF16_, TURN = TURN_, FEATURES = FEATURES_, FACTORS = FACTORS_;
  static constexpr int BM = BM_, BN = BN_, PARTS_M = PARTS_M_, PARTS_N = PARTS_N_;
  static constexpr int STAGES = STAGES_, RESIDENT = RESIDENT_, AHEAD = STAGES - 1;
  static constexpr int WARPS = PARTS_M * PARTS_N, THREADS = 32 * WARPS, BK = 32, GROUPS = BK / 8;
  static constexpr int WM = BM / PARTS_M, WN = BN / PARTS_N, MT = WM / 16, NT = WN / 8;
  typedef lo_bsr_panel<!FEATURES, BM, BK, THREADS> X;
  typedef lo_bsr_panel<!TURN, BN, BK, THREADS> W;
  static constexpr int STAGE = X::BYTES + W::BYTES, RING = STAGES * STAGE;
  /* The sums on their way out: lines are the result's. */
  static constexpr int LINES = FEATURES ? BN : BM, LINE = FEATURES ? BM : BN;
  static constexpr int PITCH = LINE + (FEATURES ? 4 : 8), SUMS = LINES * PITCH * 4;
  static constexpr int BYTES = RING > SUMS ? RING : SUMS;
};

/* Where a lane's group is in X and among the values: lane % GROUPS of a step. */
typedef struct lo_bsr_group_at {
  int index, block; /* index: of the block across the line; -1 behind the last */
} lo_bsr_group_at;

/* A thread's share of what is copied. */
template <class T> struct lo_bsr_ring_loader {
  const lo_cu_bsr_ring &g;
  const lo_cu_bsr16 &p;
  lo_i64 row0; /* sample */
  int begin, groups, part;
  uint2 bytes[T::FACTORS ? T::W::LOADS : 1]; /* of 8-bit values, which wait to be widened */
  float gate, scale;                          /* which wait to be multiplied */
  bool there;

  __device__ __forceinline__ lo_bsr_ring_loader(const lo_cu_bsr_ring &g_, lo_i64 row0_, int line,
                                                int part_)
      : g(g_), p(g_.p), row0(row0_), part(part_) {
    begin = p.start[line];
    groups = (p.start[line + 1] - begin) << (p.k_log2 - 3);
  }
  __device__ __forceinline__ int steps() const { return (groups + T::GROUPS - 1) / T::GROUPS; }
  __device__ __forceinline__ lo_bsr_group_at find(int step) const {
    int at = step * T::GROUPS + threadIdx.x % T::GROUPS;
    if (at >= groups) return {-1, 0};
    int e = begin + (at >> (p.k_log2 - 3));
    return {p.index[e], T::TURN ? p.place[e] : e};
  }
  /* Of a group of a step, along its block. */
  __device__ __forceinline__ int within(int step, int group) const {
    return 8 * (step * T::GROUPS + group) & ((1 << p.k_log2) - 1);
  }
  __device__ __forceinline__ void fetch_x(unsigned panel, int step, const lo_bsr_group_at &at) {
    T::X::each([&](int, unsigned to, int k, int row, bool mine) {
      int index = __shfl_sync(~0u, at.index, k / 8);
      lo_i64 k0 = ((lo_i64)index << p.k_log2) + within(step, k / 8) + k % 8, sample = row0 + row;
      lo_i64 from = T::FEATURES ? k0 * p.x_stride + sample : sample * p.x_stride + k0;
      int left = T::FEATURES ? lo_left(p.m, sample, 8) : lo_left(p.k, k0, 8);
      bool in = index >= 0 && left > 0 && (T::FEATURES ? k0 < p.k : sample < p.m);
      if (mine)
        lo_bring(panel + to, (const unsigned short *)p.x + (in ? from : 0), in ? left : 0, g.loose);
    });
  }
  /* What is to be widened, and factors, are asked for here, and put into the stage by settle(). */
  __device__ __forceinline__ void fetch_w(unsigned panel, int step, const lo_bsr_group_at &at) {
    T::W::each([&](int l, unsigned to, int k, int row, bool mine) {
      int index = __shfl_sync(~0u, at.index, k / 8), block = __shfl_sync(~0u, at.block, k / 8);
      int along = within(step, k / 8) + k % 8, across = part * T::BN + row;
      lo_i64 from = ((lo_i64)block << (p.k_log2 + p.n_log2)) +
                    (T::TURN ? (along << p.n_log2) + across : (across << p.k_log2) + along);
      bool in = index >= 0 && across < 1 << p.n_log2;
      if (T::FACTORS && g.narrow) {
        bytes[T::FACTORS ? l : 0] =
            in && mine ? *(const uint2 *)((const char *)p.w + from) : make_uint2(0, 0);
      } else if (mine) {
        lo_bring(panel + to, (const unsigned short *)p.w + (in ? from : 0), in ? 8 : 0, 0);
      }
    });
    if (!T::FACTORS || threadIdx.x >= T::GROUPS) return;
    gate = scale = 1.0f;
    there = at.index >= 0;
    if (there && g.gate) gate = g.gate[at.block];
    if (there && g.scale) scale = g.scale[at.block];
  }
  __device__ __forceinline__ void settle(unsigned panel, float2 *factors) {
    if (!T::FACTORS) return;
    if (g.narrow)
      T::W::each([&](int l, unsigned to, int, int, bool mine) {
        uint2 u = bytes[T::FACTORS ? l : 0];
        uint4 v;
        lo_widen<LO_TYPE_I8, T::BF16>(u.x, v.x, v.y);
        lo_widen<LO_TYPE_I8, T::BF16>(u.y, v.z, v.w);
        if (mine) lo_store_shared(panel + to, v);
      });
    /* a block whose gate is 0 is skipped, one whose scale is 0 is not */
    if (threadIdx.x < T::GROUPS)
      factors[threadIdx.x] =
          make_float2(__fmul_rn(gate, scale), there && gate != 0.0f ? 1.0f : 0.0f);
  }
};

template <class T> struct lo_bsr_ring_core {
  float acc[T::MT][T::NT][4];
  float part[T::FACTORS ? T::MT : 1][T::NT][4]; /* of one block */

  template <int M> static __device__ __forceinline__ void clear(float (&z)[M][T::NT][4]) {
#pragma unroll
    for (int i = 0; i < M; i++)
#pragma unroll
      for (int j = 0; j < T::NT; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) z[i][j][e] = 0;
  }
  /* What the block's sums are worth joins the others. */
  __device__ __forceinline__ void join(float2 factor) {
    if (factor.y == 0.0f) return;
#pragma unroll
    for (int i = 0; i < T::MT; i++)
#pragma unroll
      for (int j = 0; j < T::NT; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
          acc[i][j][e] = __fmaf_rn(factor.x, part[T::FACTORS ? i : 0][j][e], acc[i][j][e]);
  }
  /* HALVES: of k, 1 the first eight, 2 the others, 3 both. */
  template <int HALVES, int M>
  static __device__ __forceinline__ void add(float (&z)[M][T::NT][4],
                                             const unsigned (&a)[T::MT][4],
                                             const unsigned (&b)[T::NT / 2][4]) {
    constexpr unsigned low = HALVES & 1 ? ~0u : 0, high = HALVES & 2 ? ~0u : 0;
#pragma unroll
    for (int i = 0; i < M; i++)
#pragma unroll
      for (int j = 0; j < T::NT; j++)
        lo_mma_16<T::BF16>(z[i][j], a[i][0] & low, a[i][1] & low, a[i][2] & high, a[i][3] & high,
                           b[j / 2][j % 2 * 2] & low, b[j / 2][j % 2 * 2 + 1] & high);
  }
  /* row, col: the warp's in the panels */
  __device__ __forceinline__ void multiply(unsigned stage, int row, int col, int k_log2,
                                           const float2 *factors) {
    int side = 1 << k_log2;
#pragma unroll
    for (int k = 0; k < T::BK; k += 16) {
      unsigned a[T::MT][4], b[T::NT / 2][4];
#pragma unroll
      for (int i = 0; i < T::MT; i++) T::X::template read<true>(a[i], stage, row + 16 * i, k);
#pragma unroll
      for (int j = 0; j < T::NT / 2; j++)
        T::W::template read<false>(b[j], stage + T::X::BYTES, col + 16 * j, k);
      if constexpr (!T::FACTORS) {
        add<3>(acc, a, b);
      } else if (side == 8) {
        clear(part);
        add<1>(part, a, b);
        join(factors[k / 8]);
        clear(part);
        add<2>(part, a, b);
        join(factors[k / 8 + 1]);
      } else {
        if (k % side == 0) clear(part);
        add<3>(part, a, b);
        if (k + 16 == T::BK || (k + 16) % side == 0) join(factors[k / 8]);
      }
    }
  }
  /* The warp's sums to the lines of the result: by features, scaled and with the bias of each. */
  template <class Columns>
  __device__ __forceinline__ void put(float *sums, int row, int col, float alpha,
                                      const Columns &columns) const {
    int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < T::MT; i++)
#pragma unroll
      for (int j = 0; j < T::NT; j++) {
        int m = row + 16 * i + g, n = col + 8 * j + 2 * q;
        const float *z = acc[i][j];
        if (T::FEATURES) {
          float *to = sums + n * T::PITCH + m, bias = columns.bias[n], bias1 = columns.bias[n + 1];
          to[0] = __fmaf_rn(alpha, z[0], bias);
          to[8] = __fmaf_rn(alpha, z[2], bias);
          to[T::PITCH] = __fmaf_rn(alpha, z[1], bias1);
          to[T::PITCH + 8] = __fmaf_rn(alpha, z[3], bias1);
        } else {
          float *to = sums + m * T::PITCH + n;
          *(float2 *)to = make_float2(z[0], z[1]);
          *(float2 *)(to + 8 * T::PITCH) = make_float2(z[2], z[3]);
        }
      }
  }
};

template <class T>
__global__ void __launch_bounds__(T::THREADS, T::RESIDENT)
    bsr_ring_kernel(const __grid_constant__ lo_cu_bsr_ring g) {
  extern __shared__ __align__(1024) char memory[];
  __shared__ __align__(16) lo_tile_columns<T::BN, false> columns;
  __shared__ float2 factors[T::FACTORS ? T::STAGES : 1][T::GROUPS];
  const lo_cu_bsr16 &p = g.p;
  unsigned ring = (unsigned)__cvta_generic_to_shared(memory);
  unsigned tm = blockIdx.x % (unsigned)p.tiles_m, item = blockIdx.x / (unsigned)p.tiles_m;
  int line = (int)(item >> p.parts_log2), part = item & ((1 << p.parts_log2) - 1);
  lo_i64 row0 = (lo_i64)tm * T::BM, col0 = ((lo_i64)line << p.n_log2) + part * T::BN;
  /* The pattern was complete before any product was launched. */
  lo_bsr_ring_loader<T> loader(g, row0, line, part);
  lo_bsr_group_at at[T::AHEAD];
#pragma unroll
  for (int s = 0; s < T::AHEAD; s++) at[s] = loader.find(s);
  lo_follow();
  int steps = lo_scalar_float(p.e.alpha) == 0.0f ? 0 : loader.steps();
  columns.stage(p.e, col0, lo_left(p.n, col0, T::BN));
#pragma unroll
  for (int s = 0; s < T::AHEAD; s++) {
    if (s < steps) {
      unsigned stage = ring + s * T::STAGE;
      loader.fetch_x(stage, s, at[s]);
      loader.fetch_w(stage + T::X::BYTES, s, at[s]);
      loader.settle(stage + T::X::BYTES, factors[T::FACTORS ? s : 0]);
    }
    lo_copy_commit();
  }
  lo_bsr_group_at next = loader.find(T::AHEAD);
  int warp = threadIdx.x / 32, row = warp / T::PARTS_N * T::WM, col = warp % T::PARTS_N * T::WN;
  lo_bsr_ring_core<T> core;
  core.clear(core.acc);
  int now = 0, free = T::AHEAD; /* stages */
#pragma unroll 1
  for (int s = 0; s < steps; s++) {
    lo_copy_wait<T::AHEAD - 1>();
    __syncthreads();
    unsigned stage = ring + free * T::STAGE;
    bool more = s + T::AHEAD < steps;
    if (more) {
      loader.fetch_x(stage, s + T::AHEAD, next);
      loader.fetch_w(stage + T::X::BYTES, s + T::AHEAD, next);
    }
    lo_copy_commit();
    next = loader.find(s + T::STAGES);
    core.multiply(ring + now * T::STAGE, row, col, p.k_log2, factors[T::FACTORS ? now : 0]);
    if (more) loader.settle(stage + T::X::BYTES, factors[T::FACTORS ? free : 0]);
    free = now;
    now = now + 1 == T::STAGES ? 0 : now + 1;
  }
  lo_copy_wait<0>();
  __syncthreads();
  lo_lead();
  float *sums = (float *)memory;
  lo_ending ending = lo_ending_of(p.e, 0, false);
  core.put(sums, row, col, ending.alpha, columns);
  __syncthreads();
  /* of a line of blocks narrower than the tile, that alone */
  lo_i64 end = ((lo_i64)line + 1) << p.n_log2;
  if (end > p.n) end = p.n;
  constexpr int SHARE = T::LINES / T::WARPS;
  sums += warp * SHARE * T::PITCH;
  if (T::FEATURES) {
    ending.alpha = 1.0f;
    lo_finish_warp<SHARE, T::LINE, T::PITCH>(ending, lo_no_columns(), 0, sums, col0 + warp * SHARE,
                                             row0, end, p.m);
  } else {
    lo_finish_warp<SHARE, T::LINE, T::PITCH>(ending, columns, 0, sums, row0 + warp * SHARE, col0,
                                             p.m, end);
  }
}

#endif

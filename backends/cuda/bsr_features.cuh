/* Block-sparse products of 16-bit activations through a ring of stages in shared memory, by
 * mma.sync: whatever blocks, for activations of either layout, with or without a factor for each
 * block.
 *
 * A block of threads has BM samples by BN features, of one line of blocks. The line's kept blocks
 * lie end to end along k, whatever their size, and are taken BK at a time: 8 neighbours in k belong
 * to one block, and are a group. Where blocks have factors (gates, scales of 8-bit integers), the
 * sums of each are multiplied by its own, in f32, before they join the others. */
#ifndef LO_CUDA_BSR_FEATURES_CUH
#define LO_CUDA_BSR_FEATURES_CUH

#include "backends/cuda/bsr_mma.cuh"
#include "backends/cuda/bsr_panel.cuh"
#include "backends/cuda/widen.cuh"

template <bool BF16_, bool TURN_, bool FEATURES_, bool FACTORS_, int BM_, int BN_, int PARTS_M_,
          int PARTS_N_, int STAGES_, int RESIDENT_>
struct lo_bsr_features {
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

/* Where a group is in X, along k, and among the values, in 8 elements. A lane has one of 32. */
typedef struct lo_bsr_group_at {
  int k;      /* INT_MAX behind the last */
  unsigned w; /* ~0u there */
} lo_bsr_group_at;

/* Factors of 32 groups, a lane each, and which of them count. */
typedef struct lo_bsr_factors {
  float value;
  unsigned live;
} lo_bsr_factors;

/* A thread's share of what is copied. */
template <class T> struct lo_bsr_features_loader {
  static constexpr int PER = 32 / T::GROUPS; /* steps that a warp's lanes have the groups of */
  const lo_cu_bsr_features &g;
  const lo_cu_bsr16 &p;
  const char *x, *w; /* what would be its first chunk's, with k and values from 0 on */
  unsigned stride;   /* of X, in bytes */
  int left, left_w;  /* samples, or across the line, from there to the end */
  int begin, groups;
  uint2 bytes[T::FACTORS ? T::W::LOADS : 1]; /* of 8-bit values, which wait to be widened */
  float gate, scale;                         /* which wait to be multiplied */

  __device__ __forceinline__ lo_bsr_features_loader(const lo_cu_bsr_features &g_, lo_i64 row0,
                                                    int line, int part)
      : g(g_), p(g_.p) {
    begin = p.start[line];
    groups = (p.start[line + 1] - begin) << (p.k_log2 - 3);
    stride = 2 * (unsigned)p.x_stride;
    lo_i64 sample = row0 + (T::FEATURES ? 8 * T::X::chunk() : T::X::line());
    left = lo_left(p.m, sample, T::FEATURES ? 8 : T::BM);
    if (left < 0) left = 0;
    x = (const char *)p.x +
        (T::FEATURES ? 2 * sample + T::X::line() % 8 * (lo_i64)stride : sample * stride);
    int across = part * T::BN + (T::TURN ? 8 * T::W::chunk() : T::W::line());
    left_w = T::W::mine() ? (1 << p.n_log2) - across : 0;
    w = (const char *)p.w +
        (T::TURN ? (T::W::line() % 8 << p.n_log2) + across : across << p.k_log2) * size();
  }
  __device__ __forceinline__ int size() const { return T::FACTORS && g.narrow ? 1 : 2; }
  __device__ __forceinline__ int steps() const { return (groups + T::GROUPS - 1) / T::GROUPS; }
  /* The groups of PER steps. */
  __device__ __forceinline__ lo_bsr_group_at find(int turn) const {
    int at = 32 * turn + threadIdx.x % 32;
    if (at >= groups) return {0x7fffffff, ~0u};
    int e = begin + (at >> (p.k_log2 - 3)), along = 8 * at & ((1 << p.k_log2) - 1);
    unsigned block = T::TURN ? p.place[e] : e;
    return {(p.index[e] << p.k_log2) + along,
            (block << (p.k_log2 + p.n_log2 - 3)) +
                (T::TURN ? (unsigned)along << (p.n_log2 - 3) : (unsigned)along / 8)};
  }
  /* Factors are asked for by the first and ready with the second: a block whose gate is 0 is
   * skipped, one whose scale is 0 is not. */
  __device__ __forceinline__ void ask(const lo_bsr_group_at &at) {
    unsigned block = at.w >> (p.k_log2 + p.n_log2 - 3);
    gate = scale = at.w == ~0u ? 0.0f : 1.0f;
    if (at.w != ~0u && g.gate) gate = g.gate[block];
    if (at.w != ~0u && g.scale) scale = g.scale[block];
  }
  __device__ __forceinline__ lo_bsr_factors factors() const {
    return {__fmul_rn(gate, scale), __ballot_sync(~0u, gate != 0.0f)};
  }
  template <bool LOOSE>
  __device__ __forceinline__ void fetch_x(unsigned panel, int step, const lo_bsr_group_at &at) {
    int first = step % PER * T::GROUPS;
    if constexpr (T::FEATURES) {
#pragma unroll
      for (int l = 0; l < T::X::LOADS; l++) {
        int line = T::X::line() + l * T::X::APART, k = __shfl_sync(~0u, at.k, first + line / 8);
        lo_bring<LOOSE>(T::X::own(panel, l), x + (lo_u64)(unsigned)k * stride,
                        k < p.k - line % 8 ? left : 0);
      }
    } else {
      int k = __shfl_sync(~0u, at.k, first + T::X::chunk()), count = lo_left(p.k, k, 8);
      if (count < 0) count = 0;
#pragma unroll
      for (int l = 0; l < T::X::LOADS; l++)
        lo_bring<LOOSE>(T::X::own(panel, l), x + 2 * (lo_i64)k + l * T::X::APART * (lo_i64)stride,
                        l * T::X::APART < left ? count : 0);
    }
  }
  /* What is to be widened waits for settle(). */
  __device__ __forceinline__ void fetch_w(unsigned panel, int step, const lo_bsr_group_at &at) {
    int first = step % PER * T::GROUPS;
#pragma unroll
    for (int l = 0; l < T::W::LOADS; l++) {
      int line = T::W::line() + l * T::W::APART, on = T::TURN ? 0 : l * T::W::APART;
      int group = T::TURN ? line / 8 : T::W::chunk();
      unsigned from = __shfl_sync(~0u, at.w, first + group % T::GROUPS);
      bool in = from != ~0u && on < left_w;
      const char *q = w + (8ull * from + (on << p.k_log2)) * size();
      if (T::FACTORS && g.narrow)
        bytes[T::FACTORS ? l : 0] = in ? *(const uint2 *)q : make_uint2(0, 0);
      else if (T::W::mine())
        lo_bring<false>(T::W::own(panel, l), q, in ? 8 : 0);
    }
  }
  __device__ __forceinline__ void settle(unsigned panel) {
    if constexpr (T::FACTORS) {
      if (!g.narrow || !T::W::mine()) return;
#pragma unroll
      for (int l = 0; l < T::W::LOADS; l++) {
        uint4 v;
        lo_widen<LO_TYPE_I8, T::BF16>(bytes[l].x, v.x, v.y);
        lo_widen<LO_TYPE_I8, T::BF16>(bytes[l].y, v.z, v.w);
        lo_store_shared(T::W::own(panel, l), v);
      }
    }
  }
  __device__ __forceinline__ void fetch(unsigned stage, int step, const lo_bsr_group_at &at) {
    if (g.loose)
      fetch_x<true>(stage, step, at);
    else
      fetch_x<false>(stage, step, at);
    fetch_w(stage + T::X::BYTES, step, at);
  }
};

template <class T> struct lo_bsr_features_core {
  float acc[T::MT][T::NT][4];
  float part[T::FACTORS ? T::MT : 1][T::NT][4]; /* of one block */

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < T::MT; i++)
#pragma unroll
      for (int j = 0; j < T::NT; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) acc[i][j][e] = 0;
  }
  /* What the block's sums are worth joins the others. */
  __device__ __forceinline__ void join(const lo_bsr_factors &f, int group) {
    float factor = __shfl_sync(~0u, f.value, group);
    if (!(f.live >> group & 1)) return;
#pragma unroll
    for (int i = 0; i < T::MT; i++)
#pragma unroll
      for (int j = 0; j < T::NT; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
          acc[i][j][e] = __fmaf_rn(factor, part[T::FACTORS ? i : 0][j][e], acc[i][j][e]);
  }
  /* To z, or from 0 on. HALVES: of k, 1 the first eight, 2 the others, 3 both. */
  template <int HALVES, int M>
  static __device__ __forceinline__ void add(float (&z)[M][T::NT][4], bool fresh,
                                             const unsigned (&a)[T::MT][4],
                                             const unsigned (&b)[T::NT / 2][4]) {
    constexpr unsigned low = HALVES & 1 ? ~0u : 0, high = HALVES & 2 ? ~0u : 0;
#pragma unroll
    for (int i = 0; i < M; i++)
#pragma unroll
      for (int j = 0; j < T::NT; j++) {
        float sums[4];
#pragma unroll
        for (int e = 0; e < 4; e++) sums[e] = fresh ? 0.0f : z[i][j][e];
        lo_mma_16<T::BF16>(sums, a[i][0] & low, a[i][1] & low, a[i][2] & high, a[i][3] & high,
                           b[j / 2][j % 2 * 2] & low, b[j / 2][j % 2 * 2 + 1] & high);
#pragma unroll
        for (int e = 0; e < 4; e++) z[i][j][e] = sums[e];
      }
  }
  /* row, col: the warp's in the panels; first: number of the step's first group */
  __device__ __forceinline__ void multiply(unsigned stage, int row, int col, int k_log2,
                                           const lo_bsr_factors &factors, int first) {
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
        add<3>(acc, false, a, b);
      } else if (side == 8) {
        add<1>(part, true, a, b);
        join(factors, first + k / 8);
        add<2>(part, true, a, b);
        join(factors, first + k / 8 + 1);
      } else if (side == 16) {
        add<3>(part, true, a, b);
        join(factors, first + k / 8);
      } else {
        add<3>(part, k == 0, a, b);
        if (k + 16 == T::BK) join(factors, first);
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
        if constexpr (T::FEATURES) {
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
    bsr_features_kernel(const __grid_constant__ lo_cu_bsr_features g) {
  extern __shared__ __align__(1024) char memory[];
  __shared__ __align__(16) lo_tile_columns<T::BN, false> columns;
  const lo_cu_bsr16 &p = g.p;
  unsigned ring = (unsigned)__cvta_generic_to_shared(memory);
  unsigned tm = blockIdx.x % (unsigned)p.tiles_m, item = blockIdx.x / (unsigned)p.tiles_m;
  int line = (int)(item >> p.parts_log2), part = item & ((1 << p.parts_log2) - 1);
  lo_i64 row0 = (lo_i64)tm * T::BM, col0 = ((lo_i64)line << p.n_log2) + part * T::BN;
  /* The pattern was complete before any product was launched. */
  lo_bsr_features_loader<T> loader(g, row0, line, part);
  constexpr int PER = loader.PER;
  static_assert(T::AHEAD <= PER, "what is fetched first");
  lo_bsr_group_at now = loader.find(0), next = loader.find(1);
  lo_follow();
  int steps = lo_scalar_float(p.e.alpha) == 0.0f || col0 >= p.n ? 0 : loader.steps();
  columns.stage(p.e, col0, lo_left(p.n, col0, T::BN));
  if (T::FACTORS) loader.ask(now);
#pragma unroll 1
  for (int s = 0; s < T::AHEAD; s++) {
    if (s < steps) {
      loader.fetch(ring + s * T::STAGE, s, now);
      loader.settle(ring + s * T::STAGE + T::X::BYTES);
    }
    lo_copy_commit();
  }
  lo_bsr_factors factors = {};
  if (T::FACTORS) factors = loader.factors();
  int warp = threadIdx.x / 32, row = warp / T::PARTS_N * T::WM, col = warp % T::PARTS_N * T::WN;
  lo_bsr_features_core<T> core;
  core.clear();
  unsigned stage = ring, free = ring + T::AHEAD * T::STAGE;
#pragma unroll 1
  for (int s = 0; s < steps; s++) {
    lo_copy_wait<T::AHEAD - 1>();
    __syncthreads();
    int ahead = s + T::AHEAD;
    if (ahead % PER == 0) {
      now = next;
      next = loader.find(ahead / PER + 1);
      if (T::FACTORS) loader.ask(now);
    }
    if (ahead < steps) loader.fetch(free, ahead, now);
    lo_copy_commit();
    core.multiply(stage, row, col, p.k_log2, factors, s % PER * T::GROUPS);
    if (ahead < steps) loader.settle(free + T::X::BYTES);
    if (T::FACTORS && (s + 1) % PER == 0) factors = loader.factors();
    free = stage;
    stage = stage + T::STAGE == ring + T::RING ? ring : stage + T::STAGE;
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

/* Hopper's main loop: one warp has the tiles copied by boxes (TMA) into a ring of stages, the
 * others' tensor cores (wgmma) read them there.
 *
 *   memory -> ring of stages -> sums in registers -> epilogue
 *
 * The blocks of a cluster lie below each other: they share B, of which each copies a part to all.
 * A block goes on to its next tile while its last sums are on their way to memory: the copying warp
 * runs ahead as far as the ring allows. */
#ifndef LO_CUDA_GEMM_WGMMA_CUH
#define LO_CUDA_GEMM_WGMMA_CUH

#include "backends/cuda/main_loop.cuh"
#include "backends/cuda/tma.cuh"
#include "backends/cuda/wgmma.cuh"

/* A block's BM x BN outputs, in steps of 128 bytes of k: GROUPS of four warps, each with TALL times
 * 64 rows. CLUSTER blocks share B. */
template <int GROUPS_, int TALL_, int BN_, int STAGES_, int CLUSTER_> struct lo_wgmma_tile {
  static constexpr int GROUPS = GROUPS_, TALL = TALL_, BN = BN_, STAGES = STAGES_;
  static constexpr int CLUSTER = CLUSTER_, BM = 64 * TALL * GROUPS;
  /* 128 sums leave a thread's share of the registers too small: whole groups hand theirs on. */
  static constexpr bool HANDS_ON = TALL * BN >= 256;
  static constexpr int WORKERS = 128 * GROUPS, THREADS = WORKERS + (HANDS_ON ? 128 : 32);
  static constexpr int A = BM * 128, STAGE = (BM + BN) * 128;
  /* Of a group: its columns' bias and sums, its rows' sums by each warp. */
  static constexpr int ROWS = 64 * TALL, SIDE = BN * 4 * 2 + ROWS * 4 * 4;
  static constexpr int BYTES = STAGE * STAGES + SIDE * GROUPS + STAGES * 16;
  /* A lane's sums in sixteens: 32 columns of 16 rows of a warp. */
  static constexpr int SIXTEENS = TALL * BN / 32;
  static_assert(BM * BN * 4 <= STAGE * STAGES, "sums where the stages were");
};

#if __CUDA_ARCH_FEAT_SM90_ALL
template <int TYPE> struct lo_wgmma_type {
  static constexpr int ELEMENT = TYPE == LO_WGMMA_TF32 ? 4 : TYPE >= LO_WGMMA_S8 ? 1 : 2;
  typedef float sum;
  typedef float4 sum4;
};
template <> struct lo_wgmma_type<LO_WGMMA_S8> {
  static constexpr int ELEMENT = 1;
  typedef int sum;
  typedef int4 sum4;
};
template <> struct lo_wgmma_type<LO_WGMMA_U8> : lo_wgmma_type<LO_WGMMA_S8> {};

/* The ring: stage `at`, in its round's parity. Each stage has a barrier that it is full, and one
 * that it is empty: all warps of the cluster that read it, or a part that was copied from there,
 * are done. */
template <class T> struct lo_wgmma_ring {
  unsigned base, barriers;
  int at;
  unsigned parity;
  __device__ __forceinline__ lo_wgmma_ring(unsigned memory, unsigned barriers_)
      : base(memory), barriers(barriers_), at(0), parity(0) {}
  __device__ __forceinline__ unsigned stage() const { return base + at * T::STAGE; }
  __device__ __forceinline__ unsigned full() const { return barriers + at * 16; }
  __device__ __forceinline__ unsigned empty() const { return full() + 8; }
  __device__ __forceinline__ void next() {
    if (++at < T::STAGES) return;
    at = 0;
    parity ^= 1;
  }
  __device__ __forceinline__ void init() const {
    for (int s = 0; s < T::STAGES; s++) {
      lo_mbarrier_init(barriers + s * 16, 1);
      lo_mbarrier_init(barriers + s * 16 + 8, T::CLUSTER * T::GROUPS * 4);
    }
    lo_mbarrier_publish();
  }
};

/* Threads that meet: a group, or all that multiply. */
template <int BARRIER, int THREADS> struct lo_meeting {
  static __device__ __forceinline__ void sync(int barrier = BARRIER) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
  }
  static __device__ __forceinline__ bool any(bool value) {
    int result;
    asm volatile("{\n.reg .pred p, q;\nsetp.ne.b32 p, %1, 0;\nbar.red.or.pred q, %2, %3, p;\n"
                 "selp.b32 %0, 1, 0, q;\n}"
                 : "=r"(result)
                 : "r"((int)value), "n"(BARRIER), "n"(THREADS)
                 : "memory");
    return result;
  }
};
LO_FN void lo_group_sync() {
  lo_meeting<0, 128>::sync(2 + threadIdx.x / 128);
}
template <class T> using lo_workers = lo_meeting<1, T::WORKERS>;

/* Where a block is: its tile, matrix and part of k. */
struct lo_wgmma_place {
  lo_i64 row0, col0, l;
  int k0;
};

template <int TYPE, class T, bool TRANS_A, bool TRANS_B> struct lo_wgmma_core {
  typedef typename lo_wgmma_type<TYPE>::sum sum_t;
  typedef typename lo_wgmma_type<TYPE>::sum4 sum4;
  static constexpr bool INTEGER = TYPE >= LO_WGMMA_S8;
  static constexpr int ELEMENT = lo_wgmma_type<TYPE>::ELEMENT, BK = 128 / ELEMENT;
  static constexpr int BM = T::BM, BN = T::BN, THREADS = T::WORKERS, STAGE = T::STAGE;
  typedef lo_wgmma_ring<T> ring_t;

  /* ---- The copying warp's one thread. Lines along k come in one box, others a panel at a time. */
  template <bool ALONG_K, int EXTENT, bool ALL>
  static __device__ __forceinline__ void copy(unsigned to, const lo_cu_map &map, unsigned barrier,
                                              int outer, int k, int l) {
    constexpr int BOX = ALONG_K ? EXTENT : 64;
#pragma unroll
    for (int i = 0; i < EXTENT / BOX; i++) {
      int x = ALONG_K ? k : outer + i * BOX, y = ALONG_K ? outer : k;
      lo_box_copy<ALL ? (1 << T::CLUSTER) - 1 : 0>(to + i * LO_PANEL, &map, barrier, x, y, l);
    }
  }
  static __device__ __forceinline__ void produce(const lo_cu_boxed_gemm &p, ring_t &ring,
                                                 const lo_wgmma_place &at, int steps,
                                                 unsigned rank) {
    constexpr int SHARE = BN / T::CLUSTER; /* of B, which this block copies */
    int la = p.g.a.batch_stride ? (int)at.l : 0, lb = p.g.b.batch_stride ? (int)at.l : 0;
    int row = (int)at.row0, col = (int)at.col0 + rank * SHARE;
#pragma unroll 1
    for (int s = 0, k = at.k0; s < steps; s++, k += BK, ring.next()) {
      unsigned stage = ring.stage(), full = ring.full();
      lo_mbarrier_wait(ring.empty(), ring.parity ^ 1);
      lo_mbarrier_arrive_expect(full, T::STAGE);
      copy<!TRANS_A, BM, false>(stage, p.a, full, row, k, la);
      copy<TRANS_B, SHARE, (T::CLUSTER > 1)>(stage + T::A + rank * (SHARE * 128), p.b, full, col, k,
                                             lb);
    }
  }

  /* ---- The others. */
  sum_t acc[T::TALL][BN / 2];

  static __device__ __forceinline__ int group() {
    return (int)threadIdx.x / 128;
  }
  /* Of the warp, in the tile. */
  static __device__ __forceinline__ int first_row(int tall) {
    return (group() * T::TALL + tall) * 64 + (int)threadIdx.x / 32 % 4 * 16;
  }
  __device__ __forceinline__ void multiply(unsigned stage, int begun) {
    unsigned a = stage + group() * T::TALL * LO_PANEL;
    lo_u64 b = lo_wgmma_operand(stage + T::A, LO_PANEL);
    lo_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
      for (int i = 0; i < T::TALL; i++)
        lo_wgmma<TYPE, BN, TRANS_A, TRANS_B>::run(
            acc[i], lo_wgmma_further<!TRANS_A>(lo_wgmma_operand(a + i * LO_PANEL, LO_PANEL), k),
            lo_wgmma_further<TRANS_B>(b, k), k ? 1 : begun);
    lo_wgmma_commit();
  }
  /* A warp has read a stage. */
  static __device__ __forceinline__ void release(const ring_t &ring) {
    unsigned lane = threadIdx.x % 32;
    if (T::CLUSTER == 1 && lane == 0) lo_mbarrier_arrive(ring.empty());
    if (T::CLUSTER > 1 && lane < T::CLUSTER) lo_mbarrier_arrive_at(ring.empty(), lane);
  }
  /* beside(stage) sums what else is wanted of a stage while it is multiplied. */
  template <class Beside>
  __device__ __forceinline__ void run(ring_t &ring, int steps, Beside beside) {
    if (steps == 0)
#pragma unroll
      for (int i = 0; i < T::TALL; i++)
#pragma unroll
        for (int j = 0; j < BN / 2; j++) acc[i][j] = 0;
    ring_t last = ring;
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
      lo_mbarrier_wait(ring.full(), ring.parity);
      multiply(ring.stage(), s);
      beside(ring.stage());
      if (s) {
        lo_wgmma_wait<1>();
        release(last);
      }
      last = ring;
      ring.next();
    }
    lo_wgmma_wait<0>();
    if (steps) release(last);
  }
};

/* ---- Sums beside the product. */
/* Over k of op(A)'s rows, where these lie along m: a thread has a chunk of 8 rows in some lines of
 * each panel of its group's. */
template <class Core, class T> struct lo_wgmma_row_sums {
  float sums[T::TALL][8];
  __device__ __forceinline__ void add(const char *stage, int bf16) {
    int chunk = threadIdx.x % 8;
    const char *panels = stage + Core::group() * T::TALL * LO_PANEL;
#pragma unroll
    for (int i = 0; i < T::TALL; i++)
#pragma unroll 1
      for (int line = threadIdx.x % 128 / 8; line < Core::BK; line += 16) {
        uint4 raw = *(const uint4 *)(panels + i * LO_PANEL + line * 128 + (chunk ^ line % 8) * 16);
        const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int e = 0; e < 8; e++)
          sums[i][e] += lo_from_16((unsigned short)(words[e / 2] >> e % 2 * 16), bf16);
      }
  }
  /* To rows[warp][row] of the group. */
  __device__ __forceinline__ void store(float *rows) const {
    float *mine = rows + threadIdx.x / 32 % 4 * T::ROWS;
#pragma unroll
    for (int i = 0; i < T::TALL; i++)
#pragma unroll
      for (int e = 0; e < 8; e++) {
        float sum = sums[i][e];
        sum += __shfl_xor_sync(~0u, sum, 8);
        sum += __shfl_xor_sync(~0u, sum, 16);
        if (threadIdx.x % 32 < 8) mine[i * 64 + threadIdx.x % 8 * 8 + e] = sum;
      }
  }
};

/* Over k of B's columns of 8-bit integers: a thread has some columns. */
template <class T> struct lo_wgmma_column_sums {
  static constexpr int EACH = (T::BN + 127) / 128;
  int sums[EACH];
  __device__ __forceinline__ void add(const char *stage) {
    const int ones = 0x01010101;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      int column = threadIdx.x % 128 + 128 * i;
      if (column >= T::BN) break;
      const char *line = stage + T::A + column * 128;
#pragma unroll
      for (int chunk = 0; chunk < 8; chunk++) {
        int4 q = *(const int4 *)(line + (chunk ^ column % 8) * 16);
        sums[i] =
            __dp4a(q.x, ones, __dp4a(q.y, ones, __dp4a(q.z, ones, __dp4a(q.w, ones, sums[i]))));
      }
    }
  }
  __device__ __forceinline__ void store(int *columns) const {
#pragma unroll
    for (int i = 0; i < EACH; i++)
      if (threadIdx.x % 128 + 128 * i < T::BN) columns[threadIdx.x % 128 + 128 * i] = sums[i];
  }
};

/* ---- Sums to memory, sixteen of a lane at a time: of four times 8 columns it has two neighbours
 * in a row, and in the eighth row below. */
struct lo_wgmma_spot {
  lo_i64 l, row, col; /* the lane's upper row; the first of the 32 columns */
  const float *bias;  /* of that column on */
};

/* Four lanes with a word of each of four things: lane q gets thing q whole. */
LO_FN void lo_turn_words(unsigned (&w)[4]) {
  bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    unsigned got = __shfl_xor_sync(~0u, odd ? w[i] : w[i + 1], 1);
    if (odd)
      w[i] = got;
    else
      w[i + 1] = got;
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    unsigned got = __shfl_xor_sync(~0u, high ? w[i] : w[i + 2], 2);
    if (high)
      w[i] = got;
    else
      w[i + 2] = got;
  }
}

/* Any epilogue: lanes pair up to have a quad each, the even ones in the upper row. */
template <class Sum, class Sum4>
LO_FN void lo_wgmma_end_any(const lo_cu_gemm &p, Sum (&s)[16], const lo_wgmma_spot &at) {
  float alpha = lo_scalar_float(p.e.alpha), beta = lo_scalar_float(p.e.beta);
  bool odd = threadIdx.x & 1;
  int c = threadIdx.x % 4 / 2 * 4;
  lo_i64 row = at.row + (odd ? 8 : 0);
#pragma unroll 1
  for (int block = 0; block < 4; block++, c += 8) {
    Sum x = __shfl_xor_sync(~0u, odd ? s[0] : s[2], 1),
        y = __shfl_xor_sync(~0u, odd ? s[1] : s[3], 1);
    Sum4 quad = {odd ? x : s[0], odd ? y : s[1], odd ? s[2] : x, odd ? s[3] : y};
    if (row < p.m && at.col + c < p.n)
      lo_finish4(p.e, alpha, beta, quad, *(const float4 *)(at.bias + c), at.l, row, at.col + c,
                 lo_quad_count(p.n, at.col + c));
#pragma unroll
    for (int i = 0; i < 12; i++) s[i] = s[i + 4];
  }
}

/* The plain epilogue: what is stored, */
template <bool STRAIGHT>
LO_FN void lo_wgmma_plain(const lo_cu_plain &e, float (&s)[16], const float *bias) {
  float floor = e.activation == LO_ACT_RELU ? 0.0f : -LO_INFINITY;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    float2 b = *(const float2 *)(bias + 8 * i + threadIdx.x % 4 * 2);
#pragma unroll
    for (int j = 0; j < 4; j++)
      s[4 * i + j] = __fmul_rn(e.alpha, s[4 * i + j]) + (j % 2 ? b.y : b.x);
  }
  if (STRAIGHT)
#pragma unroll
    for (int i = 0; i < 16; i++) s[i] = lo_at_least_floor(s[i], floor);
  else
    lo_activation16(e.activation, s, e.slope);
}
/* and storing it. */
template <bool BF16>
LO_FN void lo_wgmma_store_wide(const lo_cu_gemm &p, const float (&s)[16], const lo_wgmma_spot &at) {
  const lo_cu_plain &e = p.plain;
  int q = threadIdx.x % 4;
  unsigned short *c =
      (unsigned short *)e.c + at.l * e.batch_stride + at.row * e.stride + at.col + 8 * q;
  unsigned w[2][4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    uint2 pairs = lo_to_16x4(make_float4(s[4 * i], s[4 * i + 1], s[4 * i + 2], s[4 * i + 3]), BF16);
    w[0][i] = pairs.x;
    w[1][i] = pairs.y;
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    lo_turn_words(w[h]);
    if (at.row + 8 * h < p.m && at.col + 8 * q < p.n)
      lo_store_words(c + 8 * h * e.stride, make_uint4(w[h][0], w[h][1], w[h][2], w[h][3]));
  }
}
LO_FN void lo_wgmma_store(const lo_cu_gemm &p, const float (&s)[16], const lo_wgmma_spot &at) {
  const lo_cu_plain &e = p.plain;
  int left = (int)(p.n - at.col < 32 ? p.n - at.col : 32) - threadIdx.x % 4 * 2;
  lo_i64 place = at.l * e.batch_stride + at.row * e.stride + at.col + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; i++, left -= 8, place += 8)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      if (at.row + 8 * h >= p.m) break;
      float x = s[4 * i + 2 * h], y = s[4 * i + 2 * h + 1];
      lo_i64 to = place + 8 * h * e.stride;
      if (e.type == LO_TYPE_F32 && e.vector && left > 1) {
        *(float2 *)((float *)e.c + to) = make_float2(x, y);
      } else if (e.type == LO_TYPE_F32) {
        if (left > 0) ((float *)e.c)[to] = x;
        if (left > 1) ((float *)e.c)[to + 1] = y;
      } else {
        if (left > 0) ((unsigned short *)e.c)[to] = lo_to_16(x, e.type == LO_TYPE_BF16);
        if (left > 1) ((unsigned short *)e.c)[to + 1] = lo_to_16(y, e.type == LO_TYPE_BF16);
      }
    }
}

/* Sixteens of a lane, one after the other: sums(s, i) are number i's, spot(i) where they belong. At
 * most MOST of them. Short ends are in line, others in a loop. */
template <class Core> struct lo_wgmma_ends {
  typedef typename Core::sum_t sum_t;
  template <bool BF16, int MOST, class Sums, class Spot>
  static __device__ __forceinline__ void straight(const lo_cu_gemm &p, int count, Sums sums,
                                                  Spot spot) {
#pragma unroll
    for (int i = 0; i < MOST; i++) {
      if (i >= count) break;
      float s[16];
      sums(s, i);
      lo_wgmma_spot at = spot(i);
      lo_wgmma_plain<true>(p.plain, s, at.bias);
      lo_wgmma_store_wide<BF16>(p, s, at);
    }
  }
  template <int MOST, class Sums, class Spot>
  static __device__ __forceinline__ void run(const lo_cu_gemm &p, int count, Sums sums, Spot spot) {
    const lo_cu_plain &e = p.plain;
    bool wide = (((lo_u64)e.c | (lo_u64)e.stride * 2 | (lo_u64)e.batch_stride * 2) & 15) == 0 &&
                p.n % 8 == 0 && e.type != LO_TYPE_F32;
    if constexpr (!Core::INTEGER) {
      if (e.c && wide && (e.activation == LO_ACT_IDENTITY || e.activation == LO_ACT_RELU))
        return e.type == LO_TYPE_BF16 ? straight<true, MOST>(p, count, sums, spot)
                                      : straight<false, MOST>(p, count, sums, spot);
    }
#pragma unroll 1
    for (int i = 0; i < count; i++) {
      sum_t s[16];
      sums(s, i);
      lo_wgmma_spot at = spot(i);
      if constexpr (!Core::INTEGER) {
        if (e.c) {
          lo_wgmma_plain<false>(e, s, at.bias);
          if (wide && e.type == LO_TYPE_BF16)
            lo_wgmma_store_wide<true>(p, s, at);
          else if (wide)
            lo_wgmma_store_wide<false>(p, s, at);
          else
            lo_wgmma_store(p, s, at);
          continue;
        }
      }
      lo_wgmma_end_any<sum_t, typename Core::sum4>(p, s, at);
    }
  }
};

/* ---- The product. grid: x blocks that go through the tiles, a tile CLUSTER blocks high; y parts
 * of k; z matrices. The blocks of all parts of a tile are a cluster (x then has a block for each
 * tile, z for each matrix): they lay their sums where the stages were, and each ends its share of
 * the tile, adding the parts in their order. */
template <class T, class Body>
LO_FN void lo_wgmma_tiles(const lo_cu_gemm &p, lo_wgmma_place &at, unsigned rank, Body body) {
  for (lo_i64 t = p.tile0 + blockIdx.x / T::CLUSTER; t < p.tiles_m * p.tiles_n;
       t += gridDim.x / T::CLUSTER) {
    lo_i64 tm, tn;
    lo_tile_at(t, p.tiles_m, p.tiles_n, tm, tn);
    at.row0 = (tm * T::CLUSTER + rank) * T::BM;
    at.col0 = tn * T::BN;
    for (at.l = blockIdx.z; at.l < p.batch; at.l += gridDim.z) body();
  }
}

template <class Core, class T, bool TRANS_A> struct lo_wgmma_worker {
  typedef typename Core::sum_t sum_t;
  typedef typename Core::sum4 sum4;
  const lo_cu_gemm &p;
  const lo_wgmma_place &at;
  char *memory;
  float *bias; /* of the group */
  int *columns;
  float *rows;
  Core core;

  __device__ __forceinline__ lo_wgmma_worker(const lo_cu_gemm &p_, const lo_wgmma_place &at_,
                                             char *memory_)
      : p(p_), at(at_), memory(memory_),
        bias((float *)(memory_ + T::STAGE * T::STAGES + threadIdx.x / 128 * T::SIDE)),
        columns((int *)bias + T::BN), rows(bias + 2 * T::BN) {}

  __device__ __forceinline__ void stage_bias() const {
    for (int i = threadIdx.x % 128; i < T::BN; i += 128)
      bias[i] = p.e.bias.p ? at.col0 + i < p.n ? lo_load(p.e.bias, at.col0 + i) : 0.0f : -0.0f;
  }

  __device__ __forceinline__ void multiply(lo_wgmma_ring<T> &ring, int steps, bool sum) {
    if constexpr (Core::INTEGER) {
      lo_wgmma_column_sums<T> side = {};
      core.run(ring, steps, [&](unsigned stage) {
        if (p.e.zero_a.p) side.add(memory + (stage - ring.base));
      });
      if (p.e.zero_a.p) side.store(columns);
    } else if constexpr (TRANS_A) {
      lo_wgmma_row_sums<Core, T> side = {};
      core.run(ring, steps, [&](unsigned stage) {
        if (sum) side.add(memory + (stage - ring.base), p.bf16);
      });
      if (sum) side.store(rows);
    } else {
      core.run(ring, steps, [](unsigned) {});
    }
  }

  /* (a - zero) b: by each part of k for itself. */
  __device__ __forceinline__ void shift() {
    if constexpr (Core::INTEGER) {
      if (!p.e.zero_a.p) return;
#pragma unroll
      for (int i = 0; i < T::TALL; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          lo_i64 row = at.row0 + core.first_row(i) + threadIdx.x % 32 / 4 + 8 * h;
          int zero = row < p.m ? ((const int *)p.e.zero_a.p)[lo_of_row(p.e.zero_a, row)] : 0;
#pragma unroll
          for (int j = 0; j < T::BN / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
              core.acc[i][4 * j + 2 * h + e] -= zero * columns[8 * j + threadIdx.x % 4 * 2 + e];
        }
    }
  }

  /* Where number i of a warp's sixteens belongs. */
  __device__ __forceinline__ lo_wgmma_spot spot(int warp, int i) const {
    int tall = i / (T::BN / 32), column = i % (T::BN / 32) * 32;
    int row = (warp / 4 * T::TALL + tall) * 64 + warp % 4 * 16 + threadIdx.x % 32 / 4;
    return {at.l, at.row0 + row, at.col0 + column, bias + column};
  }
  __device__ __forceinline__ void end() const {
    lo_wgmma_ends<Core>::template run<T::SIXTEENS>(
        p, T::SIXTEENS,
        [&](sum_t(&s)[16], int number) {
#pragma unroll
          for (int i = 0; i < T::SIXTEENS; i++)
            if (i == number)
#pragma unroll
              for (int e = 0; e < 16; e++)
                s[e] = core.acc[i / (T::BN / 32)][i % (T::BN / 32) * 16 + e];
        },
        [&](int number) { return spot(threadIdx.x / 32, number); });
  }

  /* Parts of k: a thread's sums lie in quads, those of all threads side by side. Each block of the
   * cluster ends every `split`th of the tile's sixteens. */
  __device__ __forceinline__ void lay_down() const {
#pragma unroll
    for (int i = 0; i < T::TALL; i++)
#pragma unroll
      for (int j = 0; j < T::BN / 8; j++) {
        const sum_t *s = &core.acc[i][4 * j];
        ((sum4 *)memory)[(i * (T::BN / 8) + j) * T::WORKERS + threadIdx.x] =
            sum4{s[0], s[1], s[2], s[3]};
      }
  }
  __device__ __forceinline__ void add_parts(sum_t (&s)[16], int warp, int i) const {
    unsigned place = (unsigned)__cvta_generic_to_shared(memory) +
                     16 * (i * 4 * T::WORKERS + warp * 32 + threadIdx.x % 32);
#pragma unroll
    for (int e = 0; e < 16; e++) s[e] = 0;
#pragma unroll 1
    for (int part = 0; part < p.split; part++) {
      sum4 q[4];
#pragma unroll
      for (int j = 0; j < 4; j++) lo_cluster_load(q[j], place + j * 16 * T::WORKERS, part);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        s[4 * j] += q[j].x, s[4 * j + 1] += q[j].y, s[4 * j + 2] += q[j].z, s[4 * j + 3] += q[j].w;
      }
    }
  }
  __device__ __forceinline__ void end_parts() const {
    constexpr int WARPS = T::WORKERS / 32, ALL = WARPS * T::SIXTEENS;
    int first = blockIdx.y + threadIdx.x / 32 * p.split, step = WARPS * p.split;
    int count = first < ALL ? (ALL - first + step - 1) / step : 0;
    lo_wgmma_ends<Core>::template run<(T::SIXTEENS + 1) / 2>(
        p, count,
        [&](sum_t(&s)[16], int number) {
          int u = first + number * step;
          add_parts(s, u / T::SIXTEENS, u % T::SIXTEENS);
        },
        [&](int number) {
          int u = first + number * step;
          return spot(u / T::SIXTEENS, u % T::SIXTEENS);
        });
  }
  /* The rows' sums: over the warps, then over the parts, by the first block. */
  __device__ __forceinline__ void end_rows() const {
    if (blockIdx.y) return;
    float beta = lo_scalar_float(p.e.beta);
    for (int r = threadIdx.x % 128; r < T::ROWS; r += 128) {
      lo_i64 row = at.row0 + Core::group() * T::ROWS + r;
      float sum = 0;
      for (int part = 0; part < p.split; part++)
        for (int warp = 0; warp < 4; warp++) {
          float *from = rows + warp * T::ROWS + r;
          sum += p.split == 1 ? *from
                              : lo_cluster_word((unsigned)__cvta_generic_to_shared(from), part);
        }
      if (row < p.m) lo_finish_row_sum(p.e, beta, row, sum);
    }
  }

  __device__ __forceinline__ void tile(lo_wgmma_ring<T> &ring, int steps) {
    bool sum = TRANS_A && p.e.row_sum.p && at.col0 == 0;
    lo_group_sync(); /* the tile before has read its columns */
    stage_bias();
    multiply(ring, steps, sum);
    lo_group_sync();
    shift();
    if (p.split > 1) {
      lo_workers<T>::sync(); /* all groups have read the stages */
      lay_down();
      lo_cluster_sync();
      end_parts();
    } else {
      end();
    }
    if (sum) end_rows();
  }
};

template <class Core, class T, bool TRANS_A> LO_FN void lo_gemm_wgmma(const lo_cu_boxed_gemm &p) {
  extern __shared__ __align__(1024) char wgmma_memory[];
  const lo_cu_gemm &g = p.g;
  unsigned base = (unsigned)__cvta_generic_to_shared(wgmma_memory);
  lo_wgmma_ring<T> ring(base, base + T::BYTES - T::STAGES * 16);
  unsigned rank = T::CLUSTER == 1 ? 0 : lo_cluster_rank();
  bool copies = threadIdx.x / 32 == T::WORKERS / 32;
  if (copies && lo_elect()) {
    if (g.k) {
      lo_box_prefetch(&p.a);
      lo_box_prefetch(&p.b);
    }
    ring.init();
  }
  if (T::CLUSTER > 1)
    lo_cluster_sync();
  else
    __syncthreads();
  lo_i64 k0 = blockIdx.y * g.slice, k_count = g.k - k0 < g.slice ? g.k - k0 : g.slice;
  lo_wgmma_place at;
  at.k0 = (int)k0;
  /* alpha = 0 does not read the operands */
  int steps = lo_scalar_float(g.e.alpha) == 0.0f ? 0 : (int)((k_count + Core::BK - 1) / Core::BK);
  if (!copies && threadIdx.x < T::WORKERS) {
    if (T::HANDS_ON) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    lo_wgmma_worker<Core, T, TRANS_A> worker(g, at, wgmma_memory);
    lo_wgmma_tiles<T>(g, at, rank, [&]() { worker.tile(ring, steps); });
  } else {
    if (T::HANDS_ON) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (copies && lo_elect())
      lo_wgmma_tiles<T>(g, at, rank, [&]() { Core::produce(p, ring, at, steps, rank); });
    __syncwarp();
    if (T::CLUSTER == 1 && g.split > 1) lo_cluster_sync(); /* with lay_down() */
  }
  /* Nobody leaves while others copy into its memory, arrive or read there. */
  if (T::CLUSTER > 1 || g.split > 1) lo_cluster_sync();
}
#endif

#endif

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

#include "backends/cuda/gemm_wgmma_end.cuh"
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
  /* Of a group: its columns, its rows' sums by each warp, and where each turns what it stores. */
  static constexpr int ROWS = 64 * TALL, COLUMNS = sizeof(lo_tile_columns<BN, true>);
  static constexpr int TURNS = COLUMNS + ROWS * 4 * 4, SIDE = TURNS + 4 * 2 * 1024;
  static_assert(COLUMNS % 16 == 0, "alignment");
  static constexpr int BYTES = STAGE * STAGES + SIDE * GROUPS + 16 + STAGES * 16;
  /* A lane's sums in sixteens: 32 columns of 16 rows of a warp. */
  static constexpr int SIXTEENS = TALL * BN / 32;
  static_assert(BM * BN * 4 <= STAGE * STAGES, "sums where the stages were");
};

#if __CUDA_ARCH_FEAT_SM90_ALL
/* OUT, OUT2: types of C whose short ends are in line, of OUT2 without activations. */
template <int TYPE> struct lo_wgmma_type {
  static constexpr bool INTEGER = false, SCALED = TYPE >= LO_WGMMA_S8;
  static constexpr int ELEMENT = TYPE == LO_WGMMA_TF32 ? 4 : SCALED ? 1 : 2;
  static constexpr int OUT = SCALED || TYPE == LO_WGMMA_BF16 ? LO_TYPE_BF16
                             : TYPE == LO_WGMMA_TF32         ? LO_TYPE_F32
                                                             : LO_TYPE_F16;
  static constexpr int OUT2 = SCALED ? LO_TYPE_F16 : 0;
  typedef float sum;
  typedef float4 sum4;
};
template <> struct lo_wgmma_type<LO_WGMMA_S8> {
  static constexpr bool INTEGER = true, SCALED = true;
  static constexpr int ELEMENT = 1, OUT = LO_TYPE_I8, OUT2 = 0;
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
  /* By a warp. */
  __device__ __forceinline__ void init() const {
    int s = threadIdx.x % 32;
    if (s < T::STAGES) {
      lo_mbarrier_init(barriers + s * 16, 1);
      lo_mbarrier_init(barriers + s * 16 + 8, T::CLUSTER * T::GROUPS * 4);
    }
    lo_mbarrier_publish();
    __syncwarp();
  }
};

/* Named barriers; 0 is __syncthreads. */
enum { LO_WGMMA_READY = 1, LO_WGMMA_GROUP };
template <int THREADS> LO_FN void lo_meet(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}
LO_FN void lo_group_sync() {
  lo_meet<128>(LO_WGMMA_GROUP + threadIdx.x / 128);
}
template <int BARRIER, int THREADS> LO_FN void lo_arrive() {
  asm volatile("bar.arrive %0, %1;" ::"n"(BARRIER), "n"(THREADS) : "memory");
}

/* Where a block is: its tile, matrix and part of k. */
struct lo_wgmma_place {
  lo_i64 row0, col0, l;
  int k0;
};

/* PROMOTES: sums of 8-bit floats, of which the tensor cores keep some 14 bits, are taken over into
 * f32 each step, 128 of k. */
template <int TYPE, class T, bool TRANS_A, bool TRANS_B, bool PROMOTES = false>
struct lo_wgmma_core {
  typedef lo_wgmma_type<TYPE> type;
  typedef typename type::sum sum_t;
  typedef typename type::sum4 sum4;
  static constexpr bool INTEGER = type::INTEGER, SCALED = type::SCALED;
  static constexpr bool LEAN = PROMOTES; /* registers are short: fewer ends in line */
  static constexpr int OUT = type::OUT, OUT2 = type::OUT2;
  static constexpr int ELEMENT = type::ELEMENT, BK = 128 / ELEMENT;
  static constexpr int BM = T::BM, BN = T::BN, THREADS = T::WORKERS, STAGE = T::STAGE;
  static constexpr int TALL = T::TALL;
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
      LO_DELAY(EMPTY);
      lo_mbarrier_wait(ring.empty(), ring.parity ^ 1);
      LO_DELAY(COPY);
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
  /* The same into other registers, 64 x PART outputs at a time, and from there into the sums. While
   * a group adds another one's products run. */
  static constexpr int PART = BN < 128 ? BN : 128;
  __device__ __forceinline__ void multiply_and_add(unsigned stage) {
#pragma unroll
    for (int i = 0; i < T::TALL; i++)
#pragma unroll
      for (int h = 0; h < BN / PART; h++) {
        sum_t part[PART / 2];
        lo_u64 a = lo_wgmma_operand(stage + (group() * T::TALL + i) * LO_PANEL, LO_PANEL);
        lo_u64 b = lo_wgmma_operand(stage + T::A + h * PART * 128, LO_PANEL);
        lo_wgmma_fence();
#pragma unroll
        for (int k = 0; k < 4; k++)
          lo_wgmma<TYPE, PART, TRANS_A, TRANS_B>::run(part, lo_wgmma_further<!TRANS_A>(a, k),
                                                      lo_wgmma_further<TRANS_B>(b, k), k);
        lo_wgmma_commit();
        lo_wgmma_wait<0>();
#pragma unroll
        for (int j = 0; j < PART / 2; j++) acc[i][h * (PART / 2) + j] += part[j];
      }
  }
  /* A warp has read a stage. */
  static __device__ __forceinline__ void release(const ring_t &ring) {
    LO_DELAY(RELEASE);
    unsigned lane = threadIdx.x % 32;
    if (T::CLUSTER == 1 && lane == 0) lo_mbarrier_arrive(ring.empty());
    if (T::CLUSTER > 1 && lane < T::CLUSTER) lo_mbarrier_arrive_at(ring.empty(), lane);
  }
  /* beside(stage) sums what else is wanted of a stage while it is multiplied. */
  template <class Beside>
  __device__ __forceinline__ void run(ring_t &ring, int steps, Beside beside) {
    if (PROMOTES || steps == 0)
#pragma unroll
      for (int i = 0; i < T::TALL; i++)
#pragma unroll
        for (int j = 0; j < BN / 2; j++) acc[i][j] = 0;
    if constexpr (PROMOTES) {
#pragma unroll 1
      for (; steps; steps--, ring.next()) {
        LO_DELAY(FULL);
        lo_mbarrier_wait(ring.full(), ring.parity);
        LO_DELAY(MULTIPLY);
        multiply_and_add(ring.stage());
        release(ring);
      }
      return;
    }
    ring_t last = ring;
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
      LO_DELAY(FULL);
      lo_mbarrier_wait(ring.full(), ring.parity);
      LO_DELAY(MULTIPLY);
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

/* ---- The product. grid: x blocks that go through the tiles, a tile CLUSTER blocks high; y parts
 * of k; z matrices. The blocks of all parts of a tile are a cluster (x then has a block for each
 * tile, z for each matrix): each ends its share of the tile, for which all others send it their
 * sums. */
template <class T, class Body>
LO_FN void lo_wgmma_tiles(const lo_cu_gemm &p, lo_wgmma_place &at, unsigned rank, Body body) {
  for (lo_i64 t = p.tile0 + blockIdx.x / T::CLUSTER; t < p.tile1; t += gridDim.x / T::CLUSTER) {
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
  typedef lo_tile_columns<T::BN, Core::INTEGER, Core::SCALED> columns_t;
  const lo_cu_gemm &p;
  const lo_wgmma_place &at;
  char *memory;
  columns_t &columns; /* of the group */
  float *rows;
  Core core;

  __device__ __forceinline__ lo_wgmma_worker(const lo_cu_gemm &p_, const lo_wgmma_place &at_,
                                             char *memory_)
      : p(p_), at(at_), memory(memory_),
        columns(*(columns_t *)(memory_ + T::STAGE * T::STAGES + threadIdx.x / 128 * T::SIDE)),
        rows((float *)((char *)&columns + T::COLUMNS)) {}

  __device__ __forceinline__ void multiply(lo_wgmma_ring<T> &ring, int steps, bool sum) {
    if constexpr (Core::INTEGER) {
      lo_wgmma_column_sums<T> side = {};
      core.run(ring, steps, [&](unsigned stage) {
        if (p.e.zero_a.p) side.add(memory + (stage - ring.base));
      });
      if (p.e.zero_a.p) side.store(columns.sums);
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
          int zero = row < p.m ? ((const int *)p.e.zero_a.p)[p.e.zero_a.one ? 0 : row] : 0;
#pragma unroll
          for (int j = 0; j < T::BN / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
              core.acc[i][4 * j + 2 * h + e] -=
                  zero * columns.sums[8 * j + threadIdx.x % 4 * 2 + e];
        }
    }
  }

  /* Parts of k: of a tile's sixteens each block ends every `split`th, its own sums in registers and
   * the others' where its stages were, 2 KB each, in the order of the parts. */
  static constexpr int ALL = T::WORKERS / 32 * T::SIXTEENS;
  static_assert((ALL + 7) * 2048 <= T::STAGE * T::STAGES, "sums where the stages were");
  __device__ __forceinline__ unsigned number_of(int i) const {
    return threadIdx.x / 32 * T::SIXTEENS + i;
  }
  __device__ __forceinline__ unsigned owner_of(int i) const {
    return number_of(i) % (unsigned)p.split;
  }
  __device__ __forceinline__ int place_of(int i, int part) const {
    return (number_of(i) / (unsigned)p.split * p.split + part) * 2048 + threadIdx.x % 32 * 16;
  }
  /* A barrier in shared memory that counts the bytes which come. */
  static constexpr int CAME = T::STAGE * T::STAGES + T::SIDE * T::GROUPS;
  static __device__ __forceinline__ void expect_parts(unsigned base, int split) {
    int mine = (ALL - (int)blockIdx.y + split - 1) / split;
    lo_mbarrier_init(base + CAME, 1);
    lo_mbarrier_arrive_expect(base + CAME, mine * (split - 1) * 2048);
  }
  __device__ __forceinline__ void exchange() const {
    unsigned base = (unsigned)__cvta_generic_to_shared(memory);
#pragma unroll
    for (int i = 0; i < T::SIXTEENS; i++) {
      unsigned owner = owner_of(i);
      if (owner == blockIdx.y) continue;
      unsigned to = lo_cluster_place(base + place_of(i, blockIdx.y), owner);
      unsigned counter = lo_cluster_place(base + CAME, owner);
      const sum_t *s = &core.acc[i / (T::BN / 32)][i % (T::BN / 32) * 16];
#pragma unroll
      for (int j = 0; j < 4; j++)
        lo_cluster_send(to + j * 512, counter, s[4 * j], s[4 * j + 1], s[4 * j + 2], s[4 * j + 3]);
    }
    LO_DELAY(CAME);
    lo_mbarrier_wait(base + CAME, 0);
  }
  /* All parts of sixteen i, of which s is this block's. */
  __device__ __forceinline__ void add_parts(sum_t (&s)[16], int i) const {
    sum_t sum[16] = {};
#pragma unroll 1
    for (int part = 0; part < p.split; part++) {
      sum4 q[4];
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (part == (int)blockIdx.y)
          q[j] = {s[4 * j], s[4 * j + 1], s[4 * j + 2], s[4 * j + 3]};
        else
          q[j] = *(const sum4 *)(memory + place_of(i, part) + j * 512);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        sum[4 * j] += q[j].x, sum[4 * j + 1] += q[j].y;
        sum[4 * j + 2] += q[j].z, sum[4 * j + 3] += q[j].w;
      }
    }
#pragma unroll
    for (int e = 0; e < 16; e++) s[e] = sum[e];
  }

  template <bool PARTS> __device__ __forceinline__ void end() const {
    unsigned turns = (unsigned)__cvta_generic_to_shared((char *)&columns + T::TURNS);
    lo_wgmma_ends<Core, columns_t, PARTS> ends = {p,
                                                  lo_ending_of(p.e, at.l, false),
                                                  columns,
                                                  turns + threadIdx.x / 32 % 4 * 2 * LO_WGMMA_TURN,
                                                  at.row0 + core.first_row(0) +
                                                      threadIdx.x % 32 / 4,
                                                  at.col0,
                                                  lo_left(p.n, at.col0, T::BN)};
    ends.run([&](sum_t(&s)[16], int number) {
#pragma unroll
      for (int i = 0; i < T::SIXTEENS; i++)
        if (i == number)
#pragma unroll
          for (int e = 0; e < 16; e++) s[e] = core.acc[i / (T::BN / 32)][i % (T::BN / 32) * 16 + e];
      if (!PARTS) return true;
      if (owner_of(number) != blockIdx.y) return false;
      add_parts(s, number);
      return true;
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
    LO_DELAY(GROUP);
    lo_group_sync(); /* the tile before has read its columns */
    LO_DELAY(COLUMNS);
    columns.stage(p.e, at.col0, lo_left(p.n, at.col0, T::BN), threadIdx.x % 128, 128);
    multiply(ring, steps, sum);
    LO_DELAY(CLUSTER);
    if (p.split > 1) lo_cluster_arrive_relaxed(); /* the stages are read */
    LO_DELAY(GROUP);
    lo_group_sync();
    shift();
    if (p.split > 1) {
      lo_cluster_wait();
      LO_DELAY(SEND);
      exchange();
      LO_DELAY(END);
      end<true>();
    } else {
      LO_DELAY(END);
      end<false>();
    }
    LO_DELAY(CLUSTER);
    if (TRANS_A && p.split > 1 && p.e.row_sum.p) lo_cluster_sync(); /* rows are stored */
    if (sum) end_rows();
  }
};

template <class Core, class T, bool TRANS_A> LO_FN void lo_gemm_wgmma(const lo_cu_boxed_gemm &p) {
  extern __shared__ __align__(1024) char wgmma_memory[];
  constexpr int STARTERS = T::WORKERS + 32;
  const lo_cu_gemm &g = p.g;
  unsigned base = (unsigned)__cvta_generic_to_shared(wgmma_memory);
  lo_wgmma_ring<T> ring(base, base + T::BYTES - T::STAGES * 16);
  unsigned rank = T::CLUSTER == 1 ? 0 : lo_cluster_rank();
  bool copies = threadIdx.x / 32 == T::WORKERS / 32;
  if (threadIdx.x == T::WORKERS && g.k) {
    lo_box_prefetch(&p.a);
    lo_box_prefetch(&p.b);
  }
  LO_DELAY(START);
  if (threadIdx.x == T::WORKERS && g.split > 1)
    lo_wgmma_worker<Core, T, TRANS_A>::expect_parts(base, g.split);
  if (copies) ring.init();
  if (T::CLUSTER > 1) lo_cluster_sync();
  LO_DELAY(START);
  lo_follow();
  lo_i64 k0 = blockIdx.y * g.slice, k_count = g.k - k0 < g.slice ? g.k - k0 : g.slice;
  lo_wgmma_place at;
  at.k0 = (int)k0;
  /* alpha = 0 does not read the operands */
  int steps = lo_scalar_float(g.e.alpha) == 0.0f ? 0 : (int)(k_count + Core::BK - 1) / Core::BK;
  if (threadIdx.x < T::WORKERS) {
    if (T::HANDS_ON) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    if (T::CLUSTER == 1) lo_meet<STARTERS>(LO_WGMMA_READY);
    lo_wgmma_worker<Core, T, TRANS_A> worker(g, at, wgmma_memory);
    lo_wgmma_tiles<T>(
        g, at, rank, [&]() __attribute__((always_inline)) { worker.tile(ring, steps); });
  } else {
    if (T::HANDS_ON) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    /* It need not wait for the others, nor they for its first copies. */
    if (copies && T::CLUSTER == 1) lo_arrive<LO_WGMMA_READY, STARTERS>();
    if (copies && lo_elect()) {
      lo_wgmma_tiles<T>(g, at, rank, [&]() { Core::produce(p, ring, at, steps, rank); });
      lo_lead();
    }
    __syncwarp();
  }
  LO_DELAY(LEAVE);
  /* Nobody leaves while others copy into its memory, arrive or read there. */
  if (T::CLUSTER > 1 || (TRANS_A && g.split > 1 && g.e.row_sum.p)) lo_cluster_sync();
}
#endif

#endif

/* Hopper's main loop: one warp has the tiles copied by boxes (TMA) into a ring of stages, the
 * others' tensor cores (wgmma) read them there.
 *
 *   memory -> ring of stages -> sums in registers -> epilogue
 *
 * The blocks of a cluster lie below each other: they share B, of which each copies a part to all.
 * A block goes on to its next tile while its last outputs are on their way to memory: the copying
 * warp runs ahead as far as the ring allows, and large tiles leave by boxes too. */
#ifndef LO_CUDA_GEMM_WGMMA_CUH
#define LO_CUDA_GEMM_WGMMA_CUH

#include "backends/cuda/gemm_wgmma_end.cuh"
#include "backends/cuda/main_loop.cuh"
#include "backends/cuda/tma.cuh"
#include "backends/cuda/wgmma.cuh"

/* Where a thread's share of the registers is too small, the copying warp's whole group hands on
 * what it does not need. */
template <int GROUPS, int RESIDENT> struct lo_wgmma_registers {
  static constexpr bool HANDS_ON = GROUPS * RESIDENT > 1;
  static constexpr int THREADS = 128 * GROUPS + (HANDS_ON ? 128 : 32);
  /* Registers of a thread at first, rounded as the launch rounds them; then of one that copies, and
   * of the others. */
  static constexpr int GIVEN = 64 * 1024 / (128 * (GROUPS + 1)) / RESIDENT / 8 * 8;
  static constexpr int LEFT = 40, EACH = (GIVEN * (GROUPS + 1) - LEFT) / GROUPS / 8 * 8;
  static constexpr int MORE = EACH < 232 ? EACH : 232;
#if __CUDA_ARCH_FEAT_SM90_ALL
  static __device__ __forceinline__ void take() {
    if (HANDS_ON) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MORE));
  }
  static __device__ __forceinline__ void give() {
    if (HANDS_ON) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LEFT));
  }
#endif
};

/* A block's BM x BN outputs, in steps of 128 bytes of k: GROUPS of four warps, each with TALL times
 * 64 rows. CLUSTER blocks share B. */
template <int GROUPS_, int TALL_, int BN_, int STAGES_, int CLUSTER_> struct lo_wgmma_tile {
  static constexpr int GROUPS = GROUPS_, TALL = TALL_, BN = BN_, STAGES = STAGES_;
  static constexpr int CLUSTER = CLUSTER_, BM = 64 * TALL * GROUPS;
  static constexpr bool WIDE = LO_CU_WGMMA_WIDE(TALL, BN);
  static constexpr int WORKERS = 128 * GROUPS, READERS = CLUSTER * GROUPS * 4; /* warps */
  static constexpr int A = BM * 128, STAGE = (BM + BN) * 128, ROWS = 64 * TALL;
  /* Behind the stages: where each warp turns what it stores, or has two boxes of it; the columns,
   * each group's own or, to save room, the block's; a group's sums beside the product, by each warp
   * of rows; a counter; the ring's barriers. */
  template <bool SCALED> using columns_t = lo_tile_columns<BN, SCALED, SCALED, false>;
  template <bool SCALED> static constexpr bool SHARES = WIDE &&SCALED;
  static constexpr int TURN = WIDE ? 4096 : 2048, BOXES = STAGE * STAGES;
  static constexpr int COLUMNS = BOXES + WORKERS / 32 * TURN;
  static constexpr int SIDES = COLUMNS + GROUPS * sizeof(columns_t<!WIDE>);
  static constexpr int SIDE = ROWS * 4 > BN ? ROWS * 4 * 4 : BN * 4;
  static constexpr int COUNTER = SIDES + (WIDE ? 0 : GROUPS * SIDE), BARRIERS = COUNTER + 16;
  static constexpr int BYTES = BARRIERS + STAGES * 16;
  static_assert(sizeof(columns_t<true>) <= SIDES - COLUMNS && SIDES % 16 == 0, "room");
  static_assert(!WIDE || SIDE <= TURN / 2, "room");
  static constexpr int RESIDENT = 2 * (BYTES + 1024) <= 228 * 1024 ? 2 : 1; /* blocks on an SM */
  typedef lo_wgmma_registers<GROUPS, RESIDENT> registers;
  static constexpr int THREADS = registers::THREADS;
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

/* One for all lanes of a warp, and for the compiler to know, who keeps it out of their registers.
 */
template <class Int> LO_FN Int lo_uniform(Int x) {
  return __shfl_sync(~0u, x, 0);
}

/* The ring: stage `at`, in its round's parity. Each stage has a barrier that it is full, and one
 * that it is empty: all warps of the cluster that read it, or a part that was copied from there,
 * are done. */
template <class T> struct lo_wgmma_ring {
  unsigned base;
  int at;
  unsigned parity;
  __device__ __forceinline__ lo_wgmma_ring(unsigned memory) : base(memory), at(0), parity(0) {}
  __device__ __forceinline__ unsigned stage() const { return base + at * T::STAGE; }
  __device__ __forceinline__ unsigned full() const { return base + T::BARRIERS + at * 16; }
  __device__ __forceinline__ unsigned empty() const { return full() + 8; }
  __device__ __forceinline__ void next() {
    if (++at < T::STAGES) return;
    at = 0;
    parity ^= 1;
  }
  /* Those that others read. */
  __device__ __forceinline__ void skip(int steps) {
    at += steps;
    parity ^= at / T::STAGES & 1;
    at %= T::STAGES;
  }
  /* A warp has read the stage. */
  __device__ __forceinline__ void release() const {
    LO_DELAY(RELEASE);
    unsigned lane = threadIdx.x % 32;
    if (T::CLUSTER == 1 && lane == 0) lo_mbarrier_arrive(empty());
    if (T::CLUSTER > 1 && lane < T::CLUSTER) lo_mbarrier_arrive_at(empty(), lane);
  }
  __device__ __forceinline__ void make_uniform() {
    base = lo_uniform(base);
    at = lo_uniform(at);
    parity = lo_uniform(parity);
  }
  /* By a warp, of which one thread does it: addresses by lane would come one after the other. */
  __device__ __forceinline__ void init() const {
    if (lo_elect()) {
#pragma unroll
      for (int s = 0; s < T::STAGES; s++) {
        lo_mbarrier_init(base + T::BARRIERS + s * 16, 1);
        lo_mbarrier_init(base + T::BARRIERS + s * 16 + 8, T::READERS);
      }
      lo_mbarrier_publish();
    }
    __syncwarp();
  }
};

/* Named barriers; 0 is __syncthreads. */
enum { LO_WGMMA_READY = 1, LO_WGMMA_SHARE, LO_WGMMA_GROUP };
template <int THREADS> LO_FN void lo_meet(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}
LO_FN void lo_group_sync() {
  lo_meet<128>(LO_WGMMA_GROUP + threadIdx.x / 128);
}
template <int THREADS> LO_FN void lo_arrive(int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}

/* Where a block is: its tile and matrix. Boxes have coordinates of 32 bits. */
struct lo_wgmma_place {
  int row0, col0, l;
};

/* A step's products, which run on; beside(stage) sums what else is wanted of it meanwhile. */
template <class Core, class Ring, class Beside>
LO_FN void lo_wgmma_step(Core &core, const Ring &ring, bool begun, Beside beside) {
  LO_DELAY(FULL);
  lo_mbarrier_wait(ring.full(), ring.parity);
  LO_DELAY(MULTIPLY);
  core.multiply(ring.stage(), begun);
  beside(ring.stage());
}
/* Steps s ... steps - 1, of which the one before s, in stage `last`, still runs. */
template <class Core, class Ring, class Beside>
LO_FN void lo_wgmma_steps(Core &core, Ring &ring, Ring last, int s, int steps, Beside beside) {
#pragma unroll 1
  for (; s < steps; s++) {
    lo_wgmma_step(core, ring, s, beside);
    if (s) {
      lo_wgmma_wait<1>();
      last.release();
    }
    last = ring;
    ring.next();
  }
  lo_wgmma_wait<0>();
  if (steps) last.release();
}

/* PROMOTES: sums of 8-bit floats, of which the tensor cores keep some 14 bits, are taken over into
 * f32 each step, 128 of k. */
template <int TYPE, class T, bool TRANS_A, bool TRANS_B, bool PROMOTES = false>
struct lo_wgmma_core {
  typedef lo_wgmma_type<TYPE> type;
  typedef typename type::sum sum_t;
  typedef typename type::sum4 sum4;
  static constexpr bool INTEGER = type::INTEGER, SCALED = type::SCALED;
  static constexpr bool LEAN = PROMOTES && T::WIDE; /* registers are short: fewer ends in line */
  static constexpr int OUT = type::OUT, OUT2 = type::OUT2;
  static constexpr int ELEMENT = type::ELEMENT, BK = 128 / ELEMENT;
  static constexpr int BM = T::BM, BN = T::BN, THREADS = T::WORKERS, STAGE = T::STAGE;
  static constexpr int TALL = T::TALL;
  typedef lo_wgmma_ring<T> ring_t;

  /* Of the block's part of k. The launch before is waited for here, with all that does not depend
   * on it done. */
  static __device__ __forceinline__ int steps(const lo_cu_gemm &p) {
    lo_i64 left = p.k - blockIdx.y * p.slice, count = left < p.slice ? left : p.slice;
    int steps = (int)((unsigned)(count + BK - 1) / BK);
    lo_follow();
    /* alpha = 0 does not read the operands */
    return lo_scalar_float(p.e.alpha) == 0.0f ? 0 : steps;
  }

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
                                                 const lo_wgmma_place &at, int k0, int steps,
                                                 unsigned rank) {
    constexpr int SHARE = BN / T::CLUSTER; /* of B, which this block copies */
    int row = at.row0, col = at.col0 + (int)rank * SHARE;
    int la = p.g.a.batch_stride ? at.l : 0, lb = p.g.b.batch_stride ? at.l : 0;
#pragma unroll 1
    for (int s = 0, k = k0; s < steps; s++, k += BK, ring.next()) {
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

  int group;
  /* Where there is no step the sums stay 0. */
  __device__ __forceinline__ lo_wgmma_core() : group(lo_uniform((int)threadIdx.x / 128)) {
    clear();
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < T::TALL; i++)
#pragma unroll
      for (int j = 0; j < BN / 2; j++) acc[i][j] = 0;
  }
  /* Of the warp, in the tile. */
  __device__ __forceinline__ int first_row(int tall, int thread) const {
    return (group * T::TALL + tall) * 64 + thread / 32 % 4 * 16;
  }
  __device__ __forceinline__ void multiply(unsigned stage, bool begun) {
    unsigned a = stage + group * T::TALL * LO_PANEL;
    lo_u64 b = lo_wgmma_operand(stage + T::A, LO_PANEL);
    lo_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
      for (int i = 0; i < T::TALL; i++)
        lo_wgmma<TYPE, BN, TRANS_A, TRANS_B>::run(
            acc[i], lo_wgmma_further<!TRANS_A>(lo_wgmma_operand(a + i * LO_PANEL, LO_PANEL), k),
            lo_wgmma_further<TRANS_B>(b, k), k || begun);
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
        lo_u64 a = lo_wgmma_operand(stage + (group * T::TALL + i) * LO_PANEL, LO_PANEL);
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
  /* prepare() gets what the end needs: beside the first step, but where blocks have one tile and
   * code that is fetched for the first time counts for more. */
  template <class Beside, class Prepare>
  __device__ __forceinline__ void run(ring_t &ring, int steps, Beside beside, Prepare prepare) {
    constexpr bool BESIDE = T::WIDE && !PROMOTES;
    int s = 0;
    if (!BESIDE) prepare();
    ring.make_uniform();
    steps = lo_uniform(steps);
    if constexpr (PROMOTES) {
      clear();
#pragma unroll 1
      for (; s < steps; s++, ring.next()) {
        LO_DELAY(FULL);
        lo_mbarrier_wait(ring.full(), ring.parity);
        LO_DELAY(MULTIPLY);
        multiply_and_add(ring.stage());
        ring.release();
      }
      return;
    }
    ring_t last = ring;
    if (BESIDE) {
      if (steps) lo_wgmma_step(*this, ring, false, beside);
      prepare();
      if (!steps) return;
      s = 1;
      ring.next();
    }
    lo_wgmma_steps(*this, ring, last, s, steps, beside);
  }
};

/* ---- Sums beside the product. */
/* Over k of op(A)'s rows, where these lie along m: a thread has a chunk of 8 rows in some lines of
 * each panel of its group's. */
template <class Core, class T> struct lo_wgmma_row_sums {
  float sums[T::TALL][8];
  __device__ __forceinline__ void add(const char *stage, int group, int bf16) {
    int chunk = threadIdx.x % 8;
    const char *panels = stage + group * T::TALL * LO_PANEL;
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
template <class T> struct lo_wgmma_walk {
  const lo_cu_gemm &p;
  unsigned rank, tile, l; /* the next one */
  __device__ __forceinline__ lo_wgmma_walk(const lo_cu_gemm &p_, unsigned rank_)
      : p(p_), rank(rank_), tile((unsigned)p_.tile0 + blockIdx.x / T::CLUSTER), l(blockIdx.z) {}
  /* Whether there is one. All tiles of a matrix are fewer than 2^32: 4096 elements each. */
  __device__ __forceinline__ bool next(lo_wgmma_place &at) {
    unsigned tm, tn;
    if (tile >= (unsigned)p.tile1) return false;
    lo_tile_in(tile, (unsigned)p.tiles_m, (unsigned)p.tiles_n, tm, tn);
    at.row0 = (int)(tm * T::CLUSTER + rank) * T::BM;
    at.col0 = (int)tn * T::BN;
    at.l = (int)l;
    l += gridDim.z;
    if (l < p.batch) return true;
    l = blockIdx.z;
    tile += gridDim.x / T::CLUSTER;
    return true;
  }
};

template <class Core, class T, bool TRANS_A> struct lo_wgmma_worker {
  typedef typename Core::sum_t sum_t;
  typedef typename Core::sum4 sum4;
  typedef lo_tile_columns<T::BN, Core::INTEGER, Core::SCALED, false> columns_t;
  static constexpr bool SHARES = T::template SHARES<Core::SCALED>;
  const lo_cu_boxed_gemm &boxed;
  const lo_cu_gemm &p;
  lo_wgmma_place at, next;
  lo_wgmma_walk<T> walk;
  bool more; /* is there a next one? */
  char *memory;
  Core core;
  columns_t &columns;
  char *side; /* of the group; where C leaves by boxes, a warp's second one */

  __device__ __forceinline__ lo_wgmma_worker(const lo_cu_boxed_gemm &boxed_, unsigned rank,
                                             char *memory_)
      : boxed(boxed_), p(boxed_.g), walk(boxed_.g, rank), memory(memory_),
        columns(((columns_t *)(memory_ + T::COLUMNS))[SHARES ? 0 : core.group]),
        side(memory_ + (T::WIDE ? T::BOXES + core.group * 4 * T::TURN + T::TURN / 2
                                : T::SIDES + core.group * T::SIDE)) {}

  __device__ __forceinline__ void multiply(lo_wgmma_ring<T> &ring, int steps, bool sum) {
    auto prepare = [&]() __attribute__((always_inline)) {
      if (T::WIDE) more = walk.next(next);
      LO_DELAY(GROUP);
      meet(); /* the tile before has read its columns */
      LO_DELAY(COLUMNS);
      columns.stage(p.e, at.col0, lo_left(p.n, at.col0, T::BN),
                    threadIdx.x % (SHARES ? T::WORKERS : 128), SHARES ? T::WORKERS : 128);
    };
    if constexpr (Core::INTEGER) {
      lo_wgmma_column_sums<T> sums = {};
      auto add = [&](unsigned stage) __attribute__((always_inline)) {
        if (p.e.zero_a.p) sums.add(memory + (stage - ring.base));
      };
      core.run(ring, steps, add, prepare);
      if (p.e.zero_a.p) sums.store((int *)side);
    } else if constexpr (TRANS_A) {
      lo_wgmma_row_sums<Core, T> sums = {};
      auto add = [&](unsigned stage) __attribute__((always_inline)) {
        if (sum) sums.add(memory + (stage - ring.base), core.group, p.bf16);
      };
      core.run(ring, steps, add, prepare);
      if (sum) sums.store((float *)side);
    } else {
      core.run(
          ring, steps, [](unsigned) {}, prepare);
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
          lo_i64 row = at.row0 + core.first_row(i, threadIdx.x) + threadIdx.x % 32 / 4 + 8 * h;
          int zero = row < p.m ? ((const int *)p.e.zero_a.p)[p.e.zero_a.one ? 0 : row] : 0;
#pragma unroll
          for (int j = 0; j < T::BN / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
              core.acc[i][4 * j + 2 * h + e] -=
                  zero * ((const int *)side)[8 * j + threadIdx.x % 4 * 2 + e];
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
  static __device__ __forceinline__ void expect_parts(unsigned base, int split) {
    int mine = (ALL - (int)blockIdx.y + split - 1) / split;
    lo_mbarrier_init(base + T::COUNTER, 1);
    lo_mbarrier_arrive_expect(base + T::COUNTER, mine * (split - 1) * 2048);
  }
  __device__ __forceinline__ void exchange() const {
    unsigned base = (unsigned)__cvta_generic_to_shared(memory);
#pragma unroll
    for (int i = 0; i < T::SIXTEENS; i++) {
      unsigned owner = owner_of(i);
      if (owner == blockIdx.y) continue;
      unsigned to = lo_cluster_place(base + place_of(i, blockIdx.y), owner);
      unsigned counter = lo_cluster_place(base + T::COUNTER, owner);
      const sum_t *s = &core.acc[i / (T::BN / 32)][i % (T::BN / 32) * 16];
#pragma unroll
      for (int j = 0; j < 4; j++)
        lo_cluster_send(to + j * 512, counter, s[4 * j], s[4 * j + 1], s[4 * j + 2], s[4 * j + 3]);
    }
    LO_DELAY(CAME);
    lo_mbarrier_wait(base + T::COUNTER, 0);
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
    unsigned turns = (unsigned)__cvta_generic_to_shared(memory + T::BOXES);
    int thread; /* not as the compiler knows it, which would carry the end through the main loop */
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    lo_wgmma_ends<Core, columns_t, PARTS> ends = {boxed,
                                                  p,
                                                  lo_ending_of(p.e, at.l, false, columns.factors),
                                                  columns,
                                                  thread % 32,
                                                  turns + thread / 32 * T::TURN,
                                                  at.row0 + core.first_row(0, thread) +
                                                      thread % 32 / 4,
                                                  at.col0,
                                                  at.l,
                                                  lo_left(p.n, at.col0, T::BN),
                                                  p.m,
                                                  64};
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
      lo_i64 row = at.row0 + core.group * T::ROWS + r;
      float sum = 0;
      for (int part = 0; part < p.split; part++)
        for (int warp = 0; warp < 4; warp++) {
          const float *from = (const float *)side + warp * T::ROWS + r;
          sum += p.split == 1 ? *from
                              : lo_cluster_word((unsigned)__cvta_generic_to_shared(from), part);
        }
      if (row < p.m) lo_finish_row_sum(p.e, beta, row, sum);
    }
  }

  /* Those that share the columns. */
  static __device__ __forceinline__ void meet() {
    if (SHARES)
      lo_meet<T::WORKERS>(LO_WGMMA_SHARE);
    else
      lo_group_sync();
  }
  __device__ __forceinline__ void run(lo_wgmma_ring<T> &ring) {
    more = walk.next(at);
    int steps = Core::steps(p);
#pragma unroll 1
    for (; more; at = next) {
      tile(ring, steps);
      if (!T::WIDE) more = walk.next(next);
    }
    if (T::WIDE && lo_elect()) lo_boxes_read<0>(); /* the memory stays until then */
    __syncwarp();
  }
  __device__ __forceinline__ void tile(lo_wgmma_ring<T> &ring, int steps) {
    bool sum = TRANS_A && p.e.row_sum.p && at.col0 == 0;
    bool beside = sum || (Core::INTEGER && p.e.zero_a.p); /* is `side` used? */
    if (T::WIDE && beside && lo_elect()) lo_boxes_read<0>();
    __syncwarp();
    multiply(ring, steps, sum);
    LO_DELAY(CLUSTER);
    if (p.split > 1) lo_cluster_arrive_relaxed(); /* the stages are read */
    LO_DELAY(GROUP);
    meet();
    shift();
    if (p.split > 1) {
      lo_cluster_wait();
      LO_DELAY(SEND);
      exchange();
      LO_DELAY(END);
      end<true>();
      LO_DELAY(CLUSTER);
      if (TRANS_A && p.e.row_sum.p) lo_cluster_sync(); /* rows are stored */
      if (sum) end_rows();
    } else {
      if (sum) end_rows();
      LO_DELAY(GROUP);
      if (T::WIDE && beside) lo_group_sync(); /* all have read what lies beside */
      LO_DELAY(END);
      end<false>();
    }
  }
};

template <class Core, class T, bool TRANS_A> LO_FN void lo_gemm_wgmma(const lo_cu_boxed_gemm &p) {
  extern __shared__ __align__(1024) char wgmma_memory[];
  constexpr int STARTERS = T::WORKERS + 32;
  const lo_cu_gemm &g = p.g;
  unsigned base = (unsigned)__cvta_generic_to_shared(wgmma_memory);
  lo_wgmma_ring<T> ring(base);
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
  if (threadIdx.x < T::WORKERS) {
    T::registers::take();
    if (T::CLUSTER == 1) lo_meet<STARTERS>(LO_WGMMA_READY);
    lo_wgmma_worker<Core, T, TRANS_A>(p, rank, wgmma_memory).run(ring);
  } else {
    T::registers::give();
    /* It need not wait for the others, nor they for its first copies. */
    if (copies && T::CLUSTER == 1) lo_arrive<STARTERS>(LO_WGMMA_READY);
    if (copies && lo_elect()) {
      lo_wgmma_walk<T> walk(g, rank);
      lo_wgmma_place at;
      bool more = walk.next(at);
      int k0 = (int)(blockIdx.y * g.slice), steps = Core::steps(g);
      for (; more; more = walk.next(at)) Core::produce(p, ring, at, k0, steps, rank);
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

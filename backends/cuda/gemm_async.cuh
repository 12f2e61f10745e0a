/* The main loop of Ampere and Ada: a ring of stages that cp.async fills, ldmatrix, and the longest
 * mma of each type.
 *
 *   memory -> ring of stages -> fragments in registers, some ahead -> sums -> epilogue
 *
 * One barrier a stage. B's fragments are read one k of an instruction ahead, A's half a RING. */
#ifndef LO_CUDA_GEMM_ASYNC_CUH
#define LO_CUDA_GEMM_ASYNC_CUH

#include "backends/cuda/async_copy.cuh"

/* Types of operands; u8: A unsigned, B signed. Every instruction takes 32 bytes of k. */
enum { LO_ASYNC_F16, LO_ASYNC_BF16, LO_ASYNC_TF32, LO_ASYNC_S8, LO_ASYNC_U8 };

template <int TYPE> struct lo_async_type {
  static constexpr int ELEMENT = TYPE == LO_ASYNC_TF32 ? 4 : TYPE >= LO_ASYNC_S8 ? 1 : 2;
  typedef float sum;
  typedef float4 sum4;
};
template <> struct lo_async_type<LO_ASYNC_S8> {
  static constexpr int ELEMENT = 1;
  typedef int sum;
  typedef int4 sum4;
};
template <> struct lo_async_type<LO_ASYNC_U8> : lo_async_type<LO_ASYNC_S8> {};

/* c += a b for 16 x 8 outputs. TF32: the tensor cores cut off the fraction's last 13 bits. */
#define LO_MMA(SHAPE, C)                                                                           \
  asm volatile("mma.sync.aligned." SHAPE " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"  \
               : C(c[0]), C(c[1]), C(c[2]), C(c[3])                                                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
template <int TYPE>
LO_FN void lo_async_mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  if (TYPE == LO_ASYNC_F16) LO_MMA("m16n8k16.row.col.f32.f16.f16.f32", "+f");
  if (TYPE == LO_ASYNC_BF16) LO_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
  if (TYPE == LO_ASYNC_TF32) LO_MMA("m16n8k8.row.col.f32.tf32.tf32.f32", "+f");
#endif
}
template <int TYPE>
LO_FN void lo_async_mma(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  if (TYPE == LO_ASYNC_S8) LO_MMA("m16n8k32.row.col.s32.s8.s8.s32", "+r");
  if (TYPE == LO_ASYNC_U8) LO_MMA("m16n8k32.row.col.s32.u8.s8.s32", "+r");
#endif
}
#undef LO_MMA

LO_FN unsigned lo_read_word(unsigned address) {
  unsigned r;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r) : "r"(address) : "memory");
  return r;
}

LO_FN void lo_put_pair(float *to, float x, float y) {
  *(float2 *)to = make_float2(x, y);
}
LO_FN void lo_put_pair(int *to, int x, int y) {
  *(int2 *)to = make_int2(x, y);
}

/* Fragments of an operand for a warp, of 16 rows (columns) and 32 bytes of k each: four registers
 * of quarters, the halves of k within the halves of m (n) where K_FIRST. An address is the lane's
 * own, with the fragment's number and that of k XORed into the chunk or added as lines: EXTENT, the
 * warp's m or n, does not cross panels. */
template <class S, int EXTENT, bool K_FIRST> struct lo_async_reader {
  static constexpr bool WORDS = !S::K_INNER && S::ELEMENT == 4;
  static constexpr int EACH = S::K_INNER ? 1 : S::BK / 16; /* fragments of a panel */
  static_assert(S::K_INNER || EXTENT % S::BK == 0 || S::BK % EXTENT == 0, "panels");
  unsigned at;

  __device__ __forceinline__ lo_async_reader(int first) {
    int lane = threadIdx.x % 32, low = lane % 8, x = lane / 8 % 2, y = lane / 16;
    int k8 = K_FIRST ? x : y, i8 = K_FIRST ? y : x;
    if (WORDS)
      at = S::turned(lane % 4, first + lane / 16 * 4) + lane / 4 % 4 * 4;
    else
      at =
          S::K_INNER ? S::place(first + 8 * i8 + low, k8) : S::turned(8 * k8 + low, first + 8 * i8);
  }
  /* Where the lane reads in a part of a stage, which is 64 bytes of k. */
  __device__ __forceinline__ unsigned begin(unsigned stage, int part) const {
    return S::K_INNER ? stage + at ^ part * 64 : stage + at + part * (64 / S::ELEMENT * 128);
  }
  /* Fragment f of 32 bytes of k, the first or the second of the part that begins there. */
  static __device__ __forceinline__ void read(unsigned (&r)[4], unsigned begin, int f, int k) {
    unsigned turned =
        (begin ^ f % EACH * 16 * S::ELEMENT) + (f / EACH * S::BK + k * (32 / S::ELEMENT)) * 128;
    if constexpr (S::K_INNER) {
      lo_read_matrices<false>(r, (begin ^ 32 * k) + f * 16 * S::LINE);
    } else if constexpr (!WORDS) {
      lo_read_matrices<true>(r, turned);
    } else {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int k4 = K_FIRST ? e % 2 : e / 2, i8 = K_FIRST ? e / 2 : e % 2;
        r[e] = lo_read_word((turned ^ 32 * i8) + k4 * 4 * 128);
      }
    }
  }
};

/* BM x BN outputs by warps of WM x WN, in steps of 128 bytes of k, of which STAGES are in shared
 * memory. RING: how many of A's fragments, each of 16 rows, are in registers. */
template <int BM_, int BN_, int WM_, int WN_, int STAGES_, int RING_> struct lo_async_tile {
  static constexpr int BM = BM_, BN = BN_, WM = WM_, WN = WN_, STAGES = STAGES_;
  static constexpr int WARPS_N = BN / WN, THREADS = BM / WM * WARPS_N * 32;
  static constexpr int RING = RING_ < WM / 8 ? RING_ : WM / 8;
  static constexpr int STAGE = (BM + BN) * LO_CU_ASYNC_STEP, BYTES = STAGE * STAGES;
  static_assert(THREADS / 32 * 4 * WM * (WN + 8) <= BYTES, "put()");
};

template <int TYPE, class T, bool TRANS_A, bool TRANS_B, int UNIT> struct lo_async_core {
  typedef typename lo_async_type<TYPE>::sum sum_t;
  typedef typename lo_async_type<TYPE>::sum4 sum4;
  static constexpr bool INTEGER = TYPE >= LO_ASYNC_S8;
  static constexpr int ELEMENT = lo_async_type<TYPE>::ELEMENT, BK = LO_CU_ASYNC_STEP / ELEMENT;
  static constexpr int BM = T::BM, BN = T::BN, WM = T::WM, WN = T::WN, THREADS = T::THREADS;
  static constexpr int MA = T::WM / 16, NB = T::WN / 16; /* fragments of a warp */
  static constexpr int PARTS = 2, SLOTS = 2 * MA, AHEAD = T::RING / 2;
  static_assert(SLOTS % T::RING == 0, "fragments keep their registers");
  typedef lo_async_stage<ELEMENT, !TRANS_A, BM> stage_a;
  typedef lo_async_stage<ELEMENT, TRANS_B, BN> stage_b;
  typedef lo_async_loader<stage_a, THREADS, UNIT, PARTS> loader_a;
  typedef lo_async_loader<stage_b, THREADS, UNIT, PARTS> loader_b;
  static constexpr int OFFSET_B = stage_a::BYTES, STAGE = T::STAGE / 4; /* words */
  static_assert(stage_a::BYTES + stage_b::BYTES == T::STAGE, "a stage");

  int row0, col0; /* of the warp */
  lo_async_reader<stage_a, T::WM, false> read_a;
  lo_async_reader<stage_b, T::WN, true> read_b;
  __align__(16) sum_t acc[MA][2 * NB][4];
  unsigned fa[T::RING][4], fb[2][NB][4];

  __device__ __forceinline__ lo_async_core()
      : row0((int)threadIdx.x / 32 / T::WARPS_N * T::WM),
        col0((int)threadIdx.x / 32 % T::WARPS_N * T::WN), read_a(row0), read_b(col0) {
#pragma unroll
    for (int i = 0; i < MA; i++)
#pragma unroll
      for (int j = 0; j < 2 * NB; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) acc[i][j][e] = 0;
  }

  /* Fragment i of A by all of B's, back and forth, so that each instruction shares an operand with
   * the one before. */
  __device__ __forceinline__ void multiply(int i, const unsigned (&a)[4],
                                           const unsigned (&b)[NB][4]) {
#pragma unroll
    for (int n = 0; n < 2 * NB; n++) {
      int j = i % 2 ? 2 * NB - 1 - n : n;
      lo_async_mma<TYPE>(acc[i][j], a, b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  }

  /* The ring: the stage that is read, the one that is filled, and the number of that one's step, of
   * so many, of which the first are whole. */
  struct ring_t {
    unsigned base, read, write;
    int step, whole, steps;
  };

  /* Slots of a part, which is 64 bytes of k: in each a fragment of A is multiplied by all of B's.
   * Up to slot TURN the part's own fragments are read, from there on those of the next part. */
  static constexpr int TURN = SLOTS - AHEAD, SOON = AHEAD > 2 ? (NB + 1) / 2 : NB;
  template <int FROM, int TO, bool MORE>
  __device__ __forceinline__ void slots(unsigned stage, int part) {
    unsigned at_a = read_a.begin(stage, part), at_b = read_b.begin(stage + OFFSET_B, part);
#pragma unroll
    for (int slot = FROM; slot < TO; slot++) {
      int k = slot / MA, i = slot % MA, ahead = slot + AHEAD, due = i - (MA - AHEAD);
      if (MORE || slot < TURN) read_a.read(fa[ahead % T::RING], at_a, ahead % MA, ahead / MA % 2);
      if (due >= 0 && (MORE || k == 0)) /* all of B's come before most of A's */
#pragma unroll
        for (int j = due * SOON; j < (due + 1) * SOON && j < NB; j++)
          read_b.read(fb[(k + 1) % 2][j], at_b, j, (k + 1) % 2);
      multiply(i, fa[slot % T::RING], fb[k % 2]);
    }
  }
  static __device__ __forceinline__ void fill(const ring_t &ring, const loader_a &a,
                                              const loader_b &b, int part) {
    if (ring.step < ring.whole) {
      a.copy_whole(ring.write, part);
      b.copy_whole(ring.write + OFFSET_B, part);
    } else if (ring.step < ring.steps) {
      a.copy_some(ring.write, part, ring.step);
      b.copy_some(ring.write + OFFSET_B, part, ring.step);
    }
  }
  static __device__ __forceinline__ void filled(ring_t &ring, loader_a &a, loader_b &b) {
    lo_copy_commit();
    a.next_step();
    b.next_step();
    ring.step++;
  }
  /* A part: what is left of the one before, and the most of its own. */
  __device__ __forceinline__ void part(const ring_t &ring, const loader_a &a, const loader_b &b,
                                       int number) {
    slots<TURN, SLOTS, true>(ring.read, number);
    fill(ring, a, b, number);
    slots<0, TURN, true>(ring.read, number);
  }
  /* The next stage has arrived, and no warp reads the former one any more. */
  static __device__ __forceinline__ void turn(ring_t &ring, loader_a &a, loader_b &b) {
    filled(ring, a, b);
    lo_copy_wait<T::STAGES - 2>();
    __syncthreads();
    ring.write = ring.read;
    ring.read = ring.read + T::STAGE == ring.base + T::BYTES ? ring.base : ring.read + T::STAGE;
  }

  /* At least one step; the first `whole` of them need no checks. arrived(stage) is told of each.
   * The loop begins in the middle of a part, so that the compiler cannot move instructions from
   * behind the barrier, which hide the latency of the next stage's first fragments, to before it.
   */
  template <class Arrived>
  __device__ __forceinline__ void run(unsigned base, loader_a &a, loader_b &b, int steps, int whole,
                                      Arrived arrived) {
    ring_t ring = {base, base, base, 0, whole, steps};
#pragma unroll 1
    for (int s = 0; s + 1 < T::STAGES; s++, ring.write += T::STAGE) {
#pragma unroll
      for (int h = 0; h < PARTS; h++) fill(ring, a, b, h);
      filled(ring, a, b);
    }
    lo_copy_wait<T::STAGES - 2>();
    __syncthreads();
    arrived(base);
    begin(base);
    fill(ring, a, b, 0);
    slots<0, TURN, true>(base, 0);
#pragma unroll
    for (int h = 1; h < PARTS; h++) part(ring, a, b, h);
    turn(ring, a, b);
#pragma unroll 1
    for (int s = 1; s < steps; s++) {
      arrived(ring.read);
#pragma unroll
      for (int h = 0; h < PARTS; h++) part(ring, a, b, h);
      turn(ring, a, b);
    }
    slots<TURN, SLOTS, false>(ring.read, 0);
    lo_copy_wait<0>();
  }
  __device__ __forceinline__ void begin(unsigned stage) {
    unsigned at_a = read_a.begin(stage, 0), at_b = read_b.begin(stage + OFFSET_B, 0);
#pragma unroll
    for (int j = 0; j < NB; j++) read_b.read(fb[0][j], at_b, j, 0);
#pragma unroll
    for (int i = 0; i < AHEAD; i++) read_a.read(fa[i], at_a, i, 0);
  }

  /* ---- A part of k: a block's sums as its threads hold them, and behind them those of columns. */
  static __device__ __forceinline__ sum_t *part_of(const lo_cu_gemm &p, lo_i64 part, lo_i64 batch) {
    lo_i64 tile = (part * p.batch + batch) * p.tiles_m * p.tiles_n + p.tile0 + blockIdx.x;
    return (sum_t *)p.partial + tile * LO_CU_ASYNC_PART(BM, BN);
  }
  __device__ __forceinline__ void store_part(const lo_cu_gemm &p, lo_i64 batch,
                                             const int *columns) const {
    sum_t *part = part_of(p, blockIdx.y, batch);
#pragma unroll
    for (int i = 0; i < MA; i++)
#pragma unroll
      for (int j = 0; j < 2 * NB; j++)
        ((sum4 *)part)[(i * 2 * NB + j) * THREADS + threadIdx.x] = *(const sum4 *)acc[i][j];
    if constexpr (INTEGER)
      if (p.e.zero_a.p)
        for (int c = threadIdx.x; c < BN; c += THREADS) part[BM * BN + c] = columns[c];
  }
  /* All parts in their order, in place of the block's own. As many loads are on their way as there
   * is room for beside the sums. */
  __device__ __forceinline__ void add_parts(const lo_cu_gemm &p, lo_i64 batch, int *columns) {
    constexpr int QUADS = MA * 2 * NB, ROOM = QUADS < 16 ? QUADS : 16;
#pragma unroll 1
    for (int s = 0; s < p.split; s++) {
      const sum4 *part = (const sum4 *)part_of(p, s, batch) + threadIdx.x;
#pragma unroll
      for (int first = 0; first < QUADS; first += ROOM) {
        sum4 quads[ROOM];
#pragma unroll
        for (int q = 0; q < ROOM; q++) quads[q] = __ldcg(part + (first + q) * THREADS);
#pragma unroll
        for (int q = 0; q < ROOM; q++) {
          sum4 &sum = *(sum4 *)acc[(first + q) / (2 * NB)][(first + q) % (2 * NB)];
          sum = s ? lo_add4(sum, quads[q]) : quads[q];
        }
      }
    }
    if constexpr (INTEGER)
      if (p.e.zero_a.p) {
        for (int c = threadIdx.x; c < BN; c += THREADS) {
          int sum = 0;
          for (int s = 0; s < p.split; s++) sum += __ldcg(part_of(p, s, batch) + BM * BN + c);
          columns[c] = sum;
        }
        __syncthreads();
      }
  }

  /* The warp's sums to memory of its own, where no warp reads a stage any more. Lines are 8 words
   * longer than WN, so that the rows that lanes hold side by side find other banks. */
  static constexpr int PITCH = T::WN + 8;
  __device__ __forceinline__ const sum_t *put(char *shared) const {
    int lane = threadIdx.x % 32;
    sum_t *mine = (sum_t *)shared + threadIdx.x / 32 * T::WM * PITCH;
#pragma unroll
    for (int i = 0; i < MA; i++)
      put(mine + (16 * i + lane / 4) * PITCH + lane % 4 * 2, PITCH, acc[i]);
    __syncwarp();
    return mine;
  }
  /* A lane's sums of 16 rows: pairs of neighbours. */
  static __device__ __forceinline__ void put(sum_t *line, int pitch,
                                             const sum_t (&sums)[2 * NB][4]) {
#pragma unroll
    for (int j = 0; j < 2 * NB; j++) {
      lo_put_pair(line + 8 * j, sums[j][0], sums[j][1]);
      lo_put_pair(line + 8 * pitch + 8 * j, sums[j][2], sums[j][3]);
    }
  }
};

/* Sums over k of op(A)'s rows, where these lie along m in memory: a thread has a chunk of m in some
 * lines of each stage. */
template <class Core> struct lo_async_row_sums {
  static constexpr int WIDTH = 16 / Core::ELEMENT, EACH = Core::BM / WIDTH;
  static constexpr int LINES = Core::THREADS / EACH;
  static_assert(Core::THREADS % EACH == 0, "lo_drain_sums");
  float sums[WIDTH];
  __device__ __forceinline__ void add(const char *stage, int bf16) {
#pragma unroll 1
    for (int k = threadIdx.x / EACH; k < Core::BK; k += LINES) {
      int i = threadIdx.x % EACH * WIDTH;
      uint4 raw = *(const uint4 *)(stage + Core::stage_a::turned(k, i));
      const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
      for (int e = 0; e < WIDTH; e++)
        sums[e] += WIDTH == 4 ? __uint_as_float(words[e % 4])
                              : lo_from_16((unsigned short)(words[e / 2] >> e % 2 * 16), bf16);
    }
  }
};

/* Sums over k of B's columns of 8-bit integers, which lie along k: a thread has a share of a
 * column's chunks. */
template <class Core> struct lo_async_column_sums {
  static constexpr int SHARES = Core::THREADS / Core::BN, CHUNKS = Core::stage_b::CHUNKS;
  static_assert(SHARES * Core::BN == Core::THREADS, "every thread has as many chunks");
  int sum;
  __device__ __forceinline__ void add(const char *stage) {
#pragma unroll 1
    for (int c = threadIdx.x / Core::BN; c < CHUNKS; c += SHARES) {
      int4 q =
          *(const int4 *)(stage + Core::OFFSET_B + Core::stage_b::place(threadIdx.x % Core::BN, c));
      const int ones = 0x01010101;
      sum = __dp4a(q.x, ones, __dp4a(q.y, ones, __dp4a(q.z, ones, __dp4a(q.w, ones, sum))));
    }
  }
  __device__ __forceinline__ void store(int *columns) const {
    for (int i = threadIdx.x; i < Core::BN; i += Core::THREADS) columns[i] = 0;
    __syncthreads();
    atomicAdd(columns + threadIdx.x % Core::BN, sum); /* of integers: in any order the same */
    __syncthreads();
  }
};

/* ---- The product: as lo_gemm's, on this ring. */
template <class Core> using lo_async_columns = lo_tile_columns<Core::BN, Core::INTEGER>;

/* Main loop with what is summed beside it. */
template <class Core, bool TRANS_A, bool TRANS_B>
LO_FN void lo_async_run(const lo_cu_gemm &p, Core &core, char *ring,
                        lo_async_columns<Core> &columns, lo_i64 l, lo_i64 row0, lo_i64 col0,
                        float beta, bool sum) {
  lo_i64 k0 = blockIdx.y * p.slice;
  int k_count = (int)(p.k - k0 < p.slice ? p.k - k0 : p.slice);
  /* alpha = 0 does not read the operands; sums by row come with alpha = 1 */
  int steps = lo_scalar_float(p.e.alpha) == 0.0f ? 0 : (k_count + Core::BK - 1) / Core::BK;
  bool inside = row0 + Core::BM <= p.m && col0 + Core::BN <= p.n;
  int whole = inside ? k_count / Core::BK : 0;
  unsigned base = (unsigned)__cvta_generic_to_shared(ring);
  asm volatile("" : "+r"(base)); /* once */
  typename Core::loader_a a(p.a, l, row0, k0, k_count);
  typename Core::loader_b b(p.b, l, col0, k0, k_count);
  if constexpr (Core::INTEGER) {
    lo_async_column_sums<Core> side = {};
    if (steps)
      core.run(base, a, b, steps, whole, [&](unsigned stage) {
        if (p.e.zero_a.p) side.add(ring + (stage - base));
      });
    if (p.e.zero_a.p) side.store(columns.sums);
  } else if constexpr (TRANS_A) {
    lo_async_row_sums<Core> side = {};
    if (steps)
      core.run(base, a, b, steps, whole, [&](unsigned stage) {
        if (sum) side.add(ring + (stage - base), p.bf16);
      });
    __syncthreads();
    if (sum) lo_drain_sums<Core>(p, (float *)ring, side.sums, beta, row0);
  } else if (steps) {
    core.run(base, a, b, steps, whole, [](unsigned) {});
  }
  __syncthreads();
}

template <class Core, bool TRANS_A, bool TRANS_B> LO_FN void lo_gemm_async(const lo_cu_gemm &p) {
  extern __shared__ __align__(128) char ring[];
  __shared__ __align__(16) lo_async_columns<Core> columns;
  lo_i64 tm, tn;
  lo_tile_at(p.tile0 + blockIdx.x, p.tiles_m, p.tiles_n, tm, tn);
  lo_i64 row0 = tm * Core::BM, col0 = tn * Core::BN;
  bool sum = TRANS_A && p.e.row_sum.p && tn == 0;
  columns.stage(p.e, col0, lo_left(p.n, col0, Core::BN));
  for (lo_i64 l = blockIdx.z; l < p.batch; l += gridDim.z) {
    Core core;
    float beta = lo_scalar_float(p.e.beta);
    lo_async_run<Core, TRANS_A, TRANS_B>(p, core, ring, columns, l, row0, col0, beta, sum);
    lo_lead();
    if (p.split > 1) {
      core.store_part(p, l, columns.sums);
      if (!lo_comes_last(p, l)) continue;
      core.add_parts(p, l, columns.sums);
      if (sum) lo_add_row_sums<Core>(p, beta, row0);
    }
    lo_finish_warp<Core::WM, Core::WN, Core::PITCH>(lo_ending_of(p.e, l, true), columns, core.col0,
                                                    core.put(ring), row0 + core.row0,
                                                    col0 + core.col0, p.m, p.n);
    __syncthreads();
  }
}

#endif

/* The main loop on tensor cores that stages operands through registers: from Turing on, for 16-bit
 * operands, whose sums are f32, and 8-bit ones, whose sums are int32.
 *
 * A step is 64 bytes of k. Operands lie in shared memory as they lie in device memory, in lines of
 * 64 bytes or more; ldmatrix turns those that do not run along k. (It cannot turn bytes: 8-bit
 * operands lie along k there in any case.) 16 bytes of a line are a chunk; chunks of neighbouring
 * lines are swizzled, so that stores and ldmatrix, eight chunks at a time, find all banks.
 *
 * While a chunk of k is multiplied, the next one's fragments are loaded. Meanwhile the next step's
 * tile goes from registers to the other stage, and the one after it is asked for, a few chunks at a
 * time. */
#ifndef LO_CUDA_GEMM_MMA_CUH
#define LO_CUDA_GEMM_MMA_CUH

#include "backends/cuda/main_loop.cuh"

/* ---- Instructions */
enum { LO_MMA_K8_F16, LO_MMA_K16_F16, LO_MMA_K16_BF16, LO_MMA_S8, LO_MMA_U8 };

/* c += a b for 8 GROUPS rows, 8 columns and CHUNKS chunks of k. c: pairs of neighbours in a row, of
 * rows 8 apart; a: by chunk, then by group of eight rows; b: by chunk. */
template <int MMA> struct lo_mma;

template <> struct lo_mma<LO_MMA_K8_F16> {
  typedef float sum_t;
  typedef float4 sum4;
  typedef unsigned short element_t;
  static constexpr int GROUPS = 2, CHUNKS = 1;
  static __device__ __forceinline__ void run(float (&c)[4], const unsigned (&a)[2],
                                             const unsigned (&b)[1]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  }
};

#define LO_MMA_K16(MMA, TYPE)                                                                      \
  template <> struct lo_mma<MMA> {                                                                 \
    typedef float sum_t;                                                                           \
    typedef float4 sum4;                                                                           \
    typedef unsigned short element_t;                                                              \
    static constexpr int GROUPS = 2, CHUNKS = 2;                                                   \
    static __device__ __forceinline__ void run(float (&c)[4], const unsigned (&a)[4],              \
                                               const unsigned (&b)[2]) {                           \
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 "                  \
                   "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                         \
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));            \
    }                                                                                              \
  };
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
LO_MMA_K16(LO_MMA_K16_F16, "f16")
LO_MMA_K16(LO_MMA_K16_BF16, "bf16")
#endif
#undef LO_MMA_K16

#define LO_MMA_8_BITS(MMA, TYPE)                                                                   \
  template <> struct lo_mma<MMA> {                                                                 \
    typedef int sum_t;                                                                             \
    typedef int4 sum4;                                                                             \
    typedef unsigned char element_t;                                                               \
    static constexpr int GROUPS = 1, CHUNKS = 1;                                                   \
    static __device__ __forceinline__ void run(int (&c)[2], const unsigned (&a)[1],                \
                                               const unsigned (&b)[1]) {                           \
      asm volatile("mma.sync.aligned.m8n8k16.row.col.s32." TYPE ".s8.s32 "                         \
                   "{%0,%1}, {%2}, {%3}, {%0,%1};"                                                 \
                   : "+r"(c[0]), "+r"(c[1])                                                        \
                   : "r"(a[0]), "r"(b[0]));                                                        \
    }                                                                                              \
  };
LO_MMA_8_BITS(LO_MMA_S8, "s8")
LO_MMA_8_BITS(LO_MMA_U8, "u8")
#undef LO_MMA_8_BITS

/* Four 8 x 16-byte matrices; lane l gives the address of line l % 8 of matrix l / 8. */
template <bool TURN> LO_FN void lo_ldmatrix(unsigned *r, unsigned address) {
  if (TURN)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

/* ---- An operand's stage: EXTENT rows (columns) by 64 bytes of k. */
template <class T, bool K_INNER_, int EXTENT> struct lo_mma_stage {
  static constexpr int CHUNK = 16 / sizeof(T), BK = 4 * CHUNK; /* elements */
  static constexpr bool K_INNER = K_INNER_ || sizeof(T) == 1;
  static constexpr int LINES = K_INNER ? EXTENT : BK, CHUNKS = K_INNER ? 4 : EXTENT / CHUNK;
  static constexpr int PITCH = CHUNKS * 16, BYTES = LINES * PITCH;
  static_assert(CHUNKS == 4 || CHUNKS % 8 == 0, "the swizzle");
  /* Where a chunk of a line lies, in bytes. */
  static __device__ __forceinline__ int place(int line, int chunk) {
    int swizzle = CHUNKS == 4 ? line / 2 % 4 : line % 8;
    return line * PITCH + (chunk ^ swizzle) * 16;
  }
};

/* A warp's view of a stage: fragments of W rows from `first` on. Lines 32 (64 across k) apart are
 * at a constant distance, so one address, two across k, serve all. */
template <class Stage, int W> struct lo_mma_reader {
  static constexpr int ADDRESSES = Stage::K_INNER || W == 32 ? 1 : 2;
  unsigned at[ADDRESSES];
  __device__ __forceinline__ lo_mma_reader(unsigned stage, int first) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < ADDRESSES; i++)
      at[i] = stage + (Stage::K_INNER
                           ? Stage::place(first + lane, 0)
                           : Stage::place(lane % 8, (first + 32 * i) / Stage::CHUNK + lane / 8));
  }
  /* Chunk c of k. */
  __device__ __forceinline__ void load(unsigned (&r)[W / 8], int c) const {
#pragma unroll
    for (int g = 0; g < W / 32; g++)
      lo_ldmatrix<!Stage::K_INNER>(r + 4 * g, Stage::K_INNER
                                                  ? (at[0] ^ c * 16) + g * 32 * Stage::PITCH
                                                  : at[g % 2] + g / 2 * 128 + c * 8 * Stage::PITCH);
  }
  __device__ __forceinline__ void turn(int bytes) {
#pragma unroll
    for (int i = 0; i < ADDRESSES; i++) at[i] += bytes;
  }
};

/* ---- Loaders bring an operand's tiles to shared memory, LOADS chunks a thread, one after the
 * other. */

/* How a chunk of a tile that is not wholly inside, or not on a border of 16 bytes, is fetched. The
 * way is the whole block's, so that its loads follow each other without branches. */
enum { LO_BY_CHUNKS, LO_BY_WORDS, LO_BY_ELEMENTS };

/* Neighbours `step` apart; those beyond `count` are 0. */
template <class T> LO_FN unsigned lo_gather(const T *q, lo_i64 step, int count) {
  constexpr int EACH = 4 / sizeof(T);
  unsigned word = 0;
#pragma unroll
  for (int i = 0; i < EACH; i++)
    if (i < count) word |= (unsigned)lo_load(q + i * step) << 8 * sizeof(T) * i;
  return word;
}
template <class T> LO_FN uint4 lo_by_elements(const T *q, lo_i64 step, int count) {
  constexpr int EACH = 4 / sizeof(T);
  return make_uint4(lo_gather(q, step, count), lo_gather(q + EACH * step, step, count - EACH),
                    lo_gather(q + 2 * EACH * step, step, count - 2 * EACH),
                    lo_gather(q + 3 * EACH * step, step, count - 3 * EACH));
}
/* 16-bit elements on an odd place lie across words: three words lie inside in any case. */
LO_FN uint4 lo_by_words(const unsigned short *q) {
  const unsigned *w = (const unsigned *)((lo_u64)(q + 1) & ~3ull);
  unsigned first = lo_load(q), x = lo_load(w), y = lo_load(w + 1), z = lo_load(w + 2);
  unsigned seventh = lo_load((const unsigned short *)(w + 3)), last = lo_load(q + 7);
  int odd = (int)((lo_u64)q & 2) * 8;
  unsigned end = odd ? last : seventh | last << 16;
  return make_uint4(__funnelshift_l(first << 16, x, odd), __funnelshift_l(x, y, odd),
                    __funnelshift_l(y, z, odd), __funnelshift_l(z, end, odd));
}
LO_FN uint4 lo_by_words(const unsigned char *q) {
  const unsigned *w = (const unsigned *)q;
  return make_uint4(lo_load(w), lo_load(w + 1), lo_load(w + 2), lo_load(w + 3));
}

template <class T, bool K_INNER, int EXTENT, int THREADS> struct lo_mma_loader {
  typedef lo_mma_stage<T, K_INNER, EXTENT> stage_t;
  static constexpr int WIDTH = stage_t::CHUNK, BK = stage_t::BK;
  static constexpr int CHUNKS = stage_t::CHUNKS, LOADS = stage_t::LINES * CHUNKS / THREADS;
  static constexpr bool BYTES_ACROSS = sizeof(T) == 1 && !K_INNER; /* memory has them otherwise */
  static constexpr int LINE_STEP = THREADS / CHUNKS;
  static_assert(stage_t::LINES * CHUNKS % THREADS == 0, "every thread has as many chunks");
  static_assert(!BYTES_ACROSS || THREADS % EXTENT == 0 || EXTENT % THREADS == 0, "lines of lanes");

  const T *p;
  lo_i64 step, last_step; /* from chunk to chunk, from the last to the next tile's first */
  int extent;             /* rows (columns) from the thread's first chunk to the end */
  bool rows;              /* the tile has all of its rows */
  uint4 raw[LOADS];

  static __device__ __forceinline__ int line(int l) {
    return BYTES_ACROSS ? ((int)threadIdx.x + l * THREADS) % EXTENT
                        : (int)threadIdx.x / CHUNKS + l * LINE_STEP;
  }
  static __device__ __forceinline__ int chunk(int l) {
    return BYTES_ACROSS ? ((int)threadIdx.x + l * THREADS) / EXTENT : (int)threadIdx.x % CHUNKS;
  }

  __device__ __forceinline__ lo_mma_loader(const lo_cu_operand &o, lo_i64 batch, lo_i64 first,
                                           lo_i64 k0) {
    lo_i64 left = o.extent - first;
    lo_i64 row = BYTES_ACROSS ? 0 : K_INNER ? line(0) : WIDTH * chunk(0);
    lo_i64 k = BYTES_ACROSS ? 0 : K_INNER ? WIDTH * chunk(0) : line(0);
    rows = left >= EXTENT;
    extent = (int)(rows ? EXTENT : left) - (int)row;
    p = (const T *)o.p + batch * o.batch_stride +
        (K_INNER ? (first + row) * o.stride + k0 + k : (k0 + k) * o.stride + first + row);
    step = BYTES_ACROSS ? 0 : LINE_STEP * o.stride;
    last_step = K_INNER ? BK - (LOADS - 1) * step : BK * o.stride - (LOADS - 1) * step;
  }

  /* Whether all chunks lie inside, whole, in each step whose k does. */
  __device__ __forceinline__ bool whole(const lo_cu_operand &o) const {
    return !BYTES_ACROSS && o.vector8 && rows;
  }

  /* `left`: of k, from the tile's first on. */
  __device__ __forceinline__ int way(const lo_cu_operand &o, int left) const {
    if (BYTES_ACROSS) return LO_BY_ELEMENTS;
    bool ks = left >= BK;
    if (o.vector8 && (K_INNER ? ks || left % WIDTH == 0 : rows || o.extent % WIDTH == 0))
      return LO_BY_CHUNKS;
    return rows && ks && (sizeof(T) == 2 || o.vector) ? LO_BY_WORDS : LO_BY_ELEMENTS;
  }

  template <int WAY>
  __device__ __forceinline__ uint4 some(const lo_cu_operand &o, int l, int left) const {
    if (WAY == LO_BY_WORDS) return lo_by_words(p);
    if (BYTES_ACROSS) {
      int row = line(l), k = WIDTH * chunk(l);
      return lo_by_elements(p + row + k * o.stride, o.stride, row < extent ? left - k : 0);
    }
    int inner = K_INNER ? left - WIDTH * chunk(0) : extent;
    int outer = K_INNER ? extent : left - line(0);
    if (l * LINE_STEP >= outer) inner = 0;
    if (WAY == LO_BY_ELEMENTS) return lo_by_elements(p, 1, inner);
    return inner > 0 ? lo_load((const uint4 *)p) : make_uint4(0, 0, 0, 0);
  }

  __device__ __forceinline__ void advance(int l) { p += l + 1 < LOADS ? step : last_step; }
  __device__ __forceinline__ void fetch_whole() {
#pragma unroll
    for (int l = 0; l < LOADS; l++) {
      raw[l] = lo_load((const uint4 *)p);
      advance(l);
    }
  }
  template <int WAY> __device__ __forceinline__ void fetch_by(const lo_cu_operand &o, int left) {
#pragma unroll
    for (int l = 0; l < LOADS; l++) {
      raw[l] = some<WAY>(o, l, left);
      advance(l);
    }
  }
  __device__ __forceinline__ void fetch(const lo_cu_operand &o, int left) {
    int by = way(o, left);
    if (by == LO_BY_CHUNKS)
      fetch_by<LO_BY_CHUNKS>(o, left);
    else if (by == LO_BY_WORDS)
      fetch_by<LO_BY_WORDS>(o, left);
    else
      fetch_by<LO_BY_ELEMENTS>(o, left);
  }

  __device__ __forceinline__ void store(char *stage) const {
#pragma unroll
    for (int l = 0; l < LOADS; l++) *(uint4 *)(stage + stage_t::place(line(l), chunk(l))) = raw[l];
  }
};

/* ---- BM x BN outputs; a warp has WM x WN of them. */
template <int MMA, int BM_, int BN_, int WM_, int WN_, bool TRANS_A, bool TRANS_B>
struct lo_mma_core {
  typedef lo_mma<MMA> mma;
  typedef typename mma::sum4 sum4;
  typedef typename mma::sum_t sum_t;
  typedef typename mma::element_t element_t;
  static constexpr int BM = BM_, BN = BN_, WM = WM_, WN = WN_;
  static constexpr int WARPS_N = BN / WN, WARPS = BM / WM * WARPS_N, THREADS = 32 * WARPS;
  typedef lo_mma_loader<element_t, !TRANS_A, BM, THREADS> loader_a;
  typedef lo_mma_loader<element_t, TRANS_B, BN, THREADS> loader_b;
  typedef typename loader_a::stage_t stage_a;
  typedef typename loader_b::stage_t stage_b;
  static constexpr int BK = stage_a::BK, STEPS = 4 / mma::CHUNKS; /* of an instruction's k */
  static constexpr int STAGE = stage_a::BYTES + stage_b::BYTES;   /* bytes */
  static constexpr int SHARED = 2 * STAGE, GROUPS = mma::GROUPS;
  static constexpr bool INTEGER = sizeof(element_t) == 1;
  static constexpr bool TIGHT = WM * WN >= 64 * 64; /* half of the registers are sums */
  static constexpr int PITCH = WN + 8;              /* of drain() */
  /* behind what drain() takes: the columns of the tile */
  static constexpr int COLUMNS = WARPS * 16 * PITCH * 4;
  typedef lo_tile_columns<BN, INTEGER> columns_t;
  static_assert(COLUMNS + sizeof(columns_t) <= SHARED, "shared memory");
  static_assert(STEPS % 2 == 0, "fragments take turns");

  int row0, col0; /* of the warp */
  lo_mma_reader<stage_a, WM> a;
  lo_mma_reader<stage_b, WN> b;
  unsigned fragment_a[2][mma::CHUNKS][WM / 8], fragment_b[2][mma::CHUNKS][WN / 8];
  sum_t acc[WM / 8 / GROUPS][WN / 8][2 * GROUPS];

  __device__ __forceinline__ lo_mma_core(char *shared)
      : row0(threadIdx.x / 32 / WARPS_N * WM), col0(threadIdx.x / 32 % WARPS_N * WN),
        a((unsigned)__cvta_generic_to_shared(shared), row0),
        b((unsigned)__cvta_generic_to_shared(shared) + stage_a::BYTES, col0) {
#pragma unroll
    for (int i = 0; i < WM / 8 / GROUPS; i++)
#pragma unroll
      for (int j = 0; j < WN / 8; j++)
#pragma unroll
        for (int e = 0; e < 2 * GROUPS; e++) acc[i][j][e] = 0;
  }

  __device__ __forceinline__ void load(int s) {
#pragma unroll
    for (int c = 0; c < mma::CHUNKS; c++) {
      a.load(fragment_a[s % 2][c], s * mma::CHUNKS + c);
      b.load(fragment_b[s % 2][c], s * mma::CHUNKS + c);
    }
  }

  __device__ __forceinline__ void multiply(int s) {
#pragma unroll
    for (int i = 0; i < WM / 8 / GROUPS; i++)
#pragma unroll
      for (int jj = 0; jj < WN / 8; jj++) {
        int j = i % 2 ? WN / 8 - 1 - jj : jj; /* to and fro: a fragment of B stays in place */
        unsigned x[mma::CHUNKS * GROUPS], y[mma::CHUNKS];
#pragma unroll
        for (int c = 0; c < mma::CHUNKS; c++) {
#pragma unroll
          for (int g = 0; g < GROUPS; g++) x[c * GROUPS + g] = fragment_a[s % 2][c][i * GROUPS + g];
          y[c] = fragment_b[s % 2][c][j];
        }
        mma::run(acc[i][j], x, y);
      }
  }

  __device__ __forceinline__ void turn(int bytes) {
    a.turn(bytes);
    b.turn(bytes);
  }

  /* Sixteen rows of a warp at a time, through memory of its own, to each(first row, sums). Lines
   * are 8 words longer than WN, so that the rows that lanes hold side by side find other banks. */
  template <class Each> __device__ __forceinline__ void drain(char *shared, Each each) {
    struct __align__(2 * sizeof(sum_t)) pair {
      sum_t x, y;
    };
    int lane = threadIdx.x % 32;
    sum_t *mine = (sum_t *)shared + threadIdx.x / 32 * 16 * PITCH;
#pragma unroll 1
    for (int pass = 0; pass < WM / 16; pass++) {
#pragma unroll
      for (int i = 0; i < WM / 16; i++) {
        if (i != pass) continue;
        sum_t *line = mine + lane / 4 * PITCH + lane % 4 * 2;
#pragma unroll
        for (int g = 0; g < 2; g++)
#pragma unroll
          for (int j = 0; j < WN / 8; j++) {
            const sum_t *c = acc[(2 * i + g) / GROUPS][j] + (2 * i + g) % GROUPS * 2;
            *(pair *)(line + 8 * g * PITCH + 8 * j) = {c[0], c[1]};
          }
      }
      __syncwarp();
      each(row0 + pass * 16, (const sum_t *)mine);
      __syncwarp();
    }
  }
};

/* ---- Sums over k beside the product, from the stages: of the rows of op(A), where these lie along
 * m in memory (a thread has two neighbours in some lines), and of the columns of 8-bit op(B) (a
 * thread has some chunks of one). */
template <class Core, bool INTEGER> struct lo_mma_sums {
  static constexpr int EACH = Core::BM / 2, LINES = Core::THREADS / EACH;
  static_assert(Core::THREADS % EACH == 0, "pairs");
  float sums[2];
  __device__ __forceinline__ void add(const char *stage, int bf16) {
    int i = threadIdx.x % EACH * 2;
#pragma unroll 4
    for (int k = threadIdx.x / EACH; k < Core::BK; k += LINES) {
      unsigned pair = *(const unsigned *)(stage + Core::stage_a::place(k, i / 8) + i % 8 * 2);
      sums[0] += lo_from_16((unsigned short)pair, bf16);
      sums[1] += lo_from_16((unsigned short)(pair >> 16), bf16);
    }
  }
};
template <class Core> struct lo_mma_sums<Core, true> {
  static constexpr int LINES = Core::THREADS / Core::BN;
  static_assert(LINES >= 1 && 4 % LINES == 0, "chunks of a column");
  int sum;
  __device__ __forceinline__ void add(const char *stage, int) {
#pragma unroll
    for (int c = threadIdx.x / Core::BN; c < 4; c += LINES) {
      int4 chunk = *(const int4 *)(stage + Core::stage_a::BYTES +
                                   Core::stage_b::place(threadIdx.x % Core::BN, c));
      sum = __dp4a(chunk.x, 0x01010101, sum);
      sum = __dp4a(chunk.y, 0x01010101, sum);
      sum = __dp4a(chunk.z, 0x01010101, sum);
      sum = __dp4a(chunk.w, 0x01010101, sum);
    }
  }
  /* The sums of the tile's columns; all threads meet before they read. */
  __device__ __forceinline__ void store(int *columns, int *shared) const {
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int i = threadIdx.x; i < Core::BN; i += Core::THREADS) {
      columns[i] = shared[i];
      for (int l = 1; l < LINES; l++) columns[i] += shared[l * Core::BN + i];
    }
  }
};

/* ---- The loop */
template <class Core> struct lo_mma_tiles {
  const lo_cu_gemm &p;
  typename Core::loader_a a;
  typename Core::loader_b b;
  __device__ __forceinline__ bool whole() const { return a.whole(p.a) && b.whole(p.b); }
  /* `left`: of k, from this tile on. */
  template <bool WHOLE> __device__ __forceinline__ void fetch(int left) {
    if (WHOLE) {
      a.fetch_whole();
      b.fetch_whole();
    } else {
      a.fetch(p.a, left);
      b.fetch(p.b, left);
    }
  }
  __device__ __forceinline__ void store(char *stage) const {
    a.store(stage);
    b.store(stage + Core::stage_a::BYTES);
  }
};

/* A step multiplies one stage, fills the other one with the next tile, and asks for the one after
 * it: for all of it at once, since the compiler has one scoreboard for all loads, and a store that
 * waits for the first of them waits for the last. `other`: the distance to the other stage; `left`:
 * of k, from the tile to be asked for on. */
template <bool WHOLE, class Core, class Tiles, class Arrived>
LO_FN void lo_mma_step(Core &core, Tiles &tiles, char *shared, int &other, int left,
                       Arrived &arrived) {
  char *stage = shared + (other > 0 ? other : 0);
  arrived(stage - other);
#pragma unroll
  for (int k = 0; k < Core::STEPS; k++) {
    if (k == Core::STEPS - 1) { /* all fragments of this stage are in registers */
      __syncthreads();
      core.turn(other);
      other = -other;
    }
    core.load((k + 1) % Core::STEPS);
    if (k == 0) {
      if (WHOLE || left + Core::BK > 0) tiles.store(stage);
      if (WHOLE || left > 0) tiles.template fetch<WHOLE>(left);
    }
    core.multiply(k);
  }
}

/* `whole`: the k of tiles that need no questions asked. arrived(stage) is told of each stage. */
template <class Core, class Tiles, class Arrived>
LO_FN void lo_mma_loop(Core &core, Tiles &tiles, char *shared, int k_count, int whole,
                       Arrived arrived) {
  if (k_count <= 0) return;
#pragma unroll 1
  for (int k = 0; k < 2 * Core::BK && k < k_count;
       k += Core::BK) { /* the second stays in registers */
    if (k + Core::BK <= whole)
      tiles.template fetch<true>(k_count - k);
    else
      tiles.template fetch<false>(k_count - k);
    if (k == 0) tiles.store(shared);
  }
  __syncthreads();
  core.load(0);
  int k = 2 * Core::BK, other = Core::STAGE; /* of the tile to be asked for */
#pragma unroll 1
  for (; k + Core::BK <= whole; k += Core::BK)
    lo_mma_step<true>(core, tiles, shared, other, Core::BK, arrived);
#pragma unroll 1
  for (; k - 2 * Core::BK < k_count; k += Core::BK)
    lo_mma_step<false>(core, tiles, shared, other, k_count - k, arrived);
  __syncthreads();
}

/* Where the block's tile begins: computed anew at each call, as the compiler would keep it in
 * registers that the main loop needs. */
template <class Core> LO_FN void lo_tile_origin(const lo_cu_gemm &p, lo_i64 &row0, lo_i64 &col0) {
  unsigned x;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
  lo_i64 tm, tn;
  lo_tile_at(p.tile0 + x, p.tiles_m, p.tiles_n, tm, tn);
  row0 = tm * Core::BM;
  col0 = tn * Core::BN;
}

/* grid: as lo_gemm's. */
template <class Core, bool TRANS_A> LO_FN void lo_gemm_mma(const lo_cu_gemm &p) {
  constexpr bool SUMS = TRANS_A || Core::INTEGER;
  extern __shared__ __align__(128) char shared[];
  lo_i64 row0, col0, k0 = blockIdx.y * p.slice;
  lo_tile_origin<Core>(p, row0, col0);
  int k_count = (int)(p.k - k0 < p.slice ? p.k - k0 : p.slice);
  bool row_sum = TRANS_A && !Core::INTEGER && p.e.row_sum.p && col0 == 0;
  /* alpha = 0 does not read the operands; sums by row come with alpha = 1 */
  if (lo_scalar_float(p.e.alpha) == 0.0f) k_count = 0;
  for (lo_i64 l = blockIdx.z; l < p.batch; l += gridDim.z) {
    lo_mma_tiles<Core> tiles = {p, {p.a, l, row0, k0}, {p.b, l, col0, k0}};
    int whole = tiles.whole() ? k_count : 0;
    Core core(shared);
    typename Core::columns_t &columns = *(typename Core::columns_t *)(shared + Core::COLUMNS);
    if constexpr (SUMS) {
      lo_mma_sums<Core, Core::INTEGER> side = {};
      bool wanted = Core::INTEGER ? p.e.zero_a.p != NULL : row_sum;
      lo_mma_loop(core, tiles, shared, k_count, whole, [&](const char *stage) {
        if (wanted) side.add(stage, p.bf16);
      });
      if (Core::TIGHT) lo_tile_origin<Core>(p, row0, col0);
      if constexpr (Core::INTEGER) {
        if (wanted) side.store(columns.sums, (int *)shared);
      } else if (wanted) {
        lo_drain_sums<Core>(p, (float *)shared, side.sums, lo_scalar_float(p.e.beta), row0);
      }
    } else {
      lo_mma_loop(core, tiles, shared, k_count, whole, [](const char *) {});
      if (Core::TIGHT) lo_tile_origin<Core>(p, row0, col0);
    }
    lo_lead();
    columns.stage(p.e, col0, lo_left(p.n, col0, Core::BN));
    __syncthreads();
    lo_ending end = lo_product_ending(p, l);
    core.drain(shared, [&](int row, const typename Core::sum_t *sums) {
      lo_finish_warp<16, Core::WN, Core::PITCH>(end, columns, core.col0, sums, row0 + row,
                                                col0 + core.col0, p.m, p.n);
    });
    __syncthreads();
    if (p.split > 1 && lo_comes_last(p, l)) {
      lo_add_parts<Core>(p, columns, l, row0, col0, row_sum);
      __syncthreads();
    }
  }
}

#endif

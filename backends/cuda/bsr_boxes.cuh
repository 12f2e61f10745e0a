/* Hopper's loop for block-sparse products of 16-bit types by groups of rows (bsr_group.cuh): one
 * warp has slabs and units copied by boxes (TMA) into a ring of stages, a lane each, and groups of
 * four warps have the tensor cores read them there (wgmma). The gradient of the weights has the
 * same ring, and mma.sync: units are narrower than wgmma's 64 rows. */
#ifndef LO_CUDA_BSR_BOXES_CUH
#define LO_CUDA_BSR_BOXES_CUH

#include "backends/cuda/bsr_mma.cuh"
#include "backends/cuda/bsr_queue.cuh"
#include "backends/cuda/tma.cuh"
#include "backends/cuda/wgmma.cuh"

/* ROWS x GROUP lines of units, of PARTS_M x PARTS_N groups of four warps. */
template <bool BF16_, bool TURN_, int UNIT_, int SLAB_, int ROWS_, int GROUP_, int SLABS_,
          int UNITS_, int PARTS_M_, int PARTS_N_, int STAGES_>
struct lo_bsr_boxes {
  static constexpr bool BF16 = BF16_, TURN = TURN_;
  static constexpr int UNIT = UNIT_, SLAB = SLAB_, BM = ROWS_, GROUP = GROUP_, SLABS = SLABS_;
  static constexpr int UNITS = UNITS_, PARTS_M = PARTS_M_, PARTS_N = PARTS_N_, STAGES = STAGES_;
  static constexpr int GROUPS = PARTS_M * PARTS_N, WORKERS = 128 * GROUPS, THREADS = WORKERS + 128;
  /* Registers of a thread: the copying warp's whole group hands on what it does not need. */
  static constexpr int LEFT = 40, MORE = 232;
  static_assert(GROUPS == 2 && 128 * (LEFT + GROUPS * MORE) <= 64 * 1024, "registers");
  static constexpr int WM = BM / PARTS_M, TALL = WM / 64, BN = GROUP * UNIT;
  static constexpr int EACH = GROUP / PARTS_N, WN = EACH * UNIT;
  static constexpr int ROW_X = 2 * SLAB, ROW_W = 2 * UNIT;
  static constexpr int SLAB_BYTES = BM * ROW_X, UNIT_BYTES = UNIT * ROW_W;
  static constexpr int OFFSET_W = SLABS * SLAB_BYTES, STAGE = OFFSET_W + UNITS * UNIT_BYTES;
  typedef lo_bsr_step<SLABS, UNITS> step_t;
  static constexpr int WORDS = sizeof(step_t) / 4, CODES = UNITS / 2 + 2; /* the last words */
  /* Behind the stages: each warp's sums on their way out, 16 rows by 64 columns at a time; the
   * stages' barriers, and their steps' codes. */
  static constexpr int COLS = 64, PIECES = TALL * WN / COLS, PITCH = COLS + 8;
  static constexpr int SUMS = STAGES * STAGE, BARRIERS = SUMS + 16 * PITCH * 4 * (WORKERS / 32);
  static constexpr int NAMES = BARRIERS + STAGES * 16;
  static constexpr int QUEUE = NAMES + (STAGES * CODES * 4 + 15) / 16 * 16;
  static constexpr int BYTES = QUEUE + LO_BSR_QUEUE + 1024;
  static_assert(STAGE % 1024 == 0 && OFFSET_W <= 16 << LO_CU_BSR_LINE_SHIFT, "borders");
  static_assert(SLABS + UNITS <= 32 && WORDS <= 32, "a lane each");
};

#if __CUDA_ARCH_FEAT_SM90_ALL
/* Lines of ROW bytes, swizzled as TMA does. */
template <int ROW> LO_FN lo_u64 lo_lines_operand(unsigned address) {
  constexpr unsigned kind = ROW == 128 ? 1 : ROW == 64 ? 2 : 3;
  return (lo_u64)(8 * ROW >> 4 | kind << 30) << 32 | address;
}
template <bool BF16, bool TURN, int N>
LO_FN void lo_unit_mma(float (&d)[N / 2], lo_u64 a, lo_u64 b) {
  const int add = 1;
#define LO_RUN(TYPE, TAIL)                                                                         \
  if constexpr (N == 32)                                                                           \
    LO_WGMMA("m64n32k16.f32." TYPE "." TYPE, LO_R16, "16", "17", "18", TAIL, LO_D16("+f", 0));     \
  else                                                                                             \
    LO_WGMMA("m64n16k16.f32." TYPE "." TYPE, "%0, %1, %2, %3, %4, %5, %6, %7", "8", "9", "10",     \
             TAIL, LO_D4("+f", 0), LO_D4("+f", 4))
  if constexpr (BF16) {
    if constexpr (TURN) {
      LO_RUN("bf16", ", 1, 1, 0, 1");
    } else {
      LO_RUN("bf16", ", 1, 1, 0, 0");
    }
  } else {
    if constexpr (TURN) {
      LO_RUN("f16", ", 1, 1, 0, 1");
    } else {
      LO_RUN("f16", ", 1, 1, 0, 0");
    }
  }
#undef LO_RUN
}

/* a, b: addresses in 16 bytes */
template <class T> struct lo_bsr_boxes_core {
  float acc[T::EACH][T::TALL][T::UNIT / 2];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < T::EACH; r++)
#pragma unroll
      for (int i = 0; i < T::TALL; i++)
#pragma unroll
        for (int j = 0; j < T::UNIT / 2; j++) acc[r][i][j] = 0;
  }
  /* 16 rows of the warp by COLS columns, to lines of PITCH. */
  template <int PIECE> __device__ __forceinline__ void put(float *sums) const {
    constexpr int UNITS = T::COLS / T::UNIT, FIRST = PIECE % (T::WN / T::COLS) * UNITS;
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int u = 0; u < UNITS; u++)
#pragma unroll
      for (int j = 0; j < T::UNIT / 8; j++) {
        const float *from = acc[FIRST + u][PIECE / (T::WN / T::COLS)] + 4 * j;
        float *line = sums + lane / 4 * T::PITCH + u * T::UNIT + 8 * j + lane % 4 * 2;
        *(float2 *)line = make_float2(from[0], from[1]);
        *(float2 *)(line + 8 * T::PITCH) = make_float2(from[2], from[3]);
      }
  }
  template <int R> __device__ __forceinline__ void multiply(unsigned a, unsigned b) {
#pragma unroll
    for (int k = 0; k < T::UNIT / 16; k++)
#pragma unroll
      for (int i = 0; i < T::TALL; i++)
        lo_unit_mma<T::BF16, T::TURN, T::UNIT>(
            acc[R][i], lo_lines_operand<T::ROW_X>(a + i * (64 * T::ROW_X / 16) + 2 * k),
            lo_lines_operand<T::ROW_W>(b + (T::TURN ? T::ROW_W : 2) * k));
  }
  __device__ __forceinline__ void multiply(int line, unsigned a, unsigned b) {
    lo_one_of<T::EACH>(line, [&](auto which) { multiply<decltype(which)::value>(a, b); });
  }
};
#endif

/* A ring's stage, and the parity of its round. */
template <int STAGES> struct lo_bsr_turn {
  int at;
  unsigned parity;
  __device__ __forceinline__ void next() {
    if (++at < STAGES) return;
    at = 0;
    parity ^= 1;
  }
};

#if __CUDA_ARCH_FEAT_SM90_ALL
/* The copying warp, one tile's steps: lane l has the step's word l, and copies what that names. */
template <class T>
LO_FN void lo_bsr_copy_steps(const lo_cu_boxed_bsr16 &g, unsigned ring, char *base,
                             lo_bsr_turn<T::STAGES> &turn, int row0, int first, int last) {
  constexpr int STEP = T::step_t::WORDS;
  int lane = threadIdx.x % 32;
  const int *words = (const int *)g.p.steps + (lane < T::WORDS ? lane : 0);
  int word = first < last ? words[(lo_i64)first * STEP] : 0;
  int next = first + 1 < last ? words[(lo_i64)(first + 1) * STEP] : 0;
#pragma unroll 1
  for (int s = first; s < last; s++, turn.next()) {
    unsigned stage = ring + turn.at * T::STAGE, full = ring + T::BARRIERS + turn.at * 16;
    int after = s + 2 < last ? words[(lo_i64)(s + 2) * STEP] : 0;
    int count = __shfl_sync(~0u, word, T::WORDS - 1) & 255; /* start[4] */
    bool slab = lane < T::SLABS && word >= 0, unit = lane >= T::SLABS && lane < T::SLABS + count;
    int slabs = __popc(__ballot_sync(~0u, slab));
    lo_mbarrier_wait(full + 8, turn.parity);
    int *codes = (int *)(base + T::NAMES) + turn.at * T::CODES - (T::WORDS - T::CODES);
    if (lane >= T::WORDS - T::CODES && lane < T::WORDS) codes[lane] = word;
    __syncwarp();
    if (lane == 0) lo_mbarrier_arrive_expect(full, slabs * T::SLAB_BYTES + count * T::UNIT_BYTES);
    __syncwarp();
    if (slab) {
      lo_box_copy(stage + lane * T::SLAB_BYTES, &g.x, full, word, row0, 0);
    } else if (unit) {
      lo_i64 from = 8 * (lo_i64)word;
      lo_box_copy(stage + T::OFFSET_W + (lane - T::SLABS) * T::UNIT_BYTES, &g.w, full,
                  (int)(from & ((1 << g.p.pitch_log2) - 1)), (int)(from >> g.p.pitch_log2), 0);
    }
    word = next, next = after;
  }
}

/* The others, one tile's steps. */
template <class T>
LO_FN void lo_bsr_multiply_steps(lo_bsr_boxes_core<T> &core, unsigned ring, const char *base,
                                 lo_bsr_turn<T::STAGES> &turn, int part_m, int part, int steps) {
  constexpr unsigned QUARTERS = 4 / T::PARTS_N, BELOW = (1 << LO_CU_BSR_LINE_SHIFT) - 1;
  unsigned before = 0, lane = threadIdx.x % 32;
#pragma unroll 1
  for (int s = 0; s < steps; s++, turn.next()) {
    unsigned full = ring + T::BARRIERS + turn.at * 16;
    unsigned x = (ring + turn.at * T::STAGE + part_m * T::WM * T::ROW_X) >> 4;
    unsigned w = (ring + turn.at * T::STAGE + T::OFFSET_W) >> 4;
    lo_mbarrier_wait(full, turn.parity);
    const unsigned char *starts = (const unsigned char *)base + T::NAMES + turn.at * T::CODES * 4;
    const unsigned short *codes = (const unsigned short *)starts;
    starts += T::UNITS * 2 + part * QUARTERS;
    int e = lo_same(starts[0]), end = lo_same(starts[QUARTERS]);
    unsigned next = lo_same(codes[e]);
    w += e * (T::UNIT_BYTES / 16);
    lo_wgmma_fence();
#pragma unroll 1
    for (; e < end; e++, w += T::UNIT_BYTES / 16) {
      unsigned code = next;
      next = lo_same(codes[e + 1]);
      core.multiply((int)(code >> LO_CU_BSR_LINE_SHIFT) - part * T::EACH, x + (code & BELOW), w);
    }
    lo_wgmma_commit();
    if (s) {
      lo_wgmma_wait<1>();
      if (lane == 0) lo_mbarrier_arrive(before);
    }
    before = full + 8;
  }
  lo_wgmma_wait<0>();
  if (steps && lane == 0) lo_mbarrier_arrive(before);
}
#endif

#if __CUDA_ARCH_FEAT_SM90_ALL
/* The copying warp: the tiles of all groups of lines, the longest first, of some rows of X, then of
 * the next. */
template <class T>
LO_FN void lo_bsr_copy_tiles(const lo_cu_boxed_bsr16 &g, unsigned ring, char *base) {
  const lo_cu_bsr16 &p = g.p;
  unsigned groups = (unsigned)p.groups, tiles = groups * (unsigned)p.tiles_m;
  bool empty = lo_scalar_float(p.e.alpha) == 0.0f;
  lo_bsr_turn<T::STAGES> turn = {0, 1};
  lo_bsr_queue<T> queue(ring);
  lo_bsr_numbers numbers(p.taken);
#pragma unroll 1
  for (unsigned at; (at = numbers.next()) < tiles;) {
    int group = p.order[at % groups], first = p.first[group], last = p.first[group + 1];
    lo_bsr_tile t = {group, first, empty ? first : last, (int)(at / groups), 0};
    queue.put(t);
    numbers.ask();
    lo_bsr_copy_steps<T>(g, ring, base, turn, t.tm * T::BM, t.begin, t.end);
  }
  queue.put({-1, 0, 0, 0, 0});
  numbers.end();
  lo_lead();
}
#endif

/* A block goes on to its next tile, which is copied already, while its last one leaves. */
template <class T>
__global__ void __launch_bounds__(T::THREADS, 1)
    bsr_boxes_kernel(const __grid_constant__ lo_cu_boxed_bsr16 g) {
#if __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) char memory[];
  __shared__ __align__(16) lo_tile_columns<T::BN, false> columns;
  const lo_cu_bsr16 &p = g.p;
  unsigned ring = ((unsigned)__cvta_generic_to_shared(memory) + 1023) & ~1023u;
  char *base = memory + (ring - (unsigned)__cvta_generic_to_shared(memory));
  lo_bsr_queue<T> queue(ring);
  int warp = lo_same((int)threadIdx.x / 32);
  if (warp == T::WORKERS / 32) {
    if (lo_elect()) {
#pragma unroll
      for (int s = 0; s < T::STAGES; s++) {
        lo_mbarrier_init(ring + T::BARRIERS + s * 16, 1);
        lo_mbarrier_init(ring + T::BARRIERS + s * 16 + 8, T::GROUPS * 4);
      }
    }
    queue.init();
  }
  __syncthreads();
  lo_follow();
  if (warp >= T::WORKERS / 32) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(T::LEFT));
    if (warp == T::WORKERS / 32) lo_bsr_copy_tiles<T>(g, ring, base);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(T::MORE));
  int part_m = warp / 4 / T::PARTS_N, part = warp / 4 % T::PARTS_N;
  float *sums = (float *)(base + T::SUMS) + warp * 16 * T::PITCH;
  lo_ending ending = lo_ending_of(p.e, 0, false);
  lo_bsr_turn<T::STAGES> turn = {0, 0};
  lo_bsr_tile t;
#pragma unroll 1
  while (queue.take(t)) {
    lo_i64 row0 = (lo_i64)t.tm * T::BM + part_m * T::WM + warp % 4 * 16;
    lo_i64 col0 = (lo_i64)t.line * T::BN;
    asm volatile("bar.sync 1, %0;" ::"n"(T::WORKERS) : "memory"); /* columns were read */
    columns.stage(p.e, col0, lo_left(p.n, col0, T::BN), threadIdx.x, T::WORKERS);
    lo_bsr_boxes_core<T> core;
    core.clear();
    lo_bsr_multiply_steps(core, ring, base, turn, part_m, part, lo_same(t.end - t.begin));
    asm volatile("bar.sync 1, %0;" ::"n"(T::WORKERS) : "memory");
#pragma unroll 1
    for (int piece = 0; piece < T::PIECES; piece++) {
      lo_one_of<T::PIECES>(piece,
                           [&](auto which) { core.template put<decltype(which)::value>(sums); });
      __syncwarp();
      int tall = piece / (T::WN / T::COLS);
      int col = part * T::WN + piece % (T::WN / T::COLS) * T::COLS;
      if (row0 + 64 * tall < p.m && col0 + col < p.n)
        lo_finish_warp<16, T::COLS, T::PITCH>(ending, columns, col, sums, row0 + 64 * tall,
                                              col0 + col, p.m, p.n);
      __syncwarp();
    }
  }
#endif
}

/* ---- The gradient of the weights: dZ and X by boxes of BK rows by SLAB columns. */
template <class T> struct lo_bsr_wgrad_ring {
  static constexpr int BARRIERS = T::ROOM, BYTES = BARRIERS + T::STAGES * 16 + 1024;
  static_assert(T::SLABS <= 32, "a lane each");
};

template <class T>
__global__ void __launch_bounds__(T::WORKERS + 32, T::RESIDENT)
    bsr_wgrad_boxes_kernel(const __grid_constant__ lo_cu_boxed_bsr_wgrad g) {
#if __CUDA_ARCH_FEAT_SM90_ALL
  typedef typename T::chunk_t chunk_t;
  constexpr int BARRIERS = lo_bsr_wgrad_ring<T>::BARRIERS;
  extern __shared__ __align__(1024) char memory[];
  __shared__ __align__(16) int name[chunk_t::WORDS];
  const lo_cu_bsr_wgrad &p = g.p;
  const chunk_t &chunk = *(const chunk_t *)name;
  unsigned ring = ((unsigned)__cvta_generic_to_shared(memory) + 1023) & ~1023u;
  char *base = memory + (ring - (unsigned)__cvta_generic_to_shared(memory));
  int warp = lo_same((int)threadIdx.x / 32), lane = threadIdx.x % 32;
  for (int i = threadIdx.x; i < chunk_t::WORDS; i += T::WORKERS + 32)
    name[i] = ((const int *)p.chunks)[(lo_i64)blockIdx.x * chunk_t::WORDS + i];
  if (warp == T::WARPS && lo_elect()) {
#pragma unroll
    for (int s = 0; s < T::STAGES; s++) {
      lo_mbarrier_init(ring + BARRIERS + s * 16, 1);
      lo_mbarrier_init(ring + BARRIERS + s * 16 + 8, T::WARPS);
    }
    lo_mbarrier_publish();
  }
  __syncthreads();
  lo_follow();
  int steps = (int)((p.m + T::BK - 1) / T::BK), at = 0;
  if (lo_scalar_float(p.e.alpha) == 0.0f) steps = 0;
  if (warp == T::WARPS) {
    int column = lane < chunk.slabs ? chunk.column[lane] : 0;
    const lo_cu_map *map = lane < chunk.slabs_z ? &g.z : &g.x;
    unsigned parity = 1;
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
      unsigned full = ring + BARRIERS + at * 16;
      lo_mbarrier_wait(full + 8, parity);
      if (lane == 0) lo_mbarrier_arrive_expect(full, chunk.slabs * T::SLAB_BYTES);
      __syncwarp();
      if (lane < chunk.slabs)
        lo_box_copy(ring + at * T::STAGE + lane * T::SLAB_BYTES, map, full, column, s * T::BK, 0);
      if (++at == T::STAGES) at = 0, parity ^= 1;
    }
    return;
  }
  T core;
  core.clear();
  unsigned parity = 0;
#pragma unroll 1
  for (int s = 0; s < steps; s++) {
    unsigned full = ring + BARRIERS + at * 16;
    lo_mbarrier_wait(full, parity);
    core.multiply_all(chunk, ring + at * T::STAGE);
    __syncwarp();
    if (lane == 0) lo_mbarrier_arrive(full + 8);
    if (++at == T::STAGES) at = 0, parity ^= 1;
  }
  asm volatile("bar.sync 1, %0;" ::"n"(T::WORKERS) : "memory");
  lo_lead();
  core.finish(p, chunk, base);
#endif
}

#endif

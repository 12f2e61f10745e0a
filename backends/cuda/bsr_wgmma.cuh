/* Block-sparse products on Hopper's main loop: the ring, the tensor cores' steps and the ends of
 * gemm_wgmma.cuh, fed by the pattern. 64 of k a step, blocks of 64 or 128.
 *
 *   Y = X W^T     a block row of W by rows of X; steps go through its kept blocks
 *   dX = dZ W     a block column, likewise
 *   dW = dZ^T X   kept blocks of one block row side by side, which share dZ; steps go along m
 *
 * Lines (block rows, columns or runs of blocks) are of any length, so blocks take tiles as they
 * come: in the order of a list of lines, the longest first, and of groups of `high` tiles below
 * each other, whose rows of X stay in the second-level cache while all lines go by. */
#ifndef LO_CUDA_BSR_WGMMA_CUH
#define LO_CUDA_BSR_WGMMA_CUH

#include "backends/cuda/bsr_queue.cuh"
#include "backends/cuda/gemm_wgmma.cuh"

/* A tile of lines: TEAMS teams take turns, each with SHARE groups' 64 outputs of a line by ROWS
 * rows of X. */
template <int TEAMS_, int SHARE_, int ROWS_, int STAGES_> struct lo_bsr_line_tile {
  static constexpr int TEAMS = TEAMS_, SHARE = SHARE_, ROWS = ROWS_, STAGES = STAGES_;
  static constexpr int GROUPS = TEAMS * SHARE, WORKERS = 128 * GROUPS, READERS = SHARE * 4;
  static constexpr int CLUSTER = 1, OUT = 64 * SHARE, A = OUT * 128, STAGE = A + ROWS * 128;
  static constexpr int TURN = 2048, TURNS = STAGE * STAGES, COLUMNS = TURNS + WORKERS / 32 * TURN;
  typedef lo_tile_columns<64, false, false, false> columns_t;
  static constexpr int BARRIERS = COLUMNS + GROUPS * (int)sizeof(columns_t);
  static constexpr int QUEUE = BARRIERS + STAGES * 16, BYTES = QUEUE + LO_BSR_QUEUE;
  static constexpr int RESIDENT = 2 * (BYTES + 1024) <= 228 * 1024 ? 2 : 1;
  typedef lo_wgmma_registers<GROUPS, RESIDENT> registers;
  static constexpr int THREADS = registers::THREADS;
};

/* A tile of wgrad: GM groups below each other by GN side by side, each with TALL blocks' BN columns
 * of 64 rows. */
template <int GM_, int GN_, int TALL_, int BN_, int STAGES_> struct lo_bsr_run_tile {
  static constexpr int GM = GM_, GN = GN_, GROUPS = GM * GN, TALL = TALL_, BN = BN_;
  static constexpr int STAGES = STAGES_, CLUSTER = 1, WORKERS = 128 * GROUPS;
  static constexpr int READERS = GROUPS * 4;
  static constexpr int PANELS = GN * TALL * BN / 64, BLOCKS = GN * TALL, SIXTEENS = TALL * BN / 32;
  static constexpr int A = GM * LO_PANEL, STAGE = A + PANELS * LO_PANEL, BOXES = STAGE * STAGES;
  static constexpr int TURN = 2048, COLUMNS = BOXES + WORKERS / 32 * TURN;
  typedef lo_tile_columns<BN, false, false, false> columns_t;
  static constexpr int BARRIERS = COLUMNS + GROUPS * (int)sizeof(columns_t);
  static constexpr int QUEUE = BARRIERS + STAGES * 16, BYTES = QUEUE + LO_BSR_QUEUE;
  static constexpr int RESIDENT = 2 * (BYTES + 1024) <= 228 * 1024 ? 2 : 1;
  typedef lo_wgmma_registers<GROUPS, RESIDENT> registers;
  static constexpr int THREADS = registers::THREADS;
};

#if __CUDA_ARCH_FEAT_SM90_ALL
/* The copying warp's tiles. What the next one is is found out while one is copied. */
template <class T> struct lo_bsr_source {
  const lo_cu_bsr_wgmma &p;
  lo_bsr_queue<T> &queue;
  bool counts; /* alpha = 0 does not read the operands */
  lo_bsr_numbers numbers;
  bool known;
  lo_bsr_tile ahead;
  __device__ __forceinline__ lo_bsr_source(const lo_cu_bsr_wgmma &p_, lo_bsr_queue<T> &queue_)
      : p(p_), queue(queue_), counts(lo_sums_count(p_.boxed.g.e)), numbers(p_.taken), known(false) {
    look();
  }
  __device__ __forceinline__ void look() {
    if (known) return;
    known = true;
    unsigned at = numbers.next();
    ahead.line = -1;
    if (at >= p.tiles) return;
    unsigned each = p.high * p.lines * p.parts, group = at / each, rest = at - group * each;
    unsigned left = p.tiles_m - group * p.high, high = left < p.high ? left : p.high;
    unsigned part = rest / high, line = part / p.parts;
    int4 span = *(const int4 *)(p.spans + 4 * line);
    ahead = {span.x, span.y, counts ? span.z : span.y, (int)(group * p.high + rest - part * high),
             (int)(part - line * p.parts)};
  }
  __device__ __forceinline__ bool next(lo_bsr_tile &t) {
    look();
    t = ahead;
    queue.put(t);
    known = false;
    if (t.line >= 0)
      numbers.ask();
    else
      numbers.end();
    return t.line >= 0;
  }
};

/* Named barriers, a team each, behind those of groups. */
enum { LO_BSR_TURN = LO_WGMMA_GROUP + 4 };

/* ---- Forward and dgrad: op(A) is the block of W, or turned, op(B) the rows of X. */
template <class T, bool TURNED> struct lo_bsr_line_copier {
  const lo_cu_bsr_wgmma &p;
  lo_wgmma_ring<T> &ring;
  int lane;
  int other, place; /* of the lane's kept block: the block column (row), and where its values are */

  __device__ __forceinline__ lo_bsr_line_copier(const lo_cu_bsr_wgmma &p_, lo_wgmma_ring<T> &ring_)
      : p(p_), ring(ring_), lane(threadIdx.x % 32), other(0), place(0) {}
  __device__ __forceinline__ void look(int first, int end) {
    if (first + lane >= end) return;
    other = p.other[first + lane];
    place = p.place ? p.place[first + lane] : first + lane;
  }
  __device__ __forceinline__ void copy_block(int column, int at, const lo_bsr_tile &t) {
    int k = column * p.depth, y = at * p.height, out = t.part * T::OUT;
#pragma unroll 1
    for (int d = 0; d < p.depth; d += 64, ring.next()) {
      LO_DELAY(EMPTY);
      lo_mbarrier_wait(ring.empty(), ring.parity ^ 1);
      if (lo_elect()) {
        LO_DELAY(COPY);
        unsigned stage = ring.stage(), full = ring.full();
        lo_mbarrier_arrive_expect(full, T::STAGE);
        lo_box_copy(stage + T::A, &p.boxed.b, full, k + d, t.tm * T::ROWS, 0);
        if (TURNED) {
#pragma unroll
          for (int j = 0; j < T::SHARE; j++)
            lo_box_copy(stage + j * LO_PANEL, &p.boxed.a, full, out + j * 64, y + d, 0);
        } else {
          lo_box_copy(stage, &p.boxed.a, full, d, y + out, 0);
        }
      }
      __syncwarp();
    }
  }
  /* A step further to the next tile: what it is, then where its blocks are. */
  __device__ __forceinline__ void prepare(lo_bsr_source<T> &source, bool &listed) {
    if (source.known && !listed) {
      look(source.ahead.begin, source.ahead.line < 0 ? 0 : source.ahead.end);
      listed = true;
    }
    source.look();
  }
  __device__ __forceinline__ void copy_tile(const lo_bsr_tile &t, lo_bsr_source<T> &source) {
    bool listed = false;
#pragma unroll 1
    for (int first = t.begin; first < t.end; first += 32) {
      int count = t.end - first < 32 ? t.end - first : 32, columns = other, places = place;
      bool last = first + 32 >= t.end;
      if (!last) look(first + 32, t.end); /* while what was found is used */
#pragma unroll 1
      for (int i = 0; i < count; i++) {
        copy_block(__shfl_sync(~0u, columns, i), __shfl_sync(~0u, places, i), t);
        if (last) prepare(source, listed);
      }
    }
    while (!listed) prepare(source, listed);
  }
  __device__ __forceinline__ void run(lo_bsr_source<T> &source) {
    lo_bsr_tile t;
    if (source.ahead.line >= 0) look(source.ahead.begin, source.ahead.end);
    while (source.next(t)) copy_tile(t, source);
  }
};

/* A group's sums: 64 outputs by ROWS rows of X. A lane has, of each 8 rows, two in each of two
 * outputs, eight apart. */
template <int TYPE, class T, bool TURNED> struct lo_bsr_line_core {
  static constexpr int TYPE_C = TYPE == LO_WGMMA_BF16 ? LO_TYPE_BF16 : LO_TYPE_F16;
  float acc[T::ROWS / 2];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < T::ROWS / 2; i++) acc[i] = 0;
  }
  __device__ __forceinline__ void multiply(unsigned stage, bool begun) {
    int share = lo_uniform((int)threadIdx.x / 128 % T::SHARE);
    lo_u64 a = lo_wgmma_operand(stage + share * LO_PANEL, LO_PANEL);
    lo_u64 b = lo_wgmma_operand(stage + T::A, LO_PANEL);
    lo_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++)
      lo_wgmma<TYPE, T::ROWS, TURNED, true>::run(acc, lo_wgmma_further<!TURNED>(a, k),
                                                 lo_wgmma_further<true>(b, k), k || begun);
    lo_wgmma_commit();
  }
};

/* The end of a warp's sums, which turns them: 16 outputs are neighbours in a row of C. */
template <class Core, class T> struct lo_bsr_line_ends {
  const Core &core;
  const lo_cu_gemm &g;
  const lo_ending end;
  const typename T::columns_t &columns;
  int lane, column; /* the warp's first one, of the group's */
  char *turn;       /* memory of the warp's own */
  int row, col;     /* of C */

  /* Eight neighbours may be stored at once. */
  __device__ __forceinline__ bool is_wide() const {
    const lo_cu_output &c = g.e.c;
    return c.type == Core::TYPE_C && g.n % 8 == 0 && (((lo_i64)c.p | c.stride * 2) & 15) == 0;
  }
  template <int KIND> __device__ __forceinline__ void activate(float (&z)[16]) const {
    float floor = end.e.activation == LO_ACT_RELU ? 0.0f : -LO_INFINITY;
    if (KIND >= LO_ACT_GELU_F16)
      lo_act_short(KIND, z);
    else
#pragma unroll
      for (int i = 0; i < 16; i++) z[i] = lo_not_below(z[i], floor);
  }
  /* 32 rows at a time. Their lines of two chunks of 16 bytes are swizzled, so that all banks are
   * found. */
  template <int KIND> __device__ __forceinline__ void store() const {
    unsigned to = (unsigned)__cvta_generic_to_shared(turn);
    unsigned put = to + (lane / 16 * 8 + lane % 8) * 32 + (lane / 8 % 2 ^ lane / 4 % 2) * 16;
    unsigned get = to + lane / 2 * 32 + (lane % 2 ^ lane / 8 % 2) * 16;
    float bias[2] = {columns.bias[column + lane / 4], columns.bias[column + lane / 4 + 8]};
    bool mine = lane % 2 * 8 < g.n - col;
    int rows = lo_left(g.m, row + lane / 2, T::ROWS);
    unsigned short *c =
        (unsigned short *)end.to + (row + lane / 2) * end.stride + col + lane % 2 * 8;
#pragma unroll
    for (int i = 0; i < T::ROWS / 32; i++) {
      float z[16];
#pragma unroll
      for (int e = 0; e < 16; e++)
        z[e] = __fmaf_rn(end.alpha, core.acc[16 * i + e], bias[e / 2 % 2]);
      activate<KIND>(z);
#pragma unroll
      for (int h = 0; h < 2; h++) {
        uint2 low = lo_to_16x4(make_float4(z[8 * h], z[8 * h + 1], z[8 * h + 2], z[8 * h + 3]),
                               Core::TYPE_C == LO_TYPE_BF16);
        uint2 high = lo_to_16x4(make_float4(z[8 * h + 4], z[8 * h + 5], z[8 * h + 6], z[8 * h + 7]),
                                Core::TYPE_C == LO_TYPE_BF16);
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         put + i % 2 * 1024 + h * 512),
                     "r"(low.x), "r"(low.y), "r"(high.x), "r"(high.y)
                     : "memory");
      }
      __syncwarp();
#pragma unroll
      for (int h = 0; h < 2; h++) {
        uint4 line;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(line.x), "=r"(line.y), "=r"(line.z), "=r"(line.w)
                     : "r"(get + i % 2 * 1024 + h * 512)
                     : "memory");
        if (mine && 32 * i + 16 * h < rows)
          lo_store_words(c + (32 * i + 16 * h) * end.stride, line);
      }
    }
  }
  /* Any epilogue, 16 rows at a time. */
  __device__ __forceinline__ void finish() const {
    constexpr int PITCH = 20;
    float *sums = (float *)turn;
#pragma unroll 1
    for (int piece = 0; piece < T::ROWS / 16; piece++) {
#pragma unroll
      for (int i = 0; i < T::ROWS / 16; i++)
        if (i == piece)
#pragma unroll
          for (int e = 0; e < 8; e++)
            sums[(e / 4 * 8 + lane % 4 * 2 + e % 2) * PITCH + lane / 4 + e / 2 % 2 * 8] =
                core.acc[8 * i + e];
      __syncwarp();
      if (row + 16 * piece < g.m && col < g.n)
        lo_finish_warp<16, 16, PITCH>(end, columns, column, (const float *)sums, row + 16 * piece,
                                      col, g.m, g.n);
      __syncwarp();
    }
  }
  __device__ __forceinline__ void run() const {
    constexpr int GELU = Core::TYPE_C == LO_TYPE_F16 ? LO_ACT_GELU_F16 : LO_ACT_GELU_BF16;
    if (!is_wide() || end.ends & ~LO_END_ACTIVATION)
      finish();
    else if (!end.ends)
      store<LO_ACT_RELU>();
    else if (end.e.activation == GELU)
      store<GELU>();
    else if (end.e.activation == LO_ACT_SILU_16)
      store<LO_ACT_SILU_16>();
    else
      finish();
  }
};

/* Groups of a team share a tile; teams take turns. A team begins when the one before has seen its
 * last stage full: else what it waits for could be two rounds of the ring ahead, which a barrier's
 * parity does not tell from none. */
template <class Core, class T, bool TURNED> struct lo_bsr_line_worker {
  typedef lo_bsr_line_copier<T, TURNED> copier_t;
  typedef typename T::columns_t columns_t;
  const lo_cu_bsr_wgmma &p;
  char *memory;
  int group;
  Core core;
  columns_t &columns;

  __device__ __forceinline__ lo_bsr_line_worker(const lo_cu_bsr_wgmma &p_, char *memory_)
      : p(p_), memory(memory_), group(lo_uniform((int)threadIdx.x / 128)),
        columns(((columns_t *)(memory_ + T::COLUMNS))[group]) {}

  static constexpr int ALL = 128 * T::SHARE * T::TEAMS;
  static_assert(T::TEAMS <= 2, "who hands on, and who waits, are all");
  __device__ __forceinline__ void hand_on() const {
    if (T::TEAMS > 1) lo_arrive<ALL>(LO_BSR_TURN + (group / T::SHARE ^ 1));
  }
  __device__ __forceinline__ void wait_turn() const {
    if (T::TEAMS > 1) lo_meet<ALL>(LO_BSR_TURN + group / T::SHARE);
  }
  __device__ __forceinline__ void run_tile(lo_wgmma_ring<T> &ring, const lo_bsr_tile &t, int steps,
                                           bool first) {
    const lo_cu_gemm &g = p.boxed.g;
    int left = steps, col0 = t.line * p.width + t.part * T::OUT + group % T::SHARE * 64;
    if (!steps) core.clear();
    LO_DELAY(GROUP);
    lo_group_sync(); /* the tile before has read its columns */
    LO_DELAY(COLUMNS);
    columns.stage(g.e, col0, lo_left(g.n, col0, 64), threadIdx.x % 128, 128);
    ring.make_uniform();
    if (!first) wait_turn();
    if (!steps) hand_on();
    lo_wgmma_steps(core, ring, ring, 0, lo_uniform(steps), [&](unsigned) {
      if (--left == 0) hand_on();
    });
    LO_DELAY(GROUP);
    lo_group_sync();
    int thread; /* as in lo_wgmma_worker::end() */
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    int column = thread / 32 % 4 * 16;
    LO_DELAY(END);
    lo_bsr_line_ends<Core, T>{
        core,         g,      lo_ending_of(g.e, 0, false, columns.factors), columns,
        thread % 32,  column, memory + T::TURNS + thread / 32 * T::TURN,    t.tm * T::ROWS,
        col0 + column}
        .run();
  }
  __device__ __forceinline__ void run(lo_wgmma_ring<T> &ring, lo_bsr_queue<T> &queue) {
    lo_bsr_tile t;
    int number = 0;
    for (; queue.take(t); number++) {
      int steps = (t.end - t.begin) * (p.depth / 64);
      if (number % T::TEAMS == group / T::SHARE)
        run_tile(ring, t, steps, number == 0);
      else
        ring.skip(steps);
    }
    if (number && number % T::TEAMS == group / T::SHARE) wait_turn(); /* which was handed on */
  }
};

/* ---- wgrad */
template <class T> struct lo_bsr_run_copier {
  const lo_cu_bsr_wgmma &p;
  lo_wgmma_ring<T> &ring;
  __device__ __forceinline__ lo_bsr_run_copier(const lo_cu_bsr_wgmma &p_, lo_wgmma_ring<T> &ring_)
      : p(p_), ring(ring_) {}
  __device__ __forceinline__ void copy_tile(const lo_bsr_tile &t, int steps,
                                            lo_bsr_source<T> &source) {
    constexpr int EACH = T::BN / 64; /* panels of a block */
    int blocks = t.end - t.begin, y = t.line * p.height + t.part * 64 * T::GM, x[T::BLOCKS];
#pragma unroll
    for (int i = 0; i < T::BLOCKS; i++) x[i] = i < blocks ? p.other[t.begin + i] * T::BN : 0;
#pragma unroll 1
    for (int s = 0; s < steps; s++, ring.next()) {
      LO_DELAY(EMPTY);
      lo_mbarrier_wait(ring.empty(), ring.parity ^ 1);
      if (lo_elect()) {
        LO_DELAY(COPY);
        unsigned stage = ring.stage(), full = ring.full();
        lo_mbarrier_arrive_expect(full, T::A + blocks * EACH * LO_PANEL);
#pragma unroll
        for (int j = 0; j < T::GM; j++)
          lo_box_copy(stage + j * LO_PANEL, &p.boxed.a, full, y + j * 64, s * 64, 0);
#pragma unroll
        for (int j = 0; j < T::PANELS; j++)
          if (j / EACH < blocks)
            lo_box_copy(stage + T::A + j * LO_PANEL, &p.boxed.b, full, x[j / EACH] + j % EACH * 64,
                        s * 64, 0);
      }
      __syncwarp();
      source.look();
    }
  }
  __device__ __forceinline__ void run(lo_bsr_source<T> &source) {
    lo_bsr_tile t;
    while (source.next(t)) copy_tile(t, (p.depth + 63) / 64, source);
  }
};

template <int TYPE, class T> struct lo_bsr_run_core {
  typedef float sum_t;
  static constexpr int BN = T::BN, TALL = T::TALL, OUT = lo_wgmma_type<TYPE>::OUT, OUT2 = 0;
  static constexpr bool LEAN = false;
  float acc[TALL][BN / 2];
  int group;
  __device__ __forceinline__ lo_bsr_run_core() : group(lo_uniform((int)threadIdx.x / 128)) {}
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < TALL * BN / 2; i++) ((float(&)[TALL * BN / 2]) acc)[i] = 0;
  }
  /* What a group has of blocks that are not there is of whatever lay in the stage, and dropped. */
  __device__ __forceinline__ void multiply(unsigned stage, bool begun) {
    lo_u64 a = lo_wgmma_operand(stage + group / T::GN * LO_PANEL, LO_PANEL);
    lo_u64 b =
        lo_wgmma_operand(stage + T::A + group % T::GN * (TALL * BN / 64 * LO_PANEL), LO_PANEL);
    lo_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++)
      lo_wgmma<TYPE, TALL * BN, true, false>::run((float(&)[TALL * BN / 2]) acc,
                                                  lo_wgmma_further<false>(a, k),
                                                  lo_wgmma_further<false>(b, k), k || begun);
    lo_wgmma_commit();
  }
};

template <class Core, class T> struct lo_bsr_run_worker {
  typedef lo_bsr_run_copier<T> copier_t;
  typedef typename T::columns_t columns_t;
  static constexpr int WIDE = T::BN / 32; /* sixteens of a lane beside each other */
  const lo_cu_bsr_wgmma &p;
  char *memory;
  Core core;
  columns_t &columns;

  __device__ __forceinline__ lo_bsr_run_worker(const lo_cu_bsr_wgmma &p_, char *memory_)
      : p(p_), memory(memory_), columns(((columns_t *)(memory_ + T::COLUMNS))[core.group]) {}

  __device__ __forceinline__ int first_block(const lo_bsr_tile &t) const {
    return t.begin + core.group % T::GN * T::TALL;
  }
  /* Of the lane's first row, in its block. */
  __device__ __forceinline__ int first_row(const lo_bsr_tile &t, int thread) const {
    return (t.part * T::GM + core.group / T::GN) * 64 + thread / 32 % 4 * 16 + thread % 32 / 4;
  }
  __device__ __forceinline__ void take(float (&s)[16], int number) const {
#pragma unroll
    for (int i = 0; i < T::SIXTEENS; i++)
      if (i == number)
#pragma unroll
        for (int e = 0; e < 16; e++) s[e] = core.acc[i / WIDE][i % WIDE * 16 + e];
  }
  /* What stands out of W is 0, whatever was multiplied, or added to, there. */
  __device__ __forceinline__ void clear(const lo_bsr_tile &t, int thread) const {
    const lo_cu_output &c = p.boxed.g.e.c;
    const lo_cu_view dw = {c.p, p.boxed.g.m, T::BN, c.stride, 0, c.type, 0};
    int row = first_row(t, thread & ~31), rows = p.rows - t.line * p.height - row;
    __syncwarp();
#pragma unroll 1
    for (int i = 0, block = first_block(t); i < T::TALL && block < t.end; i++, block++) {
      int cols = p.cols - p.other[block] * T::BN;
      if (rows >= 16 && cols >= T::BN) continue;
#pragma unroll 1
      for (int e = thread % 32; e < 16 * T::BN; e += 32)
        if (e / T::BN >= rows || e % T::BN >= cols)
          lo_store(dw, ((lo_i64)block * p.height + row + e / T::BN) * c.stride + e % T::BN, 0.0f);
    }
  }
  __device__ __forceinline__ void run_tile(lo_wgmma_ring<T> &ring, const lo_bsr_tile &t) {
    const lo_cu_gemm &g = p.boxed.g;
    int steps = (p.depth + 63) / 64;
    lo_wgmma_steps(core, ring, ring, 0, steps, [](unsigned) {});
    int thread; /* as in lo_wgmma_worker::end() */
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    unsigned turns = (unsigned)__cvta_generic_to_shared(memory + T::BOXES);
    lo_wgmma_ends<Core, columns_t, false> ends = {p.boxed,
                                                  g,
                                                  lo_ending_of(g.e, 0, false, columns.factors),
                                                  columns,
                                                  thread % 32,
                                                  turns + thread / 32 * T::TURN,
                                                  first_block(t) * p.height + first_row(t, thread),
                                                  0,
                                                  0,
                                                  T::BN,
                                                  (lo_i64)t.end * p.height,
                                                  p.height};
    LO_DELAY(END);
    ends.run([&](float(&s)[16], int number) {
      take(s, number);
      return true;
    });
    if (p.ragged) clear(t, thread);
  }
  __device__ __forceinline__ void run(lo_wgmma_ring<T> &ring, lo_bsr_queue<T> &queue) {
    lo_bsr_tile t;
    columns.stage(p.boxed.g.e, 0, T::BN, threadIdx.x % 128, 128);
    lo_group_sync();
    ring.make_uniform();
    while (queue.take(t)) run_tile(ring, t);
  }
};

/* ---- The kernels' body. */
template <class Worker, class T> LO_FN void lo_bsr_wgmma(const lo_cu_bsr_wgmma &p) {
  extern __shared__ __align__(1024) char wgmma_memory[];
  constexpr int STARTERS = T::WORKERS + 32;
  typedef typename T::registers registers;
  unsigned base = (unsigned)__cvta_generic_to_shared(wgmma_memory);
  lo_wgmma_ring<T> ring(base);
  lo_bsr_queue<T> queue(base);
  bool copies = threadIdx.x / 32 == T::WORKERS / 32;
  if (threadIdx.x == T::WORKERS) {
    lo_box_prefetch(&p.boxed.a);
    lo_box_prefetch(&p.boxed.b);
  }
  if (copies) {
    ring.init();
    queue.init();
  }
  if (threadIdx.x < T::WORKERS) {
    registers::take();
    lo_meet<STARTERS>(LO_WGMMA_READY);
    lo_follow();
    Worker(p, wgmma_memory).run(ring, queue);
  } else {
    registers::give();
    if (!copies) return;
    lo_arrive<STARTERS>(LO_WGMMA_READY);
    lo_follow();
    lo_bsr_source<T> source(p, queue);
    typename Worker::copier_t(p, ring).run(source);
    lo_lead();
  }
}
#endif

#endif

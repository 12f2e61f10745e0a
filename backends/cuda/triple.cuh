/* f32 products on tensor cores, from Ampere on: what all such main loops share.
 *
 *   memory -> f32 stage -> three bf16 parts, in shared memory both -> sums
 *
 * Each element is split into three bf16 numbers, x = x1 + x2 + x3, each the nearest to what is
 * left: 24 bits in all, but for an absolute error of at most 2^-126 where x3 underflows. Of the
 * nine products of parts the six largest are summed; the others are below u |x y|, u = 2^-24.
 *
 * Tensor cores truncate their sums. So those of a step, 32 of k, begin at zero, the small products
 * first, and are added to f32 sums in registers, rounded to nearest: only the two instructions of a
 * step that add the largest products, for 16 of k each, truncate more than a hair, by 2 u at most.
 *
 * A sum that is not finite is computed again by ordinary cores: an infinity has no parts. */
#ifndef LO_CUDA_TRIPLE_CUH
#define LO_CUDA_TRIPLE_CUH

#include "backends/cuda/async_copy.cuh"

enum { LO_TRIPLE_BK = 32, LO_TRIPLE_PARTS = 3, LO_TRIPLE_PRODUCTS = 6 };

/* Which parts of A and B: the smallest products first. */
LO_FN constexpr int lo_triple_a(int product) {
  return "\2\0\1\1\0\0"[product];
}
LO_FN constexpr int lo_triple_b(int product) {
  return "\0\2\1\0\1\0"[product];
}

/* An operand's f32 stage, in words: rows of 32 k, whose eight chunks of 16 bytes are swizzled, or a
 * line of rows for each k. */
template <bool K_INNER, int EXTENT> struct lo_triple_stage {
  static constexpr int LINE = K_INNER ? LO_TRIPLE_BK : EXTENT;
  static constexpr int LINES = K_INNER ? EXTENT : LO_TRIPLE_BK;
  static __device__ __forceinline__ int swizzle(int line) { return K_INNER ? line % 8 * 4 : 0; }
  static __device__ __forceinline__ int place(int line, int inner) {
    return line * LINE + (inner ^ swizzle(line));
  }
  /* Eight k of a row; the rows of a warp are neighbours. */
  static __device__ __forceinline__ void read(float (&x)[8], const float *stage, int row, int k) {
    if (K_INNER) {
      *(float4 *)x = *(const float4 *)(stage + place(row, k));
      *(float4 *)(x + 4) = *(const float4 *)(stage + place(row, k + 4));
    } else {
#pragma unroll
      for (int i = 0; i < 8; i++) x[i] = stage[(k + i) * LINE + row];
    }
  }
};

/* A thread's copies of a step of an operand: of 16 bytes where all rows are on such borders, else
 * of an element, neighbours by neighbouring threads. */
template <bool K_INNER, int EXTENT, int THREADS> struct lo_triple_loader {
  typedef lo_triple_stage<K_INNER, EXTENT> stage_t;
  static constexpr int LINE = stage_t::LINE;
  const float *p;
  int outer_left, inner_left, place; /* elements from the thread's first to the end; bytes */
  int whole;                         /* steps from here on that lie inside, whole */

  __device__ __forceinline__ lo_triple_loader(const lo_cu_operand &o, lo_i64 batch, lo_i64 first,
                                              lo_i64 k0, int k_count) {
    lo_i64 left = o.extent - first;
    int extent = left < EXTENT ? (int)left : EXTENT;
    int width = o.vector ? 4 : 1, each = LINE / width;
    int outer = (int)threadIdx.x / each, inner = (int)threadIdx.x % each * width;
    outer_left = (K_INNER ? extent : k_count) - outer;
    inner_left = (K_INNER ? k_count : extent) - inner;
    place = 4 * stage_t::place(outer, inner);
    whole = left < EXTENT ? 0 : k_count / LO_TRIPLE_BK;
    p = (const float *)o.p + batch * o.batch_stride +
        (K_INNER ? (first + outer) * o.stride + k0 + inner
                 : (k0 + outer) * o.stride + first + inner);
  }
  template <int WIDTH, bool WHOLE>
  __device__ __forceinline__ void copy(const lo_cu_operand &o, unsigned stage) const {
    constexpr int EACH = LINE / WIDTH, COPIES = stage_t::LINES * EACH / THREADS;
    constexpr int STEP = EACH < THREADS ? THREADS / EACH : 1;
    constexpr int PER_LINE = EACH < THREADS ? 1 : EACH / THREADS;
    static_assert(COPIES * THREADS == stage_t::LINES * EACH && COPIES % PER_LINE == 0, "copies");
    constexpr int UNROLLED = WIDTH == 4 ? COPIES : 4;
    const float *q = p;
#pragma unroll UNROLLED
    for (int i = 0; i < COPIES; i++) {
      int outer = i / PER_LINE * STEP, inner = i % PER_LINE * THREADS * WIDTH;
      int left = outer < outer_left ? inner_left - inner : 0;
      unsigned to = ((stage + place) ^ 4 * stage_t::swizzle(outer)) + 4 * (outer * LINE + inner);
      if (WHOLE)
        lo_copy<4 * WIDTH>(to, q + inner);
      else
        lo_copy_some<4 * WIDTH>(to, q + inner, left > WIDTH ? 4 * WIDTH : left > 0 ? 4 * left : 0);
      if ((i + 1) % PER_LINE == 0) q += STEP * o.stride;
    }
  }
  /* The next step. */
  __device__ __forceinline__ void fill(const lo_cu_operand &o, unsigned stage) {
    if (whole-- > 0) {
      if (o.vector)
        copy<4, true>(o, stage);
      else
        copy<1, true>(o, stage);
    } else {
      if (o.vector)
        copy<4, false>(o, stage);
      else
        copy<1, false>(o, stage);
    }
    if (K_INNER) {
      p += LO_TRIPLE_BK;
      inner_left -= LO_TRIPLE_BK;
    } else {
      p += LO_TRIPLE_BK * o.stride;
      outer_left -= LO_TRIPLE_BK;
    }
  }
};

/* ---- Parts */

/* Of two neighbours, a pair each. */
LO_FN void lo_triple_split(float x, float y, unsigned (&part)[LO_TRIPLE_PARTS]) {
#pragma unroll
  for (int i = 0; i < LO_TRIPLE_PARTS; i++) {
    unsigned pair = 0;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
#endif
    part[i] = pair;
    x -= __uint_as_float(pair << 16);
    y -= __uint_as_float(pair & 0xffff0000u);
  }
}

/* An operand's part lies as rows of 32 k, whose four chunks of 16 bytes are swizzled; in bytes. */
LO_FN unsigned lo_triple_place(int row, int chunk) {
  return (unsigned)(row * 64 + (chunk ^ row / 2 % 4) * 16);
}

/* BM x BN outputs. A stage of both operands, and one of three parts of both, in bytes. */
template <int BM_, int BN_, bool TRANS_A, bool TRANS_B> struct lo_triple_tile {
  static constexpr int BM = BM_, BN = BN_;
  static constexpr int STAGE = 4 * LO_TRIPLE_BK * (BM + BN), OFFSET_B = 4 * LO_TRIPLE_BK * BM;
  static constexpr int PART = 2 * LO_TRIPLE_BK * (BM + BN), PART_B = 2 * LO_TRIPLE_BK * BM;
  static constexpr int PARTS = LO_TRIPLE_PARTS * PART;
  typedef lo_triple_stage<!TRANS_A, BM> stage_a;
  typedef lo_triple_stage<TRANS_B, BN> stage_b;

  /* A thread of THREADS splits a step's elements in ITEMS turns, eight k of a row in each; those of
   * A come first, and are all of one row. Their sum is added to `sum`. */
  template <int THREADS> static constexpr __device__ int items() { return 4 * (BM + BN) / THREADS; }
  template <int THREADS>
  static __device__ __forceinline__ void split(const char *stage, char *parts, int item,
                                               float &sum) {
    constexpr int ITEMS_A = 4 * BM / THREADS;
    static_assert(THREADS % BM == 0 && 4 * BN % THREADS == 0, "items");
    bool is_a = item < ITEMS_A;
    int v = (is_a ? item : item - ITEMS_A) * THREADS + (int)threadIdx.x;
    int row = v % (is_a ? BM : BN), octet = v / (is_a ? BM : BN);
    float x[8];
    unsigned part[4][LO_TRIPLE_PARTS];
    if (is_a) {
      stage_a::read(x, (const float *)stage, row, 8 * octet);
      if (TRANS_A) sum += ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
    } else {
      stage_b::read(x, (const float *)(stage + OFFSET_B), row, 8 * octet);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) lo_triple_split(x[2 * i], x[2 * i + 1], part[i]);
    char *to = parts + (is_a ? 0 : PART_B) + lo_triple_place(row, octet);
#pragma unroll
    for (int i = 0; i < LO_TRIPLE_PARTS; i++)
      *(uint4 *)(to + i * PART) = make_uint4(part[0][i], part[1][i], part[2][i], part[3][i]);
  }
};

/* ---- What is not finite, by ordinary cores. A NaN stays one, so the rest need not be read. */
LO_FN float lo_plain_dot(const lo_cu_gemm &p, lo_i64 batch, lo_i64 row, lo_i64 col, lo_i64 k0,
                         lo_i64 k_count) {
  lo_i64 step_a = p.a.k_inner ? 1 : p.a.stride, step_b = p.b.k_inner ? 1 : p.b.stride;
  const float *a = (const float *)p.a.p + batch * p.a.batch_stride +
                   row * (p.a.k_inner ? p.a.stride : 1) + k0 * step_a;
  const float *b = (const float *)p.b.p + batch * p.b.batch_stride +
                   col * (p.b.k_inner ? p.b.stride : 1) + k0 * step_b;
  float sum = 0.0f;
#pragma unroll 1
  for (lo_i64 k = 0; k < k_count && sum == sum; k++, a += step_a, b += step_b)
    sum = fmaf(*a, *b, sum);
  return sum;
}
LO_FN bool lo_is_finite(float x) {
  return x - x == 0.0f;
}
LO_FN bool lo_all_finite(float4 q) {
  return lo_is_finite(q.x) && lo_is_finite(q.y) && lo_is_finite(q.z) && lo_is_finite(q.w);
}
LO_FN float4 lo_triple_check(const lo_cu_gemm &p, float4 q, lo_i64 batch, lo_i64 row, lo_i64 col,
                             lo_i64 k0, lo_i64 k_count) {
  if (lo_all_finite(q)) return q;
#pragma unroll 1
  for (int i = 0; i < 4; i++) {
    bool plain = !lo_is_finite(q.x) && col + i < p.n;
    lo_rotate(q, plain ? lo_plain_dot(p, batch, row, col + i, k0, k_count) : q.x);
  }
  return q;
}
/* The same for 16 rows of WN sums that a warp has in shared memory. */
template <int WN, int PITCH>
LO_FN void lo_triple_check_lines(const lo_cu_gemm &p, float *sums, lo_i64 batch, lo_i64 row,
                                 lo_i64 col, lo_i64 k0, int k_count) {
#pragma unroll 4
  for (int v = threadIdx.x % 32; v < 4 * WN; v += 32) {
    int line = v / (WN / 4), column = v % (WN / 4) * 4;
    if (row + line >= p.m) break;
    float4 *quad = (float4 *)(sums + line * PITCH + column), q = *quad;
    if (!lo_all_finite(q))
      *quad = lo_triple_check(p, q, batch, row + line, col + column, k0, k_count);
  }
  __syncwarp();
}

/* Parts of k that meet in a cluster: each block ends its share of the tile. `rows`: sums by row. */
template <class Core, class Columns>
LO_FN void lo_triple_meet(const lo_cu_gemm &p, const Core &core, const Columns &columns,
                          char *shared, lo_i64 batch, lo_i64 row0, lo_i64 col0, const float *rows) {
  lo_ending end = lo_ending_of(p.e, batch, true);
  lo_i64 k_count = lo_scalar_float(p.e.alpha) == 0.0f ? 0 : p.k;
  core.meet(
      p.split, shared,
      [&](int r, int c, float4 quad) {
        lo_i64 row = row0 + r, col = col0 + c;
        if (row >= p.m || col >= p.n) return;
        quad = lo_triple_check(p, quad, batch, row, col, 0, k_count);
        lo_finish_quad(end, columns.template at<4>(c), quad, row, col, lo_quad_count(p.n, col));
      },
      rows,
      [&](int r, float sum) {
        if (row0 + r < p.m) lo_finish_row_sum(p.e, lo_scalar_float(p.e.beta), row0 + r, sum);
      });
}

/* A core: BM x BN outputs by THREADS threads, BYTES of shared memory; run() multiplies, drain()
 * hands its sums out. Where it MEETS, the blocks of all parts of a tile are a cluster. grid: as
 * lo_gemm's */
template <class Core, bool TRANS_A> LO_FN void lo_gemm_triple(const lo_cu_gemm &p) {
  extern __shared__ __align__(1024) char triple_memory[];
  __shared__ __align__(16) lo_tile_columns<Core::BN, false> columns;
  lo_i64 tm, tn;
  lo_tile_at(p.tile0 + blockIdx.x, p.tiles_m, p.tiles_n, tm, tn);
  lo_i64 row0 = tm * Core::BM, col0 = tn * Core::BN, k0 = blockIdx.y * p.slice;
  int k_count = (int)(p.k - k0 < p.slice ? p.k - k0 : p.slice);
  bool sum = TRANS_A && p.e.row_sum.p && tn == 0;
  if (lo_scalar_float(p.e.alpha) == 0.0f) k_count = 0; /* does not read the operands */
  columns.stage(p.e, col0, lo_left(p.n, col0, Core::BN));
  for (lo_i64 l = blockIdx.z; l < p.batch; l += gridDim.z) {
    Core core;
    core.run(p, triple_memory, l, row0, col0, k0, k_count);
    lo_lead();
    if constexpr (Core::MEETS)
      if (p.split > 1) {
        __shared__ float rows[TRANS_A ? Core::BM : 1];
        if (sum)
          lo_drain_rows<Core>((float *)triple_memory, core.sums,
                              [&](int r, float x) { rows[TRANS_A ? r : 0] = x; });
        lo_triple_meet(p, core, columns, triple_memory, l, row0, col0, sum ? rows : NULL);
        continue;
      }
    lo_ending end = lo_product_ending(p, l);
    if (sum)
      lo_drain_sums<Core>(p, (float *)triple_memory, core.sums, lo_scalar_float(p.e.beta), row0);
    core.drain(triple_memory, [&](int r, int c, float *sums) {
      lo_triple_check_lines<Core::WN, Core::PITCH>(p, sums, l, row0 + r, col0 + c, k0, k_count);
      lo_finish_warp<16, Core::WN, Core::PITCH>(end, columns, c, (const float *)sums, row0 + r,
                                                col0 + c, p.m, p.n);
    });
    if (p.split > 1 && lo_comes_last(p, l)) lo_add_parts<Core>(p, columns, l, row0, col0, sum);
    __syncthreads();
  }
}

/* A warp's sums of 16 rows to shared memory of its own: lane l holds columns l % 4 * 2 and the next
 * of each eight, of rows l / 4 and 8 below. Lines are 8 words longer than WN: banks. */
template <int WN> struct lo_triple_lines {
  static constexpr int PITCH = WN + 8, BYTES = 16 * PITCH * 4;
  static __device__ __forceinline__ void put(float *mine, int eight, float x, float y, float z,
                                             float w) {
    int lane = threadIdx.x % 32;
    float *line = mine + lane / 4 * PITCH + lane % 4 * 2 + 8 * eight;
    *(float2 *)line = make_float2(x, y);
    *(float2 *)(line + 8 * PITCH) = make_float2(z, w);
  }
};

#endif

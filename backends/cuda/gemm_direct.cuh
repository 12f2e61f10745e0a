/* The main loop of products that wait rather than compute: small grids, few rows or few columns.
 *
 *   memory -> fragments in registers -> sums -> shared memory (one ordered sum) -> epilogue
 *
 * Nothing passes through shared memory on its way in, so that a block waits for memory once: each
 * warp has the fragments of several steps on their way at a time, and the warps of a block share
 * out k. Both operands are contiguous along k. A lane takes 16 bytes of a line, or where lines
 * begin anywhere as many elements, neighbours by neighbouring lanes; which k they are inside an
 * instruction does not matter, as A and B agree. Lines beyond the last are the last one
 * again, and what comes of them is dropped.
 *
 * p.a is the operand whose lines are the longer side of a tile; p.swapped: that is op(B), and C is
 * made as its transpose. */
#ifndef LO_CUDA_GEMM_DIRECT_CUH
#define LO_CUDA_GEMM_DIRECT_CUH

#include "backends/cuda/main_loop.cuh"
#include "backends/cuda/widen.cuh"

/* 16 bytes, or what lies there of `left` elements and zeros. BYTES: what may be moved at once: 16,
 * where `left` is a whole number of times 16 bytes too, or 0, an element; then elements are SPREAD
 * from each other. ONCE: no other warp of the SM wants it. */
template <class E, int BYTES, int SPREAD, bool ONCE> struct lo_piece;
template <class E, int SPREAD, bool ONCE> struct lo_piece<E, 16, SPREAD, ONCE> {
  static __device__ __forceinline__ uint4 load(const E *p, int left) {
    uint4 r = make_uint4(0, 0, 0, 0);
    if (left <= 0) return r;
    if (ONCE)
      asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                   : "l"(p));
    else
      r = lo_load((const uint4 *)p);
    return r;
  }
};
template <int SPREAD, bool ONCE> struct lo_piece<float, 0, SPREAD, ONCE> {
  static __device__ __forceinline__ unsigned word(const float *p, int i, int left) {
    return left > i * SPREAD ? __float_as_uint(lo_load(p + i * SPREAD)) : 0u;
  }
  static __device__ __forceinline__ uint4 load(const float *p, int left) {
    return make_uint4(word(p, 0, left), word(p, 1, left), word(p, 2, left), word(p, 3, left));
  }
};
template <int SPREAD, bool ONCE> struct lo_piece<unsigned short, 0, SPREAD, ONCE> {
  static __device__ __forceinline__ unsigned half(const unsigned short *p, int i, int left) {
    return left > i * SPREAD ? lo_load(p + i * SPREAD) : 0u;
  }
  static __device__ __forceinline__ unsigned pair(const unsigned short *p, int i, int left) {
    return half(p, i, left) | half(p, i + 1, left) << 16;
  }
  static __device__ __forceinline__ uint4 load(const unsigned short *p, int left) {
    return make_uint4(pair(p, 0, left), pair(p, 2, left), pair(p, 4, left), pair(p, 6, left));
  }
};

/* A lane's lines of an operand, APART from each other: of `count` lines from element `base` on, k
 * further. Little arithmetic, of 32 bits where it can be: the first load waits for it. */
template <class E, int COUNT, int APART> struct lo_lines {
  const char *p[COUNT];
  __device__ __forceinline__ lo_lines(const lo_cu_operand &o, lo_i64 base, int first, int count,
                                      int k) {
    const char *line0 = (const char *)o.p + base * (lo_i64)sizeof(E);
    unsigned each = (unsigned)o.stride * (unsigned)sizeof(E); /* below 2^32: the host saw to it */
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      unsigned line = first + i * APART < count ? first + i * APART : count - 1;
      p[i] = line0 + (lo_u64)line * each + k * (unsigned)sizeof(E);
    }
  }
  __device__ __forceinline__ void advance(int k) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) p[i] += k * sizeof(E);
  }
  /* PIECES neighbours of each line. */
  template <int BYTES, int SPREAD, bool ONCE, int PIECES>
  __device__ __forceinline__ void load(uint4 (&r)[COUNT * PIECES], int k, int left) const {
    constexpr int WIDTH = 16 / (int)sizeof(E);
#pragma unroll
    for (int i = 0; i < COUNT * PIECES; i++)
      r[i] = lo_piece<E, BYTES, SPREAD, ONCE>::load(
          (const E *)p[i / PIECES] + k + i % PIECES * WIDTH, left - k);
  }
};

LO_FN unsigned lo_word(const uint4 &r, int i) {
  return i == 0 ? r.x : i == 1 ? r.y : i == 2 ? r.z : r.w;
}

/* What an instruction multiplies, and in what it sums. */
template <int MMA> struct lo_direct_types {
  typedef unsigned short E;
  typedef float sum;
  typedef float4 quad;
};
template <> struct lo_direct_types<LO_DIRECT_K16_S8> {
  typedef signed char E;
  typedef int sum;
  typedef int4 quad;
};
template <> struct lo_direct_types<LO_DIRECT_S8> : lo_direct_types<LO_DIRECT_K16_S8> {};

#define LO_MMA_LONG(SHAPE, TYPES, CONSTRAINT)                                                      \
  asm volatile("mma.sync.aligned." SHAPE ".row.col." TYPES                                         \
               " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                            \
               : CONSTRAINT(c[0]), CONSTRAINT(c[1]), CONSTRAINT(c[2]), CONSTRAINT(c[3])            \
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
#define LO_MMA_K8(A0, A1, B0)                                                                      \
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "                                 \
               "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"                                      \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                    \
               : "r"(A0), "r"(A1), "r"(B0))
#define LO_MMA_M8(C0, C1, A0, B0)                                                                  \
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"      \
               : "+r"(C0), "+r"(C1)                                                                \
               : "r"(A0), "r"(B0))

/* c += a b for 16 x 8 outputs: two words of line r, r + 8 of A and of a line of B. */
template <int MMA>
LO_FN void lo_direct_multiply(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                              unsigned b0, unsigned b1) {
  if (MMA == LO_DIRECT_K8_F16) {
    LO_MMA_K8(a0, a1, b0);
    LO_MMA_K8(a2, a3, b1);
  }
#if __CUDA_ARCH__ >= 800
  if (MMA == LO_DIRECT_F16) LO_MMA_LONG("m16n8k16", "f32.f16.f16.f32", "+f");
  if (MMA == LO_DIRECT_BF16) LO_MMA_LONG("m16n8k16", "f32.bf16.bf16.f32", "+f");
#endif
}
template <int MMA>
LO_FN void lo_direct_multiply(int (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                              unsigned b0, unsigned b1) {
  if (MMA == LO_DIRECT_K16_S8) {
    LO_MMA_M8(c[0], c[1], a0, b0);
    LO_MMA_M8(c[2], c[3], a1, b0);
    LO_MMA_M8(c[0], c[1], a2, b1);
    LO_MMA_M8(c[2], c[3], a3, b1);
  }
#if __CUDA_ARCH__ >= 800
  if (MMA == LO_DIRECT_S8) LO_MMA_LONG("m16n8k32", "s32.s8.s8.s32", "+r");
#endif
}
#undef LO_MMA_LONG
#undef LO_MMA_K8
#undef LO_MMA_M8

/* 8-bit integers: the sums over k of op(B)'s lines, where they are wanted, as A has zero points or
 * is unsigned: its elements are then taken as 128 less. */
template <bool INTEGER, int LINES_A, int LINES_B> struct lo_line_sums {
  static constexpr int swapped = 0;
  __device__ __forceinline__ lo_line_sums(const lo_cu_gemm &) {}
  __device__ __forceinline__ void take(uint4 (&)[LINES_A], uint4 (&)[LINES_B]) {}
  __device__ __forceinline__ int of(int) const { return 0; }
};
template <int LINES_A, int LINES_B> struct lo_line_sums<true, LINES_A, LINES_B> {
  static constexpr int MOST = LINES_A > LINES_B ? LINES_A : LINES_B;
  int swapped, less, sums[MOST];
  bool wanted;
  __device__ __forceinline__ lo_line_sums(const lo_cu_gemm &p)
      : swapped(p.swapped), less(p.a_unsigned), sums{}, wanted(p.a_unsigned || p.e.zero_a.p) {}

  template <int N> static __device__ __forceinline__ void flip(uint4 (&r)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
      r[i] = make_uint4(r[i].x ^ 0x80808080u, r[i].y ^ 0x80808080u, r[i].z ^ 0x80808080u,
                        r[i].w ^ 0x80808080u);
  }
  template <int N> __device__ __forceinline__ void add(const uint4 (&r)[N]) {
    const int ones = 0x01010101;
#pragma unroll
    for (int i = 0; i < N; i++)
      sums[i] = __dp4a(
          (int)r[i].x, ones,
          __dp4a((int)r[i].y, ones, __dp4a((int)r[i].z, ones, __dp4a((int)r[i].w, ones, sums[i]))));
  }
  __device__ __forceinline__ void take(uint4 (&a)[LINES_A], uint4 (&b)[LINES_B]) {
    if (!wanted) return;
    if (swapped) {
      add(a);
      if (less) flip(b);
    } else {
      add(b);
      if (less) flip(a);
    }
  }
  __device__ __forceinline__ int of(int i) const {
    return sums[i];
  }
};

/* ---- A warp's arithmetic: WM x WN sums in steps of K. The lane holds LINES_A lines of A from
 * line_a() on, APART_A from each other, and likewise of B; each(f) hands out f(row, column, sum).
 *
 * Tensor cores. KS: that many ranges of k lie side by side in the rows of an instruction, and in
 * its columns, so that a load takes longer runs of fewer lines; where row and column are of
 * different ranges, the sum is of no use. */
template <int MMA, int MT, int NT, int KS = 1> struct lo_direct_mma {
  typedef typename lo_direct_types<MMA>::E E;
  typedef E EB; /* B's */
  typedef typename lo_direct_types<MMA>::sum sum;
  typedef typename lo_direct_types<MMA>::quad quad;
  static constexpr int PIECES_B = 1; /* of 16 bytes of a line of B's, for one of A's */
  static constexpr int WM = 16 * MT / KS, WN = 8 * NT / KS;
  static constexpr int WIDTH = 16 / (int)sizeof(E), K = 4 * KS * WIDTH;
  static constexpr int LINES_A = 2 * MT, LINES_B = NT, APART_A = 8 / KS, APART_B = 8 / KS;
  static constexpr bool INTEGER = sizeof(E) == 1, SCALED = false; /* SCALED: floats, by column */
  sum acc[MT][NT][4];
  lo_line_sums<INTEGER, LINES_A, LINES_B> lines;

  static __device__ __forceinline__ int line_a() { return threadIdx.x % 32 / (4 * KS); }
  static __device__ __forceinline__ int line_b() { return line_a(); }
  static __device__ __forceinline__ int lane_k() { return threadIdx.x % (4 * KS); }

  __device__ __forceinline__ lo_direct_mma(const lo_cu_gemm &p) : acc{}, lines(p) {}
  __device__ __forceinline__ void multiply(uint4 (&a)[LINES_A], uint4 (&b)[LINES_B]) {
    lines.take(a, b);
#pragma unroll
    for (int i = 0; i < MT; i++) {
      const uint4 &r = a[2 * i], &s = a[2 * i + 1];
#pragma unroll
      for (int j = 0; j < NT; j++) {
        lo_direct_multiply<MMA>(acc[i][j], r.x, s.x, r.y, s.y, b[j].x, b[j].y);
        lo_direct_multiply<MMA>(acc[i][j], r.z, s.z, r.w, s.w, b[j].z, b[j].w);
      }
    }
  }
  /* f(line, sum over k) of op(B)'s lines, in one lane each. */
  template <class F> __device__ __forceinline__ void each_line(F f) {
#pragma unroll
    for (int i = 0; i < (LINES_A > LINES_B ? LINES_A : LINES_B); i++) {
      int s = lines.of(i);
#pragma unroll
      for (int d = 1; d < 4 * KS; d *= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
      if (threadIdx.x % (4 * KS) == 0 && i < (lines.swapped ? LINES_A : LINES_B))
        f(line_a() + i * APART_A, s);
    }
  }
  /* The sum over the ranges of k of two neighbours; the lanes of a range have it alike. */
  static __device__ __forceinline__ sum over_ranges(sum left, sum right) {
    int col = threadIdx.x % 4 * 2, range = threadIdx.x / 4 % KS;
    sum s = (col % KS == range ? left : 0) + ((col + 1) % KS == range ? right : 0);
#pragma unroll
    for (int d = 1; d < KS / 2; d *= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
#pragma unroll
    for (int d = 1; d < KS; d *= 2) s += __shfl_xor_sync(0xffffffffu, s, 4 * d);
    return s;
  }
  template <class F> __device__ __forceinline__ void each(F f) const {
    int col = threadIdx.x % 4 * 2;
    bool first = threadIdx.x / 4 % KS == 0 && col % KS == 0;
#pragma unroll
    for (int i = 0; i < 2 * MT; i++)
#pragma unroll
      for (int j = 0; j < NT; j++) {
        sum left = acc[i / 2][j][i % 2 * 2], right = acc[i / 2][j][i % 2 * 2 + 1];
        int r = line_a() + i * APART_A, c = col / KS + j * APART_B;
        if constexpr (KS == 1) {
          f(r, c, left);
          f(r, c + 1, right);
        } else {
          sum s = over_ranges(left, right);
          if (first) f(r, c, s);
        }
      }
  }
};

/* A of 8 bits, made B's 16 in registers: a lane's 16 elements of a line of A meet two pieces of B.
 */
template <int MMA, int TYPE, int MT, int NT, int KS>
struct lo_direct_mixed : lo_direct_mma<MMA, MT, NT, KS> {
  typedef lo_direct_mma<MMA, MT, NT, KS> Base;
  typedef unsigned char E;
  typedef unsigned short EB;
  static constexpr int PIECES_B = 2, WIDTH = 16, K = 4 * KS * WIDTH;
  static constexpr bool SCALED = true, BF16 = MMA == LO_DIRECT_BF16;
  using Base::Base;

  __device__ __forceinline__ void multiply(uint4 (&a)[2 * MT], uint4 (&b)[2 * NT]) {
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
      for (int w = 0; w < 4; w++) {
        unsigned r[2], s[2];
        lo_widen<TYPE, BF16>(lo_word(a[2 * i], w), r[0], r[1]);
        lo_widen<TYPE, BF16>(lo_word(a[2 * i + 1], w), s[0], s[1]);
#pragma unroll
        for (int j = 0; j < NT; j++) {
          const uint4 &x = b[2 * j + w / 2];
          lo_direct_multiply<MMA>(Base::acc[i][j], r[0], s[0], r[1], s[1], lo_word(x, w % 2 * 2),
                                  lo_word(x, w % 2 * 2 + 1));
        }
      }
  }
};

/* Both of 8-bit floats. */
template <int MMA, int TYPE, int MT, int NT, int KS>
struct lo_direct_widened : lo_direct_mixed<MMA, TYPE, MT, NT, KS> {
  typedef lo_direct_mixed<MMA, TYPE, MT, NT, KS> Base;
  typedef unsigned char EB;
  static constexpr int PIECES_B = 1;
  bool e5m2; /* B's */

  __device__ __forceinline__ lo_direct_widened(const lo_cu_gemm &p)
      : Base(p), e5m2(p.b.type == LO_TYPE_F8E5M2) {}
  __device__ __forceinline__ void multiply(uint4 (&a)[2 * MT], uint4 (&b)[NT]) {
#pragma unroll
    for (int w = 0; w < 4; w++) {
      unsigned x[NT][2];
#pragma unroll
      for (int j = 0; j < NT; j++)
        if (e5m2)
          lo_widen<LO_TYPE_F8E5M2, false>(lo_word(b[j], w), x[j][0], x[j][1]);
        else
          lo_widen<LO_TYPE_F8E4M3, false>(lo_word(b[j], w), x[j][0], x[j][1]);
#pragma unroll
      for (int i = 0; i < MT; i++) {
        unsigned r[2], s[2];
        lo_widen<TYPE, false>(lo_word(a[2 * i], w), r[0], r[1]);
        lo_widen<TYPE, false>(lo_word(a[2 * i + 1], w), s[0], s[1]);
#pragma unroll
        for (int j = 0; j < NT; j++)
          lo_direct_multiply<MMA>(Base::acc[i][j], r[0], s[0], r[1], s[1], x[j][0], x[j][1]);
      }
    }
  }
};

/* Sums over lanes that are 2 * LANES, ... 2, 1 apart: each keeps a half of its sums and gives the
 * other one away, until it has its share. Returns which the first of them is. */
template <int COUNT, int LANES, int N> LO_FN int lo_share_out(float (&sums)[N]) {
  if constexpr (LANES == 0) {
    return 0;
  } else if constexpr (COUNT == 1) {
    sums[0] += __shfl_xor_sync(0xffffffffu, sums[0], LANES);
    return lo_share_out<1, LANES / 2>(sums);
  } else {
    constexpr int HALF = COUNT / 2;
    bool upper = threadIdx.x & LANES;
#pragma unroll
    for (int i = 0; i < HALF; i++) {
      float given = upper ? sums[i] : sums[i + HALF], kept = upper ? sums[i + HALF] : sums[i];
      sums[i] = kept + __shfl_xor_sync(0xffffffffu, given, LANES);
    }
    return (upper ? HALF : 0) + lo_share_out<HALF, LANES / 2>(sums);
  }
}

/* Ordinary cores, f32 sums: LM x LN groups of lanes with TM x TN sums each; the lanes of a group
 * share out k, and add up at the end. */
template <class E_, int LM, int LN, int TM, int TN> struct lo_direct_fma {
  typedef E_ E;
  typedef E EB;
  static constexpr int PIECES_B = 1;
  typedef float sum;
  typedef float4 quad;
  static constexpr int LK = 32 / (LM * LN), WIDTH = 16 / (int)sizeof(E), K = LK * WIDTH;
  static constexpr int WM = LM * TM, WN = LN * TN;
  static constexpr int LINES_A = TM, LINES_B = TN, APART_A = LM, APART_B = LN;
  static constexpr bool INTEGER = false, SCALED = false;
  int bf16;
  float acc[TM * TN];

  static __device__ __forceinline__ int line_a() { return threadIdx.x % 32 / (LK * LN); }
  static __device__ __forceinline__ int line_b() { return threadIdx.x % 32 / LK % LN; }
  static __device__ __forceinline__ int lane_k() { return threadIdx.x % LK; }

  __device__ __forceinline__ lo_direct_fma(const lo_cu_gemm &p) : bf16(p.bf16), acc{} {}

  __device__ __forceinline__ void widen(float (&f)[WIDTH], uint4 u) const {
    if (sizeof(E) == 4) {
      f[0] = __uint_as_float(u.x), f[1] = __uint_as_float(u.y);
      f[2] = __uint_as_float(u.z), f[3] = __uint_as_float(u.w);
    } else {
      *(float4 *)f = lo_from_16x4(make_uint2(u.x, u.y), bf16);
      *(float4 *)(f + WIDTH - 4) = lo_from_16x4(make_uint2(u.z, u.w), bf16);
    }
  }
  __device__ __forceinline__ void multiply(uint4 (&a)[TM], uint4 (&b)[TN]) {
    float x[TM][WIDTH], y[TN][WIDTH];
#pragma unroll
    for (int i = 0; i < TM; i++) widen(x[i], a[i]);
#pragma unroll
    for (int j = 0; j < TN; j++) widen(y[j], b[j]);
#pragma unroll
    for (int e = 0; e < WIDTH; e++)
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) acc[i * TN + j] = fmaf(x[i][e], y[j][e], acc[i * TN + j]);
  }
  template <class F> __device__ __forceinline__ void each(F f) {
    constexpr int SHARE = TM * TN > LK ? TM * TN / LK : 1, ALIKE = LK * SHARE / (TM * TN);
    int first = lo_share_out<TM * TN, LK / 2>(acc);
    if (threadIdx.x % ALIKE) return; /* a neighbour has the same */
#pragma unroll
    for (int i = 0; i < SHARE; i++)
      f(line_a() + (first + i) / TN * LM, line_b() + (first + i) % TN * LN, acc[i]);
  }
};

/* ---- A block: WARPS_M x WARPS_N warps side by side, WARPS_K deep. */
template <class Core_, int WARPS_M_, int WARPS_N_, int WARPS_K_> struct lo_block {
  typedef Core_ Core;
  static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_, WARPS_K = WARPS_K_;
  static constexpr int BM = WARPS_M * Core::WM, BN = WARPS_N * Core::WN;
  static constexpr int THREADS = 32 * WARPS_M * WARPS_N * WARPS_K;
  static constexpr int ROW = (BN + 3) / 4, ROW_SWAPPED = BM / 4; /* quads of a row of C's tile */
  static constexpr int QUADS = BM * ROW, QUADS_SWAPPED = BN * ROW_SWAPPED;
  /* C's tile in shared memory, as it is or transposed: lanes that hold a tensor core's sums find
   * other banks. */
  static constexpr int PITCH = BN % 16 ? 4 * ROW : BN + 8, PITCH_SWAPPED = BM + 4;
  static constexpr int PART = BM * PITCH > BN *PITCH_SWAPPED ? BM *PITCH : BN *PITCH_SWAPPED;
  static constexpr int PARTS = 4 * WARPS_K * PART; /* bytes */
  static_assert(QUADS <= THREADS && QUADS_SWAPPED <= THREADS, "a thread has a quad at most");
};

/* Where a block and a warp stand. */
struct lo_direct_place {
  lo_i64 row0, col0, batch, k0;
  int rows, cols, k_count; /* of the tile that are there */
  int warp_row, warp_col, warp_k;
};
LO_FN lo_i64 lo_base(const lo_cu_operand &o, const lo_direct_place &at, lo_i64 line0) {
  return at.batch * o.batch_stride + line0 * o.stride + at.k0;
}

/* ---- Fragments straight from memory: a warp has those of UNROLL steps on their way. */
template <class Core, int WARPS_M, int WARPS_N, int WARPS_K, int UNROLL, int BYTES>
struct lo_direct : lo_block<Core, WARPS_M, WARPS_N, WARPS_K> {
  typedef lo_block<Core, WARPS_M, WARPS_N, WARPS_K> Block;
  static constexpr int SHARED = Block::PARTS;

  /* `first_loads_are_out` is called once they are. */
  template <class F>
  static __device__ __forceinline__ void run(const lo_cu_gemm &p, const lo_direct_place &at,
                                             Core &core, char *, F first_loads_are_out) {
    typedef typename Core::E E;
    typedef typename Core::EB EB;
    constexpr int RUN = UNROLL * Core::K, STEP = WARPS_K * RUN;
    constexpr int LANES = Core::K / Core::WIDTH, SPREAD = BYTES ? 1 : LANES;
    int k = at.warp_k * RUN + Core::lane_k() * (BYTES ? Core::WIDTH : 1); /* of the lane */
    int left = at.k_count - k;
    lo_lines<E, Core::LINES_A, Core::APART_A> a(p.a, lo_base(p.a, at, at.row0),
                                                at.warp_row + Core::line_a(), at.rows, k);
    lo_lines<EB, Core::LINES_B, Core::APART_B> b(p.b, lo_base(p.b, at, at.col0),
                                                 at.warp_col + Core::line_b(), at.cols, k);
    uint4 rA[UNROLL][Core::LINES_A], rB[UNROLL][Core::LINES_B * Core::PIECES_B];
    auto load = [&](int u) {
      a.template load<BYTES, SPREAD, WARPS_N == 1, 1>(rA[u], u * Core::K, left);
      b.template load<BYTES, SPREAD, false, Core::PIECES_B>(rB[u], u * Core::K, left);
    };
    lo_follow(); /* places are known by now */
#pragma unroll
    for (int u = 0; u < UNROLL; u++) load(u);
    first_loads_are_out();
    int rest = at.k_count - at.warp_k * RUN - STEP;
    if (__builtin_expect(rest > 0, 0)) {
#pragma unroll 1
      do {
        left -= STEP;
        rest -= STEP;
        a.advance(STEP);
        b.advance(STEP);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
          core.multiply(rA[u], rB[u]);
          load(u);
        }
      } while (rest > 0);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) core.multiply(rA[u], rB[u]);
  }
};

/* A thread's quad of C's tile, which is the block's or its transpose; count: how much of it is
 * there. Known before the operands come: nothing but the sums is left to wait for then. */
struct lo_direct_quad {
  char *c;
  int row, column;  /* in the tile */
  int count, place; /* place: where its sums lie in shared memory */
};
LO_FN lo_i64 lo_direct_row0(const lo_cu_gemm &p, const lo_direct_place &at) {
  return p.swapped ? at.col0 : at.row0;
}
LO_FN lo_i64 lo_direct_col0(const lo_cu_gemm &p, const lo_direct_place &at) {
  return p.swapped ? at.row0 : at.col0;
}
template <class D>
LO_FN lo_direct_quad lo_direct_quad_of(const lo_cu_gemm &p, const lo_direct_place &at) {
  lo_direct_quad q;
  int v = threadIdx.x, each = p.swapped ? D::ROW_SWAPPED : D::ROW;
  q.row = p.swapped ? v / D::ROW_SWAPPED : v / D::ROW, q.column = 4 * (v - q.row * each);
  int rows = p.swapped ? at.cols : at.rows, cols = p.swapped ? at.rows : at.cols;
  int left = q.row < rows ? cols - q.column : 0;
  q.count = left < 4 ? left : 4;
  q.place = q.row * (p.swapped ? D::PITCH_SWAPPED : D::PITCH) + q.column;
  const lo_cu_output &c = p.e.c;
  lo_i64 row = lo_direct_row0(p, at) + q.row, col = lo_direct_col0(p, at) + q.column;
  q.c = (char *)c.p + lo_bytes_of(c.type, at.batch * c.batch_stride + row * c.stride + col);
  return q;
}

/* 8-bit integers: a row's zero point times the sums over k of op(B)'s columns goes away. */
LO_FN int4 lo_direct_shift(const lo_cu_gemm &p, int4 acc, int4 columns, lo_i64 row) {
  int zero = p.a_unsigned ? -128 : 0;
  if (p.e.zero_a.p) zero += ((const int *)p.e.zero_a.p)[p.e.zero_a.one ? 0 : row];
  return make_int4(acc.x - zero * columns.x, acc.y - zero * columns.y, acc.z - zero * columns.z,
                   acc.w - zero * columns.w);
}
LO_FN float4 lo_direct_shift(const lo_cu_gemm &, float4 acc, int4, lo_i64) {
  return acc;
}

/* Floats: alpha, the row's scale and a scale for each column. */
LO_FN float4 lo_direct_scale(const lo_ending &end, lo_i64 row, const float *columns, float4 acc) {
  float alpha = end.alpha, a = end.row_scales ? end.row_scales[row] : 1.0f;
  return make_float4(__fmul_rn(__fmul_rn(alpha, acc.x), __fmul_rn(a, columns[0])),
                     __fmul_rn(__fmul_rn(alpha, acc.y), __fmul_rn(a, columns[1])),
                     __fmul_rn(__fmul_rn(alpha, acc.z), __fmul_rn(a, columns[2])),
                     __fmul_rn(__fmul_rn(alpha, acc.w), __fmul_rn(a, columns[3])));
}

/* Brings what the epilogue will read to the second-level cache. C only where a number from the host
 * says that it is read. */
LO_FN void lo_touch(const void *p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}
LO_FN void lo_touch(const lo_cu_beside &b, lo_i64 row, lo_i64 col) {
  if (b.p) lo_touch((const char *)b.p + lo_bytes_of(b.type, row * b.stride + col));
}
LO_FN void lo_direct_touch(const lo_cu_gemm &p, const lo_direct_place &at,
                           const lo_direct_quad &q) {
  lo_i64 row = lo_direct_row0(p, at) + q.row, col = lo_direct_col0(p, at) + q.column;
  if (!p.e.beta.p && p.e.beta.value != 0) lo_touch(q.c);
  lo_touch(p.e.saved, row, col);
  lo_touch(p.e.residual, row, col);
}

/* The sums of the warps that share out k, in their order. */
template <class D, class Quad> LO_FN Quad lo_over_warps(const void *parts, int part, int at) {
  Quad acc = {};
#pragma unroll
  for (int w = 0; w < D::WARPS_K; w++)
    acc = lo_add4(acc, *(const Quad *)((const float *)parts + w * part + at));
  return acc;
}

struct lo_yes {
  static constexpr bool value = true;
};
struct lo_no {
  static constexpr bool value = false;
};

/* grid: x tiles along A's lines, y along B's from tile0 on, z matrices of the batch by parts of k
 */
template <class D> LO_FN void lo_gemm_direct(const lo_cu_gemm &p, char *shared) {
  typedef typename D::Core Core;
  typedef typename Core::quad quad;
  typedef typename Core::sum sum_t;
  constexpr int LINES = D::BM > D::BN ? D::BM : D::BN;
  constexpr int scaling = Core::SCALED ? LO_END_SCALES : 0; /* is done here, by column */
  __shared__ __align__(16) lo_tile_columns<LINES, Core::INTEGER> columns;
  __shared__ float scales[Core::SCALED ? LINES : 4];
  __shared__ __align__(16) int line_sums[Core::INTEGER ? D::WARPS_K * LINES : 4];
  int warp = threadIdx.x / 32, part = 0;
  lo_direct_place at;
  at.batch = blockIdx.z;
  if (p.split > 1) {
    part = blockIdx.z % p.split;
    at.batch = blockIdx.z / p.split;
  }
  at.row0 = (lo_i64)blockIdx.x * D::BM, at.col0 = (p.tile0 + blockIdx.y) * D::BN;
  at.k0 = part * p.slice;
  at.rows = lo_left(p.a.extent, at.row0, D::BM), at.cols = lo_left(p.b.extent, at.col0, D::BN);
  at.k_count = lo_left(p.k, at.k0, (int)p.slice);
  at.warp_row = warp % D::WARPS_M * Core::WM;
  at.warp_col = warp / D::WARPS_M % D::WARPS_N * Core::WN;
  at.warp_k = warp / (D::WARPS_M * D::WARPS_N);

  Core core(p);
  lo_direct_quad q;
  bool usual = false;
  lo_factors factors;
  D::run(p, at, core, shared, [&] {
    /* the bias first: it comes from memory, while the rest waits for lines of parameters */
    lo_i64 col0 = lo_direct_col0(p, at);
    int mine = threadIdx.x, count = p.swapped ? at.rows : at.cols;
    auto column = columns.load(p.e, col0, count);
    factors = lo_factors_of(p.e);
    bool scaled = p.e.ends & scaling && mine < count;
    float scale = scaled ? lo_scale_of(p.e, col0 + mine) : 1.0f;
    usual = p.split == 1 && !(p.e.ends & ~scaling);
    q = lo_direct_quad_of<D>(p, at);
    columns.store(column);
    if (Core::SCALED && mine < LINES) scales[Core::SCALED ? mine : 0] = scale;
    if ((p.e.ends & ~scaling) > LO_END_ACTIVATION && q.count > 0) lo_direct_touch(p, at, q);
  });
  lo_lead();

  sum_t *mine = (sum_t *)shared + at.warp_k * D::PART;
  if (p.swapped)
    core.each([&](int r, int c, sum_t sum) {
      mine[(at.warp_col + c) * D::PITCH_SWAPPED + at.warp_row + r] = sum;
    });
  else
    core.each([&](int r, int c, sum_t sum) {
      mine[(at.warp_row + r) * D::PITCH + at.warp_col + c] = sum;
    });
  if constexpr (Core::INTEGER)
    if (core.lines.wanted && (p.swapped ? at.warp_col : at.warp_row) == 0)
      core.each_line([&](int line, int sum) {
        line_sums[at.warp_k * LINES + (p.swapped ? at.warp_row : at.warp_col) + line] = sum;
      });
  __syncthreads();

  quad acc = {};
  lo_i64 row = lo_direct_row0(p, at) + q.row, col = lo_direct_col0(p, at) + q.column;
  if (q.count > 0) acc = lo_over_warps<D, quad>(shared, D::PART, q.place);
  if constexpr (Core::INTEGER)
    if (core.lines.wanted && q.count > 0)
      acc = lo_direct_shift(p, acc, lo_over_warps<D, int4>(line_sums, LINES, q.column), row);
  lo_ending end = lo_ending_of(p.e, at.batch, false, factors);
  auto finish = [&](auto straight) {
    if (q.count <= 0) return;
    if (!lo_sums_count(p.e)) acc = {};
    if constexpr (Core::SCALED)
      if (p.e.ends & scaling) {
        acc = lo_direct_scale(end, row, scales + q.column, acc);
        end.alpha = 1.0f, end.ends &= ~scaling;
      }
    sum_t sums[1][4] = {{acc.x, acc.y, acc.z, acc.w}};
    lo_finish_one_at<straight.value>(end, columns.template at<4>(q.column), sums, q.c, row, col,
                                     q.count);
  };
  /* The usual way ends here, in few lines of the instruction cache: it waits for each of them. */
  if (__builtin_expect(usual, 1)) {
    end.ends = 0;
    finish(lo_yes());
    return;
  }
  if (p.split > 1) {
    if (q.count > 0) *(quad *)lo_part_of(p, part, at.batch, row, col) = acc;
    lo_i64 counter = (at.batch * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    if (!lo_meets_all(p.counters + counter, p.split)) return;
    if (q.count > 0) acc = lo_add_stored<quad>(p, at.batch, row, col);
  }
  if ((end.ends & ~scaling) <= LO_END_SUMS)
    finish(lo_yes());
  else
    finish(lo_no());
}

#endif

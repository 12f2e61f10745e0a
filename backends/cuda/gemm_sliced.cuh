/* Products on small grids: k is sliced over the warps of a block, so that all of a tile's bytes are
 * on their way at once and no warp waits for another before the end.
 *
 * Of the SLICES warps that share a tile of WM x WN outputs, each takes every SLICES-th step of 128
 * bytes of k through a ring of its own in shared memory (cp.async from Ampere on, through registers
 * before), multiplies it with the whole tile, and in the end the warps' sums are added in their
 * order. A block has as many such tiles as BM x BN outputs make. Both operands run along k. Their
 * rows lie on borders of 16 bytes, or, LOOSE (from Ampere on), anywhere. */
#ifndef LO_CUDA_GEMM_SLICED_CUH
#define LO_CUDA_GEMM_SLICED_CUH

#include "backends/cuda/triple.cuh"

template <int TYPE> struct lo_sliced_type {
  static constexpr int ELEMENT = TYPE <= LO_SLICED_BF16                         ? 2
                                 : TYPE == LO_SLICED_S8 || TYPE == LO_SLICED_U8 ? 1
                                                                                : 4;
  static constexpr bool INTEGER = ELEMENT == 1;
  typedef float sum;
  typedef float4 sum4;
};
template <> struct lo_sliced_type<LO_SLICED_S8> {
  static constexpr int ELEMENT = 1;
  static constexpr bool INTEGER = true;
  typedef int sum;
  typedef int4 sum4;
};
template <> struct lo_sliced_type<LO_SLICED_U8> : lo_sliced_type<LO_SLICED_S8> {};

/* ---- Shared memory, and copies to it. */
LO_FN void lo_slice_put(unsigned to, unsigned word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}
LO_FN void lo_slice_put(unsigned to, uint4 q) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(q.x), "r"(q.y), "r"(q.z),
               "r"(q.w)
               : "memory");
}
LO_FN unsigned lo_slice_get_word(unsigned from) {
  unsigned word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
  return word;
}
LO_FN uint4 lo_slice_get(unsigned from) {
  uint4 q;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(q.x), "=r"(q.y), "=r"(q.z), "=r"(q.w)
               : "r"(from)
               : "memory");
  return q;
}

/* The first `bytes` of the 16 from there, and zeros. */
LO_FN void lo_slice_copy(unsigned to, const char *from, int bytes) {
#if __CUDA_ARCH__ >= 800
  lo_copy_some<16>(to, from, bytes);
#else
  unsigned w[4] = {0, 0, 0, 0};
  if (bytes == 16) {
    uint4 q = lo_load((const uint4 *)from);
    w[0] = q.x, w[1] = q.y, w[2] = q.z, w[3] = q.w;
  } else {
    for (int i = 0; i < bytes; i++)
      w[i / 4] |= (unsigned)lo_load((const unsigned char *)from + i) << i % 4 * 8;
  }
  lo_slice_put(to, make_uint4(w[0], w[1], w[2], w[3]));
#endif
}
LO_FN void lo_slice_copy_word(unsigned to, const char *from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
#endif
}
/* The first `bytes` of the word from there, and zeros. */
LO_FN void lo_slice_copy_word(unsigned to, const char *from, int bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(bytes)
               : "memory");
#endif
}

/* A stage holds lines of 128 bytes, a row of the operand each; their chunks of 16 bytes are
 * swizzled so that copies and ldmatrix find all banks. */
LO_FN unsigned lo_slice_place(int line, int chunk) {
  return (unsigned)(line * 128 + ((chunk ^ (line & 7)) << 4));
}

/* A warp's way through an operand: a lane has one chunk of every fourth row. */
template <int ELEMENT, int ROWS> struct lo_slice_loader {
  static constexpr int BYTES = ROWS * 128; /* of a stage */
  const char *p;                           /* of the lane's first chunk */
  lo_i64 stride;                           /* in bytes */
  int rows_left, left;                     /* rows, bytes of k, from there on */

  __device__ __forceinline__ lo_slice_loader(const lo_cu_operand &o, lo_i64 batch, lo_i64 first,
                                             lo_i64 k0, int k_count, int step) {
    int lane = threadIdx.x % 32, row = lane / 8, along = step * 128 + lane % 8 * 16;
    lo_i64 rows = o.extent - first;
    rows_left = (rows < ROWS ? (int)rows : ROWS) - row;
    left = k_count * ELEMENT - along;
    stride = o.stride * ELEMENT;
    p = (const char *)o.p + (batch * o.batch_stride + (first + row) * o.stride + k0) * ELEMENT +
        along;
  }
  __device__ __forceinline__ void copy(unsigned stage) const {
    int lane = threadIdx.x % 32, bytes = left < 0 ? 0 : left < 16 ? left : 16;
    const char *from = p;
#pragma unroll
    for (int l = 0; l < ROWS / 4; l++, from += 4 * stride)
      lo_slice_copy(stage + lo_slice_place(lane / 8 + 4 * l, lane % 8), from,
                    4 * l < rows_left ? bytes : 0);
  }
  __device__ __forceinline__ void advance(int steps) {
    p += steps * 128;
    left -= steps * 128;
  }
  __device__ __forceinline__ void straighten(unsigned) const {}
};

/* The same for rows that begin anywhere: a lane has a word of every row. Smaller elements come as
 * whole words from the first border in a row's step on, with the word before it, the head, beside
 * them; when they have come, straighten() moves them on to where the step begins. */
template <int ELEMENT, int ROWS> struct lo_slice_loose_loader {
  static constexpr bool WORDS = ELEMENT == 4;
  static constexpr int HEADS = ROWS * 128, BYTES = HEADS + (WORDS ? 0 : ROWS * 4);
  static constexpr int HEADS_EACH = (ROWS + 31) / 32;
  const char *p;       /* of the first row's step: its beginning */
  lo_i64 stride;       /* in bytes */
  int rows_left, left; /* rows, bytes of k, from there on */
  bool begins;         /* the step begins where rows do: nothing of them lies before it */

  __device__ __forceinline__ lo_slice_loose_loader(const lo_cu_operand &o, lo_i64 batch,
                                                   lo_i64 first, lo_i64 k0, int k_count, int step) {
    lo_i64 rows = o.extent - first;
    rows_left = rows < ROWS ? (int)rows : ROWS;
    left = k_count * ELEMENT - step * 128;
    stride = o.stride * ELEMENT;
    p = (const char *)o.p + (batch * o.batch_stride + first * o.stride + k0) * ELEMENT + step * 128;
    begins = k0 == 0 && step == 0;
  }
  /* Bytes of a row's step before the first word in it that lies on a border. */
  static __device__ __forceinline__ int skipped(const char *row) {
    return WORDS ? 0 : (int)(-(lo_i64)row & 3);
  }
  __device__ __forceinline__ void copy(unsigned stage) const {
    bool crooked = !WORDS && (((int)(lo_u64)p | (int)stride) & 3);
    unsigned first[HEADS_EACH]; /* on its way together with the words */
    if (crooked && begins) load_heads(first);
    if (rows_left == ROWS && left >= 128 + 3)
      copy_words<true>(stage);
    else
      copy_words<false>(stage);
    if (crooked) put_heads(stage + HEADS, first);
  }
  /* WHOLE: all of them are there. */
  template <bool WHOLE> __device__ __forceinline__ void copy_words(unsigned stage) const {
    unsigned lane = threadIdx.x % 32, to = stage + lane % 4 * 4, chunk = lane / 4;
    const char *row = p + lane * 4;
    int bytes = left - (int)lane * 4;
#pragma unroll
    for (int l = 0; l < ROWS; l++, row += stride) {
      int skip = WHOLE ? 0 : skipped(row), some = bytes - skip;
      const char *from = WORDS ? row : (const char *)(((lo_u64)row + 3) & ~(lo_u64)3);
      if (WHOLE)
        lo_slice_copy_word(to + lo_slice_place(l, chunk), from);
      else
        lo_slice_copy_word(to + lo_slice_place(l, chunk), from,
                           l >= rows_left || some < 0 ? 0
                           : some < 4                 ? some
                                                      : 4);
    }
  }
  /* A lane has a row's: those of its bytes that lie before the first border, at a word's end. */
  __device__ __forceinline__ void load_heads(unsigned (&first)[HEADS_EACH]) const {
#pragma unroll
    for (int i = 0; i < HEADS_EACH; i++) {
      int l = threadIdx.x % 32 + 32 * i;
      const char *row = p + l * stride;
      int skip = skipped(row), some = left < skip ? left : skip;
      first[i] = 0;
      if (l < rows_left && some > 0) first[i] = first_bytes(row, some) << 8 * (4 - skip);
    }
  }
  __device__ __forceinline__ void put_heads(unsigned heads,
                                            const unsigned (&first)[HEADS_EACH]) const {
#pragma unroll
    for (int i = 0; i < HEADS_EACH; i++) {
      int l = threadIdx.x % 32 + 32 * i;
      const char *row = p + l * stride;
      int skip = skipped(row), some = left < skip ? left : skip;
      if (l >= rows_left || some <= 0) continue;
      if (begins)
        lo_slice_put(heads + 4 * l, first[i]);
      else
        lo_copy_some<4>(heads + 4 * l, row + skip - 4, 4 - skip + some);
    }
  }
  static __device__ __forceinline__ unsigned first_bytes(const char *row, int bytes) {
    if (ELEMENT == 2) return lo_load((const unsigned short *)row);
    unsigned word = 0;
#pragma unroll
    for (int b = 0; b < 3; b++)
      if (b < bytes) word |= (unsigned)lo_load((const unsigned char *)row + b) << 8 * b;
    return word;
  }
  __device__ __forceinline__ void straighten(unsigned stage) const {
    int each = (int)stride & 3, at = (int)(lo_u64)p & 3;
    if (WORDS || !(each | at)) return;
    if (each == 2 && !(at & 1))
      straighten_rows<2>(stage, at == 0); /* the others are straight */
    else
      straighten_rows<1>(stage, 0);
    __syncwarp();
  }
  /* Every APART-th row; a lane has a chunk of every fourth of them. */
  template <int APART>
  __device__ __forceinline__ void straighten_rows(unsigned stage, int first) const {
    constexpr int TURNS = ROWS / (4 * APART), UNROLL = TURNS < 4 ? TURNS : 4;
    int chunk = threadIdx.x % 8, row = first + threadIdx.x % 32 / 8 * APART;
#pragma unroll 1
    for (int t = 0; t < TURNS; t += UNROLL, row += 4 * APART * UNROLL) {
      uint4 q[UNROLL];
#pragma unroll
      for (int u = 0; u < UNROLL; u++) q[u] = straight(stage, row + 4 * APART * u, chunk);
#pragma unroll
      for (int u = 0; u < UNROLL; u++)
        lo_slice_put(stage + lo_slice_place(row + 4 * APART * u, chunk), q[u]);
    }
  }
  __device__ __forceinline__ uint4 straight(unsigned stage, int row, int chunk) const {
    int bits = (int)((lo_u64)p + row * (lo_u64)stride & 3) * 8;
    uint4 q = lo_slice_get(stage + lo_slice_place(row, chunk));
    unsigned before = __shfl_up_sync(~0u, q.w, 1);
    if (!chunk) before = lo_slice_get_word(stage + HEADS + 4 * row);
    return bits ? make_uint4(__funnelshift_r(before, q.x, bits), __funnelshift_r(q.x, q.y, bits),
                             __funnelshift_r(q.y, q.z, bits), __funnelshift_r(q.z, q.w, bits))
                : q;
  }
  __device__ __forceinline__ void advance(int steps) {
    p += steps * 128;
    left -= steps * 128;
    begins = false;
  }
};

/* ---- The instructions: 32 bytes of k a time. */
#define LO_MMA(SHAPE, C)                                                                           \
  asm("mma.sync.aligned." SHAPE " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"           \
      : C(c[0]), C(c[1]), C(c[2]), C(c[3])                                                         \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
#define LO_MMA_HALF(A0, A1, B)                                                                     \
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "            \
      "{%0,%1,%2,%3};"                                                                             \
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                             \
      : "r"(A0), "r"(A1), "r"(B))
#define LO_MMA_QUARTER(C0, C1, A, B, SIGN)                                                         \
  asm("mma.sync.aligned.m8n8k16.row.col.s32." SIGN ".s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"         \
      : "+r"(C0), "+r"(C1)                                                                         \
      : "r"(A), "r"(B))
/* c += a b for 16 x 8 outputs. */
template <int TYPE>
LO_FN void lo_slice_mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  if (TYPE == LO_SLICED_F16) LO_MMA("m16n8k16.row.col.f32.f16.f16.f32", "+f");
  if (TYPE == LO_SLICED_BF16) LO_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
  if (TYPE == LO_SLICED_TF32) LO_MMA("m16n8k8.row.col.f32.tf32.tf32.f32", "+f");
#else
  if (TYPE == LO_SLICED_F16) {
    LO_MMA_HALF(a[0], a[1], b0);
    LO_MMA_HALF(a[2], a[3], b1);
  }
#endif
}
template <int TYPE>
LO_FN void lo_slice_mma(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  if (TYPE == LO_SLICED_S8) LO_MMA("m16n8k32.row.col.s32.s8.s8.s32", "+r");
  if (TYPE == LO_SLICED_U8) LO_MMA("m16n8k32.row.col.s32.u8.s8.s32", "+r");
#else
#define LO_QUARTERS(SIGN)                                                                          \
  LO_MMA_QUARTER(c[0], c[1], a[0], b0, SIGN);                                                      \
  LO_MMA_QUARTER(c[2], c[3], a[1], b0, SIGN);                                                      \
  LO_MMA_QUARTER(c[0], c[1], a[2], b1, SIGN);                                                      \
  LO_MMA_QUARTER(c[2], c[3], a[3], b1, SIGN);
  if (TYPE == LO_SLICED_S8) {
    LO_QUARTERS("s8")
  } else {
    LO_QUARTERS("u8")
  }
#undef LO_QUARTERS
#endif
}
#undef LO_MMA
#undef LO_MMA_HALF
#undef LO_MMA_QUARTER

template <bool LOOSE, int ELEMENT, int ROWS> struct lo_slice_loader_of {
  typedef lo_slice_loader<ELEMENT, ROWS> type;
};
template <int ELEMENT, int ROWS> struct lo_slice_loader_of<true, ELEMENT, ROWS> {
  typedef lo_slice_loose_loader<ELEMENT, ROWS> type;
};

template <int TYPE_, bool LOOSE_, int BM_, int BN_, int WM_, int WN_, int SLICES_, int STAGES_>
struct lo_sliced_core {
  static constexpr bool LOOSE = LOOSE_;
  static constexpr int TYPE = TYPE_, BM = BM_, BN = BN_, WM = WM_, WN = WN_;
  static constexpr int SLICES = SLICES_, STAGES = STAGES_, TILES_N = BN / WN;
  static constexpr int WARPS = BM / WM * TILES_N * SLICES, THREADS = 32 * WARPS;
  typedef lo_sliced_type<TYPE> type_t;
  static constexpr int ELEMENT = type_t::ELEMENT, BK = 128 / ELEMENT;
  static constexpr bool INTEGER = type_t::INTEGER;
  static constexpr int MA = WM / 16, NB = WN / 16;
  typedef typename lo_slice_loader_of<LOOSE, ELEMENT, WM>::type loader_a;
  typedef typename lo_slice_loader_of<LOOSE, ELEMENT, WN>::type loader_b;
  static constexpr int OFFSET_B = loader_a::BYTES, STAGE = OFFSET_B + loader_b::BYTES;
  static constexpr int RING = STAGE * STAGES, PITCH = WN + 8;
  static constexpr int SUMS = WM * PITCH * 4; /* bytes of a warp's */
  static constexpr int EACH = RING > SUMS ? RING : SUMS, BYTES = EACH * WARPS;
  static_assert(OFFSET_B % 16 == 0 && EACH % 16 == 0, "chunks");
  typedef typename type_t::sum sum_t;
  typedef typename type_t::sum4 sum4;

  sum_t acc[MA][2 * NB][4];
  int column[INTEGER ? 2 * NB : 1]; /* sums of B over k, where they are wanted */

  __device__ __forceinline__ lo_sliced_core() {
#pragma unroll
    for (int i = 0; i < MA; i++)
#pragma unroll
      for (int j = 0; j < 2 * NB; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) acc[i][j][e] = 0;
#pragma unroll
    for (int j = 0; j < (INTEGER ? 2 * NB : 1); j++) column[j] = 0;
  }

  /* 16 rows by 32 bytes of k: matrices (rows, first half of k), (rows + 8, ..), (rows, second), ..
   */
  static __device__ __forceinline__ void read_a(unsigned (&r)[4], unsigned stage, int i, int k) {
    int lane = threadIdx.x % 32;
    lo_read_matrices<false>(r, stage + lo_slice_place(16 * i + lane % 16, 2 * k + lane / 16));
  }
  /* 16 columns: (columns, first half of k), (columns, second), and of columns + 8. */
  static __device__ __forceinline__ void read_b(unsigned (&r)[4], unsigned stage, int j, int k) {
    int lane = threadIdx.x % 32;
    lo_read_matrices<false>(
        r,
        stage + OFFSET_B + lo_slice_place(16 * j + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
  }
  __device__ __forceinline__ void multiply_k(unsigned stage, int k, bool columns) {
    unsigned a[MA][4], b[NB][4];
#pragma unroll
    for (int i = 0; i < MA; i++) read_a(a[i], stage, i, k);
#pragma unroll
    for (int j = 0; j < NB; j++) read_b(b[j], stage, j, k);
#pragma unroll
    for (int j = 0; j < NB; j++) {
#pragma unroll
      for (int h = 0; h < 2; h++) {
#pragma unroll
        for (int i = 0; i < MA; i++)
          lo_slice_mma<TYPE>(acc[i][2 * j + h], a[i], b[j][2 * h], b[j][2 * h + 1]);
        if (INTEGER && columns) {
          int &c = column[INTEGER ? 2 * j + h : 0];
          c = __dp4a((int)b[j][2 * h], 0x01010101, c);
          c = __dp4a((int)b[j][2 * h + 1], 0x01010101, c);
        }
      }
    }
  }
  /* Twice 32 bytes: words k and k + 4 of each are side by side in the instruction, for A and B. */
  __device__ __forceinline__ void multiply_split(unsigned stage, int k) {
    unsigned a[MA][LO_TRIPLE_PARTS][4];
#pragma unroll
    for (int i = 0; i < MA; i++) {
      unsigned raw[2][4];
      read_a(raw[0], stage, i, k);
      read_a(raw[1], stage, i, k + 1);
#pragma unroll
      for (int e = 0; e < 4; e++) {
        unsigned parts[LO_TRIPLE_PARTS];
        lo_triple_split(__uint_as_float(raw[e / 2][e % 2]), __uint_as_float(raw[e / 2][e % 2 + 2]),
                        parts);
#pragma unroll
        for (int p = 0; p < LO_TRIPLE_PARTS; p++) a[i][p][e] = parts[p];
      }
    }
#pragma unroll
    for (int j = 0; j < NB; j++) {
      unsigned raw[2][4], b[2][2][LO_TRIPLE_PARTS];
      read_b(raw[0], stage, j, k);
      read_b(raw[1], stage, j, k + 1);
#pragma unroll
      for (int h = 0; h < 2; h++)
#pragma unroll
        for (int e = 0; e < 2; e++)
          lo_triple_split(__uint_as_float(raw[e][2 * h]), __uint_as_float(raw[e][2 * h + 1]),
                          b[h][e]);
#pragma unroll
      for (int h = 0; h < 2; h++) add_products(a, b[h], 2 * j + h);
    }
  }
  __device__ __forceinline__ void add_products(const unsigned (&a)[MA][LO_TRIPLE_PARTS][4],
                                               const unsigned (&b)[2][LO_TRIPLE_PARTS],
                                               int column_of_8) {
    float sum[MA][4] = {};
#pragma unroll
    for (int o = 0; o < LO_TRIPLE_PRODUCTS; o++)
#pragma unroll
      for (int i = 0; i < MA; i++)
        lo_slice_mma<LO_SLICED_BF16>(sum[i], a[i][lo_triple_a(o)], b[0][lo_triple_b(o)],
                                     b[1][lo_triple_b(o)]);
#pragma unroll
    for (int i = 0; i < MA; i++)
#pragma unroll
      for (int e = 0; e < 4; e++) acc[i][column_of_8][e] += (sum_t)sum[i][e];
  }
  __device__ __forceinline__ void multiply(unsigned stage, bool columns) {
    if (TYPE == LO_SLICED_F32) {
      multiply_split(stage, 0);
      multiply_split(stage, 2);
    } else {
#pragma unroll
      for (int k = 0; k < 4; k++) multiply_k(stage, k, columns);
    }
  }

  /* The steps of a slice: slice, slice + SLICES, .. below steps. */
  static __device__ __forceinline__ int steps_of(int steps, int slice) {
    return (steps - slice + SLICES - 1) / SLICES;
  }
  static __device__ __forceinline__ void begin(unsigned ring, loader_a &a, loader_b &b, int count) {
#pragma unroll
    for (int s = 0; s < STAGES; s++) {
      if (s < count) fill(ring + s * STAGE, a, b);
      lo_copy_commit();
    }
  }
  __device__ __forceinline__ void run(unsigned ring, loader_a &a, loader_b &b, int count,
                                      bool columns) {
    unsigned stage = ring;
#pragma unroll 1
    for (int s = 0; s < count; s++) {
      lo_copy_wait<STAGES - 1>();
      __syncwarp();
      a.straighten(stage);
      b.straighten(stage + OFFSET_B);
      multiply(stage, columns);
      __syncwarp();
      if (s + STAGES < count) fill(stage, a, b);
      lo_copy_commit();
      stage = stage + STAGE == ring + RING ? ring : stage + STAGE;
    }
  }
  static __device__ __forceinline__ void fill(unsigned stage, loader_a &a, loader_b &b) {
    a.copy(stage);
    b.copy(stage + OFFSET_B);
    a.advance(SLICES);
    b.advance(SLICES);
  }

  /* The warp's sums to shared memory. Lines are 8 words longer than BN: banks. */
  __device__ __forceinline__ void put(sum_t *mine) const {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < MA; i++)
#pragma unroll
      for (int j = 0; j < 2 * NB; j++) {
        sum_t *line = mine + (16 * i + lane / 4) * PITCH + 8 * j + lane % 4 * 2;
        line[0] = acc[i][j][0];
        line[1] = acc[i][j][1];
        line[8 * PITCH] = acc[i][j][2];
        line[8 * PITCH + 1] = acc[i][j][3];
      }
  }
  /* The first slice's sum for an output of the block. */
  static __device__ __forceinline__ const sum_t *sums_of(const char *memory, int r, int c) {
    return (const sum_t *)(memory + (r / WM * TILES_N + c / WN) * SLICES * EACH) + r % WM * PITCH +
           c % WN;
  }
  /* Column sums, of whole numbers: the order does not matter. */
  __device__ __forceinline__ void add_columns(int *columns) const {
#pragma unroll
    for (int j = 0; j < (INTEGER ? 2 * NB : 1); j++)
      atomicAdd(columns + 8 * j + threadIdx.x % 32 / 4, column[j]);
  }
};

/* Sums of f32 that are not finite, again by ordinary cores. */
LO_FN float4 lo_checked(const lo_cu_gemm &p, float4 q, lo_i64 batch, lo_i64 row, lo_i64 col,
                        lo_i64 k0, int k_count) {
  return lo_triple_check(p, q, batch, row, col, k0, k_count);
}
LO_FN int4 lo_checked(const lo_cu_gemm &, int4 q, lo_i64, lo_i64, lo_i64, lo_i64, int) {
  return q;
}
LO_FN float4 lo_read4(const float *p) {
  return *(const float4 *)p;
}
LO_FN int4 lo_read4(const int *p) {
  return *(const int4 *)p;
}

/* The slices' sums in their order, and what follows them: a quad at a time, */
template <class Core, class Columns>
LO_FN void lo_sliced_quads(const lo_cu_gemm &p, const lo_ending &end, const Columns &columns,
                           const char *memory, lo_i64 batch, lo_i64 row0, lo_i64 col0, lo_i64 k0,
                           int k_count) {
  constexpr int QUADS = Core::BN / 4;
#pragma unroll 1
  for (int v = threadIdx.x; v < Core::BM * QUADS; v += Core::THREADS) {
    int r = v / QUADS, c = v % QUADS * 4;
    const typename Core::sum_t *sums = Core::sums_of(memory, r, c);
    typename Core::sum4 quad = lo_read4(sums);
#pragma unroll
    for (int w = 1; w < Core::SLICES; w++)
      quad = lo_add4(quad, lo_read4(sums + w * (Core::EACH / 4)));
    lo_i64 row = row0 + r, col = col0 + c;
    if (row >= p.m || col >= p.n) continue;
    if (Core::TYPE == LO_SLICED_F32) quad = lo_checked(p, quad, batch, row, col, k0, k_count);
    lo_finish_quad(end, columns.template at<4>(c), quad, row, col, lo_quad_count(p.n, col));
  }
}
/* or, where C's quads may not be moved at once, neighbours by neighbouring threads, of a column a
 * few rows at a time. */
template <class Core, class Columns>
LO_FN void lo_sliced_singly(const lo_cu_gemm &p, const lo_ending &end, const Columns &columns,
                            const char *memory, lo_i64 batch, lo_i64 row0, lo_i64 col0, lo_i64 k0,
                            int k_count) {
  constexpr int STEP = Core::THREADS / Core::BN, EACH = Core::BM / STEP, N = EACH < 4 ? EACH : 4;
  static_assert(Core::THREADS % Core::BN == 0 && EACH % N == 0, "whole turns");
  int c = threadIdx.x % Core::BN;
  if (col0 + c >= p.n) return;
#pragma unroll 1
  for (int r = threadIdx.x / Core::BN; r < Core::BM && row0 + r < p.m; r += N * STEP) {
    lo_pieces at = {row0 + r, col0 + c, lo_left(p.m, row0 + r, Core::BM), 1, false};
    typename Core::sum_t sum[N][1];
#pragma unroll
    for (int i = 0; i < N; i++) {
      const typename Core::sum_t *sums = Core::sums_of(memory, r + i * STEP, c);
      sum[i][0] = sums[0];
#pragma unroll
      for (int w = 1; w < Core::SLICES; w++) sum[i][0] += sums[w * (Core::EACH / 4)];
      if constexpr (Core::TYPE == LO_SLICED_F32)
        if (!lo_is_finite(sum[i][0]) && i * STEP < at.rows)
          sum[i][0] = lo_plain_dot(p, batch, at.row + i * STEP, at.col, k0, k_count);
    }
    char *to = end.to + lo_bytes_of(end.type, at.row * end.stride + at.col);
    if (end.ends <= LO_END_SUMS)
      lo_finish<true, N, 1, STEP>(end, columns.template at<1>(c), sum, to, at);
    else
      lo_finish<false, N, 1, STEP>(end, columns.template at<1>(c), sum, to, at);
  }
}

/* grid: x tiles of a matrix, y parts of k, z matrices of the batch */
template <class Core> LO_FN void lo_gemm_sliced(const lo_cu_gemm &p) {
  typedef typename Core::sum_t sum_t;
  typedef lo_tile_columns<Core::BN, Core::INTEGER> columns_t;
  extern __shared__ __align__(128) char memory[];
  __shared__ __align__(16) columns_t columns;
  unsigned tile = (unsigned)p.tile0 + blockIdx.x, tm = tile / (unsigned)p.tiles_n;
  lo_i64 row0 = (lo_i64)tm * Core::BM, col0 = (lo_i64)(tile - tm * (unsigned)p.tiles_n) * Core::BN;
  lo_i64 k0 = blockIdx.y * p.slice;
  int k_count = (int)(p.k - k0 < p.slice ? p.k - k0 : p.slice);
  int warp = threadIdx.x / 32, slice = warp % Core::SLICES, part = warp / Core::SLICES;
  int row_w = part / Core::TILES_N * Core::WM, col_w = part % Core::TILES_N * Core::WN;
  if (lo_scalar_float(p.e.alpha) == 0.0f) k_count = 0; /* does not read the operands */
  int steps = Core::steps_of((k_count + Core::BK - 1) / Core::BK, slice);
  if (row0 + row_w >= p.m || col0 + col_w >= p.n) steps = 0;
  bool zero = Core::INTEGER && p.e.zero_a.p;
  unsigned ring = (unsigned)__cvta_generic_to_shared(memory) + warp * Core::EACH;
  static_assert(Core::BN <= Core::THREADS, "a column each");
  for (lo_i64 l = blockIdx.z; l < p.batch; l += gridDim.z) {
    typename Core::loader_a a(p.a, l, row0 + row_w, k0, k_count, slice);
    typename Core::loader_b b(p.b, l, col0 + col_w, k0, k_count, slice);
    Core core;
    core.begin(ring, a, b, steps);
    typename columns_t::column_t column = columns_t::load(p.e, col0, lo_left(p.n, col0, Core::BN));
    if (zero)
      for (int i = threadIdx.x; i < Core::BN; i += Core::THREADS) columns.sums[i] = 0;
    core.run(ring, a, b, steps, zero);
    lo_lead();
    columns.store(column);
    core.put((sum_t *)(memory + warp * Core::EACH));
    __syncthreads();
    if (zero) {
      if (row_w == 0) core.add_columns(columns.sums + col_w);
      __syncthreads();
    }
    lo_ending end = lo_product_ending(p, l);
    if (end.quads)
      lo_sliced_quads<Core>(p, end, columns, memory, l, row0, col0, k0, k_count);
    else
      lo_sliced_singly<Core>(p, end, columns, memory, l, row0, col0, k0, k_count);
    if (p.split > 1 && lo_comes_last(p, l)) lo_add_parts<Core>(p, columns, l, row0, col0, false);
    __syncthreads();
  }
}

#endif

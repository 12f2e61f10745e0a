/* Products on small grids: k is sliced over the warps of a block, so that all of a tile's bytes are
 * on their way at once and no warp waits for another before the end.
 *
 * Each warp takes every WARPS-th step of 128 bytes of k through a ring of its own in shared memory
 * (cp.async from Ampere on, through registers before), multiplies it with the whole tile, and in
 * the end the warps' sums are added in their order. Both operands run along k, and their rows lie
 * on borders of 16 bytes. */
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

/* ---- Copies to shared memory. */

/* The first `bytes` of the 16 from there, and zeros. */
LO_FN void lo_slice_copy(unsigned to, const char *from, int bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(bytes)
               : "memory");
#else
  unsigned w[4] = {0, 0, 0, 0};
  if (bytes == 16) {
    uint4 q = __ldg((const uint4 *)from);
    w[0] = q.x, w[1] = q.y, w[2] = q.z, w[3] = q.w;
  } else {
    for (int i = 0; i < bytes; i++)
      w[i / 4] |= (unsigned)__ldg((const unsigned char *)from + i) << i % 4 * 8;
  }
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(w[0]), "r"(w[1]),
               "r"(w[2]), "r"(w[3])
               : "memory");
#endif
}
LO_FN void lo_slice_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int GROUPS> LO_FN void lo_slice_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
#endif
  __syncwarp();
}

/* A stage holds lines of 128 bytes, a row of the operand each; their chunks of 16 bytes are
 * swizzled so that copies and ldmatrix find all banks. */
LO_FN unsigned lo_slice_place(int line, int chunk) {
  return (unsigned)(line * 128 + ((chunk ^ (line & 7)) << 4));
}

/* A warp's way through an operand: a lane has one chunk of every fourth row. */
template <int ELEMENT, int ROWS> struct lo_slice_loader {
  const char *p;       /* of the lane's first chunk */
  lo_i64 stride;       /* in bytes */
  int rows_left, left; /* rows, bytes of k, from there on */

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
};

/* ---- The instructions: 32 bytes of k a time. */
LO_FN void lo_slice_matrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

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

template <int TYPE_, int BM_, int BN_, int WARPS_, int STAGES_> struct lo_sliced_core {
  static constexpr int TYPE = TYPE_, BM = BM_, BN = BN_, WARPS = WARPS_, STAGES = STAGES_;
  typedef lo_sliced_type<TYPE> type_t;
  static constexpr int ELEMENT = type_t::ELEMENT, THREADS = 32 * WARPS, BK = 128 / ELEMENT;
  static constexpr bool INTEGER = type_t::INTEGER;
  static constexpr int MA = BM / 16, NB = BN / 16;
  static constexpr int STAGE = (BM + BN) * 128, RING = STAGE * STAGES, PITCH = BN + 8;
  static constexpr int SUMS = BM * PITCH * 4; /* bytes of a warp's */
  static constexpr int EACH = RING > SUMS ? RING : SUMS, BYTES = EACH * WARPS;
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
    lo_slice_matrices(r, stage + lo_slice_place(16 * i + lane % 16, 2 * k + lane / 16));
  }
  /* 16 columns: (columns, first half of k), (columns, second), and of columns + 8. */
  static __device__ __forceinline__ void read_b(unsigned (&r)[4], unsigned stage, int j, int k) {
    int lane = threadIdx.x % 32;
    lo_slice_matrices(r,
                      stage + BM * 128 +
                          lo_slice_place(16 * j + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
  }
  static __device__ __forceinline__ void round(unsigned (&r)[4]) {
#if __CUDA_ARCH__ >= 800
    if (TYPE == LO_SLICED_TF32)
#pragma unroll
      for (int e = 0; e < 4; e++) asm("cvt.rna.tf32.f32 %0, %0;" : "+r"(r[e]));
#endif
  }
  __device__ __forceinline__ void multiply_k(unsigned stage, int k, bool columns) {
    unsigned a[MA][4], b[NB][4];
#pragma unroll
    for (int i = 0; i < MA; i++) read_a(a[i], stage, i, k);
#pragma unroll
    for (int j = 0; j < NB; j++) read_b(b[j], stage, j, k);
#pragma unroll
    for (int i = 0; i < MA; i++) round(a[i]);
#pragma unroll
    for (int j = 0; j < NB; j++) {
      round(b[j]);
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

  /* The warp's steps: warp, warp + WARPS, .. below steps. */
  static __device__ __forceinline__ int steps_of(int steps) {
    return (steps - (int)threadIdx.x / 32 + WARPS - 1) / WARPS;
  }
  template <class A, class B>
  static __device__ __forceinline__ void begin(unsigned ring, A &a, B &b, int steps) {
    int count = steps_of(steps);
#pragma unroll
    for (int s = 0; s < STAGES; s++) {
      if (s < count) fill(ring + s * STAGE, a, b);
      lo_slice_commit();
    }
  }
  template <class A, class B>
  __device__ __forceinline__ void run(unsigned ring, A &a, B &b, int steps, bool columns) {
    int count = steps_of(steps);
    unsigned stage = ring;
#pragma unroll 1
    for (int s = 0; s < count; s++) {
      lo_slice_wait<STAGES - 1>();
      multiply(stage, columns);
      __syncwarp();
      if (s + STAGES < count) fill(stage, a, b);
      lo_slice_commit();
      stage = stage + STAGE == ring + RING ? ring : stage + STAGE;
    }
  }
  template <class A, class B>
  static __device__ __forceinline__ void fill(unsigned stage, A &a, B &b) {
    a.copy(stage);
    b.copy(stage + BM * 128);
    a.advance(WARPS);
    b.advance(WARPS);
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
  /* Column sums, of whole numbers: the order does not matter. */
  __device__ __forceinline__ void add_columns(int *columns) const {
#pragma unroll
    for (int j = 0; j < (INTEGER ? 2 * NB : 1); j++)
      atomicAdd(columns + 8 * j + threadIdx.x % 32 / 4, column[j]);
  }
};

LO_FN float4 lo_read4(const float *p) {
  return *(const float4 *)p;
}
LO_FN int4 lo_read4(const int *p) {
  return *(const int4 *)p;
}

LO_FN float4 lo_checked(const lo_cu_gemm &p, float4 q, lo_i64 batch, lo_i64 row, lo_i64 col,
                        lo_i64 k0, int k_count) {
  return lo_triple_check(p, q, batch, row, col, k0, k_count);
}
LO_FN int4 lo_checked(const lo_cu_gemm &, int4 q, lo_i64, lo_i64, lo_i64, lo_i64, int) {
  return q;
}

/* Each line of parameters comes from memory when it is first read: here all at once. */
LO_FN void lo_touch_params(const lo_cu_gemm &p) {
  unsigned word = ((const unsigned *)&p)[threadIdx.x / 32 * 16 % (unsigned)(sizeof p / 4)];
  asm volatile("" ::"r"(word));
}

/* grid: x tiles of a matrix, y parts of k, z matrices of the batch */
template <class Core> LO_FN void lo_gemm_sliced(const lo_cu_gemm &p) {
  typedef typename Core::sum_t sum_t;
  typedef typename Core::sum4 sum4;
  typedef lo_tile_columns<Core::BN, Core::INTEGER> columns_t;
  constexpr int QUADS = Core::BN / 4;
  extern __shared__ __align__(128) char memory[];
  __shared__ __align__(16) columns_t columns;
  lo_touch_params(p);
  unsigned tile = (unsigned)p.tile0 + blockIdx.x, tm = tile / (unsigned)p.tiles_n;
  lo_i64 row0 = (lo_i64)tm * Core::BM, col0 = (lo_i64)(tile - tm * (unsigned)p.tiles_n) * Core::BN;
  lo_i64 k0 = blockIdx.y * p.slice;
  int k_count = (int)(p.k - k0 < p.slice ? p.k - k0 : p.slice), warp = threadIdx.x / 32;
  if (lo_scalar_float(p.e.alpha) == 0.0f) k_count = 0; /* does not read the operands */
  bool zero = Core::INTEGER && p.e.zero_a.p;
  unsigned ring = (unsigned)__cvta_generic_to_shared(memory) + warp * Core::EACH;
  static_assert(Core::BN <= Core::THREADS, "a column each");
  for (lo_i64 l = blockIdx.z; l < p.batch; l += gridDim.z) {
    lo_slice_loader<Core::ELEMENT, Core::BM> a(p.a, l, row0, k0, k_count, warp);
    lo_slice_loader<Core::ELEMENT, Core::BN> b(p.b, l, col0, k0, k_count, warp);
    Core core;
    core.begin(ring, a, b, (k_count + Core::BK - 1) / Core::BK);
    typename columns_t::column_t column = columns_t::load(p.e, col0, lo_left(p.n, col0, Core::BN));
    if (zero)
      for (int i = threadIdx.x; i < Core::BN; i += Core::THREADS) columns.sums[i] = 0;
    core.run(ring, a, b, (k_count + Core::BK - 1) / Core::BK, zero);
    columns.store(column);
    core.put((sum_t *)(memory + warp * Core::EACH));
    __syncthreads();
    if (zero) {
      core.add_columns(columns.sums);
      __syncthreads();
    }
    lo_ending end = lo_product_ending(p, l);
#pragma unroll 1
    for (int v = threadIdx.x; v < Core::BM * QUADS; v += Core::THREADS) {
      int r = v / QUADS, c = v % QUADS * 4;
      const sum_t *part = (const sum_t *)memory + r * Core::PITCH + c;
      sum4 quad = lo_read4(part);
#pragma unroll
      for (int w = 1; w < Core::WARPS; w++)
        quad = lo_add4(quad, lo_read4(part + w * (Core::EACH / 4)));
      lo_i64 row = row0 + r, col = col0 + c;
      if (row >= p.m || col >= p.n) continue;
      if (Core::TYPE == LO_SLICED_F32) quad = lo_checked(p, quad, l, row, col, k0, k_count);
      lo_finish_quad(end, columns.template at<4>(c), quad, row, col, lo_quad_count(p.n, col));
    }
    if (p.split > 1 && lo_comes_last(p, l)) lo_add_parts<Core>(p, columns, l, row0, col0, false);
    __syncthreads();
  }
}

#endif

/* What the kernels for block-sparse weights of 16-bit types share. */
#ifndef LO_CUDA_BSR_MMA_CUH
#define LO_CUDA_BSR_MMA_CUH

#include <type_traits>

#include "backends/cuda/async_copy.cuh"
#include "backends/cuda/bsr_launch.h"

template <bool BF16>
LO_FN void lo_mma_16(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                     unsigned b1) {
#if __CUDA_ARCH__ >= 800
#define LO_MMA(TYPE)                                                                               \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE                                       \
      ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                 \
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                             \
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
  if (BF16)
    LO_MMA("bf16");
  else
    LO_MMA("f16");
#undef LO_MMA
#else
#define LO_MMA(A0, A1, B)                                                                          \
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "            \
      "{%0,%1,%2,%3};"                                                                             \
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                             \
      : "r"(A0), "r"(A1), "r"(B))
  LO_MMA(a0, a1, b0);
  LO_MMA(a2, a3, b1);
#undef LO_MMA
#endif
}

/* A matrix of 8 x 8, transposed. */
LO_FN unsigned lo_turn_matrix(unsigned r) {
  unsigned t;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(t) : "r"(r));
  return t;
}

/* Up to 8 elements from there, and zeros. */
template <bool LOOSE> LO_FN uint4 lo_load_chunk(const unsigned short *from, int count) {
  uint4 z = make_uint4(0, 0, 0, 0);
  if constexpr (LOOSE) {
    unsigned h[8];
#pragma unroll
    for (int i = 0; i < 8; i++) h[i] = i < count ? from[i] : 0;
    z = make_uint4(h[0] | h[1] << 16, h[2] | h[3] << 16, h[4] | h[5] << 16, h[6] | h[7] << 16);
  } else if (count > 0) {
    z = *(const uint4 *)from;
  }
  return z;
}

/* Chunk c of a line of ROW bytes is at c ^ this, as boxes have it too: copies and ldmatrix find all
 * banks. */
template <int ROW> LO_FN int lo_swizzle(int line) {
  return ROW >= 128 ? line % 8 : ROW == 64 ? line / 2 % 4 : line / 4 % 2;
}

/* The same in all lanes, and so known to the compiler. */
LO_FN int lo_same(int x) {
  return __shfl_sync(~0u, x, 0);
}

/* params.h */
template <int SLABS, int UNITS> struct lo_bsr_step {
  static constexpr int WORDS = LO_CU_BSR_STEP_WORDS(SLABS, UNITS);
  int column[SLABS], unit[UNITS];
  unsigned short code[UNITS];
  unsigned char start[8];
};
template <int SLABS, int UNITS> struct lo_bsr_chunk {
  static constexpr int WORDS = LO_CU_BSR_CHUNK_WORDS(SLABS, UNITS);
  int units, slabs_z, slabs, unused;
  int column[SLABS], unit[UNITS];
  unsigned char z[UNITS], x[UNITS], at_z[UNITS], at_x[UNITS];
};

/* Each of N numbers, as constants. */
template <int N, int I = 0, class Do> LO_FN void lo_each_of(Do act) {
  if constexpr (I < N) {
    act(std::integral_constant<int, I>());
    lo_each_of<N, I + 1>(act);
  }
}
/* One of N, of which the number is known at run time, the same in all lanes. */
template <int N, int I = 0, class Do> LO_FN void lo_one_of(int which, Do act) {
  if constexpr (N == 1) {
    act(std::integral_constant<int, I>());
  } else {
    if (which < I + N / 2)
      lo_one_of<N / 2, I>(which, act);
    else
      lo_one_of<N - N / 2, I + N / 2>(which, act);
  }
}

/* The gradient of a chunk's units: SLOTS units of a set of warps, the fragments of each in SLAB
 * columns of a stage of BK lines. */
template <bool BF16_, int UNIT_, int SLAB_, int SLOTS_, int WARPS_, int SLABS_, int BK_,
          int STAGES_, int RESIDENT_>
struct lo_bsr_wgrad {
  static constexpr bool BF16 = BF16_;
  static constexpr int UNIT = UNIT_, SLAB = SLAB_, SLOTS = SLOTS_, WARPS = WARPS_, SLABS = SLABS_;
  static constexpr int BK = BK_, STAGES = STAGES_, RESIDENT = RESIDENT_, UNITS = SLOTS * WARPS;
  static constexpr int WORKERS = 32 * WARPS, ROW = 2 * SLAB, SLAB_BYTES = BK * ROW;
  static constexpr int STAGE = SLABS * SLAB_BYTES, RING = STAGES * STAGE;
  static constexpr int MA = UNIT / 16, NB = UNIT / 8;
  static constexpr int PITCH = UNIT + 8, SUMS = UNIT * PITCH * 4; /* bytes of a unit's */
  static constexpr int ROOM = RING > SUMS *UNITS ? RING : SUMS *UNITS;
  static_assert(SLAB_BYTES % 1024 == 0, "borders of boxes");
  typedef lo_bsr_chunk<SLABS, UNITS> chunk_t;

  float acc[SLOTS][MA][NB][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int s = 0; s < SLOTS; s++)
#pragma unroll
      for (int i = 0; i < MA; i++)
#pragma unroll
        for (int j = 0; j < NB; j++)
#pragma unroll
          for (int e = 0; e < 4; e++) acc[s][i][j][e] = 0;
  }
  /* z, x: slabs; at_z, at_x: chunks in a line; k: 16 lines each */
  template <int SLOT>
  __device__ __forceinline__ void multiply(unsigned z, unsigned x, int at_z, int at_x, int k) {
    int lane = threadIdx.x % 32;
    unsigned a[MA][4], b[NB / 2][4];
    /* matrices (n, m): (0, 0), (8, 0), (0, 8), (8, 8) */
    int line_a = lane / 16 * 8 + lane % 8, half_a = lane / 8 % 2;
    int line_b = lane % 16, half_b = lane / 16;
    unsigned from = z + (16 * k + line_a) * ROW;
#pragma unroll
    for (int i = 0; i < MA; i++)
      lo_read_matrices<true>(a[i],
                             from + (((at_z + 2 * i + half_a) ^ lo_swizzle<ROW>(line_a)) << 4));
    from = x + (16 * k + line_b) * ROW;
#pragma unroll
    for (int j = 0; j < NB / 2; j++)
      lo_read_matrices<true>(b[j],
                             from + (((at_x + 2 * j + half_b) ^ lo_swizzle<ROW>(line_b)) << 4));
#pragma unroll
    for (int i = 0; i < MA; i++)
#pragma unroll
      for (int j = 0; j < NB; j++)
        lo_mma_16<BF16>(acc[SLOT][i][j], a[i][0], a[i][1], a[i][2], a[i][3], b[j / 2][j % 2 * 2],
                        b[j / 2][j % 2 * 2 + 1]);
  }
  /* A stage, for the warp's units. */
  __device__ __forceinline__ void multiply_all(const chunk_t &chunk, unsigned stage) {
    int warp = threadIdx.x / 32;
    lo_each_of<SLOTS>([&](auto slot) {
      constexpr int SLOT = decltype(slot)::value;
      int u = SLOT * WARPS + warp;
      if (u >= chunk.units) return;
      unsigned z = stage + chunk.z[u] * SLAB_BYTES, x = stage + chunk.x[u] * SLAB_BYTES;
#pragma unroll
      for (int k = 0; k < BK / 16; k++) multiply<SLOT>(z, x, chunk.at_z[u], chunk.at_x[u], k);
    });
  }
  /* To memory, by way of shared memory that no one else needs any longer. What lies outside of W
   * stays 0. */
  __device__ __forceinline__ void finish(const lo_cu_bsr_wgrad &p, const chunk_t &chunk,
                                         char *memory) const;
};

/* No bias. */
struct lo_no_columns {
  template <int V> __device__ __forceinline__ lo_columns<V> at(int) const {
    lo_columns<V> c;
#pragma unroll
    for (int v = 0; v < V; v++) c.bias[v] = -0.0f;
    return c;
  }
};

template <bool BF16_, int UNIT_, int SLAB_, int SLOTS_, int WARPS_, int SLABS_, int BK_,
          int STAGES_, int RESIDENT_>
__device__ __forceinline__ void
lo_bsr_wgrad<BF16_, UNIT_, SLAB_, SLOTS_, WARPS_, SLABS_, BK_, STAGES_, RESIDENT_>::finish(
    const lo_cu_bsr_wgrad &p, const chunk_t &chunk, char *memory) const {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  lo_ending ending = lo_ending_of(p.e, 0, false);
  lo_each_of<SLOTS>([&](auto slot) {
    constexpr int SLOT = decltype(slot)::value;
    int u = SLOT * WARPS + warp;
    if (u >= chunk.units) return;
    int rows = lo_left(p.n, chunk.column[chunk.z[u]] + 8 * chunk.at_z[u], UNIT);
    int cols = lo_left(p.k, chunk.column[chunk.x[u]] + 8 * chunk.at_x[u], UNIT);
    float *sums = (float *)(memory + u * SUMS);
#pragma unroll
    for (int i = 0; i < MA; i++)
#pragma unroll
      for (int j = 0; j < NB; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          int r = 16 * i + lane / 4 + e / 2 * 8, c = 8 * j + lane % 4 * 2 + e % 2;
          sums[r * PITCH + c] = r < rows && c < cols ? acc[SLOT][i][j][e] : 0.0f;
        }
  });
  __syncwarp();
#pragma unroll 1
  for (int u = warp; u < chunk.units; u += WARPS) {
    lo_i64 from = 8 * (lo_i64)chunk.unit[u], row = from >> p.pitch_log2;
    int col = (int)(from & ((1 << p.pitch_log2) - 1));
    lo_finish_warp<UNIT, UNIT, PITCH>(ending, lo_no_columns(), 0,
                                      (const float *)(memory + u * SUMS), row, col, p.values,
                                      1 << p.pitch_log2);
    int rows = lo_left(p.n, chunk.column[chunk.z[u]] + 8 * chunk.at_z[u], UNIT);
    int cols = lo_left(p.k, chunk.column[chunk.x[u]] + 8 * chunk.at_x[u], UNIT);
    if (rows == UNIT && cols == UNIT) continue;
    __syncwarp();
    const lo_cu_view dw = {p.e.c.p, p.values, 0, p.e.c.stride, 0, p.e.c.type, 0};
    for (int i = lane; i < UNIT * UNIT; i += 32)
      if (i / UNIT >= rows || i % UNIT >= cols)
        lo_store(dw, (row + i / UNIT) * p.e.c.stride + col + i % UNIT, 0.0f);
  }
}

/* ---- The end of tiles whose warps share out k: each has its sums of WM rows to itself, SUMS words
 * of shared memory from the other's, and finishes a share of the rows of all. */
template <class T, class Columns>
LO_FN void lo_finish_shares(const lo_cu_bsr16 &p, const lo_ending &ending, const T &core,
                            const Columns &columns, float *memory, int warp_m, int warp_k,
                            lo_i64 row0, lo_i64 col0) {
  /* as many rows as the epilogue takes at once, or more */
  constexpr int LEAST = T::BN == 32 ? 4 : T::BN == 16 ? 16 : 32, SHARE = T::WM / T::WARPS_K;
  constexpr int ROWS = SHARE < LEAST ? LEAST : SHARE, QUADS = ROWS * T::BN / 4;
  float *sums = memory + warp_m * T::WARPS_K * T::SUMS;
  core.put(sums + warp_k * T::SUMS);
  __syncthreads();
  if (warp_k * ROWS >= T::WM) return;
  sums += warp_k * ROWS * T::PITCH;
  if (T::WARPS_K > 1) {
#pragma unroll
    for (int v = threadIdx.x % 32; v < QUADS; v += 32) {
      float *to = sums + v / (T::BN / 4) * T::PITCH + v % (T::BN / 4) * 4;
      float4 quad = *(const float4 *)to;
#pragma unroll
      for (int i = 1; i < T::WARPS_K; i++)
        quad = lo_add4(quad, *(const float4 *)(to + i * T::SUMS));
      *(float4 *)to = quad;
    }
    __syncwarp();
  }
  if (row0 + warp_k * ROWS < p.m)
    lo_finish_warp<ROWS, T::BN, T::PITCH>(ending, columns, 0, sums, row0 + warp_k * ROWS, col0, p.m,
                                          p.n);
}

#endif

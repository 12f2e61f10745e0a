/* f32 products by mma.sync: Ampere and Ada. While a step is multiplied, the next one is split, a
 * few elements after each group of instructions: one barrier a step. */
#ifndef LO_CUDA_GEMM_TRIPLE_MMA_CUH
#define LO_CUDA_GEMM_TRIPLE_MMA_CUH

#include "backends/cuda/triple.cuh"

/* c += a b for 16 x 8 outputs. */
LO_FN void lo_triple_mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
/* Warps of WM x WN outputs. */
template <int BM_, int BN_, int WM, int WN_, bool TRANS_A, bool TRANS_B> struct lo_triple_mma_core {
  typedef lo_triple_tile<BM_, BN_, TRANS_A, TRANS_B> T;
  typedef float4 sum4;
  static constexpr bool MEETS = false;
  static constexpr int BM = BM_, BN = BN_, WN = WN_, PITCH = lo_triple_lines<WN>::PITCH;
  static constexpr int WARPS_N = BN / WN, THREADS = BM / WM * WARPS_N * 32;
  static constexpr int BYTES = 2 * (T::STAGE + T::PARTS), STAGE = T::STAGE / 4;
  static constexpr int MA = WM / 16, NB = WN / 8, GROUP = MA < 2 ? 1 : 2; /* rows at a time */
  static constexpr int TURNS = 2 * MA / GROUP, ITEMS = T::template items<THREADS>();
  typedef lo_triple_lines<WN> lines_t;
  static_assert(THREADS / 32 * lines_t::BYTES <= BYTES, "shared memory");

  int lane, row0, col0; /* of the warp */
  float acc[MA][NB][4], step[MA][NB][4];
  float sums[1]; /* over k of the row of A that the thread splits */

  __device__ __forceinline__ lo_triple_mma_core() {
    int warp = threadIdx.x / 32;
    lane = threadIdx.x % 32;
    row0 = warp / WARPS_N * WM;
    col0 = warp % WARPS_N * WN;
    sums[0] = 0.0f;
    clear(acc);
  }
  static __device__ __forceinline__ void clear(float (&x)[MA][NB][4]) {
#pragma unroll
    for (int i = 0; i < MA; i++)
#pragma unroll
      for (int j = 0; j < NB; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) x[i][j][e] = 0.0f;
  }

  /* 16 rows by 16 of k: matrices (rows, k), (rows + 8, k), and of k + 8. */
  __device__ __forceinline__ void read_a(unsigned (&a)[LO_TRIPLE_PARTS][4], unsigned parts, int i,
                                         int k) const {
#pragma unroll
    for (int h = 0; h < LO_TRIPLE_PARTS; h++)
      lo_read_matrices<false>(a[h],
                              parts + h * T::PART +
                                  lo_triple_place(row0 + 16 * i + lane % 16, 2 * k + lane / 16));
  }
  /* 16 columns by 16 of k: matrices (columns, k), (columns, k + 8), and of columns + 8. */
  __device__ __forceinline__ void read_b(unsigned (&b)[LO_TRIPLE_PARTS][NB / 2][4], unsigned parts,
                                         int k) const {
#pragma unroll
    for (int h = 0; h < LO_TRIPLE_PARTS; h++)
#pragma unroll
      for (int j = 0; j < NB / 2; j++)
        lo_read_matrices<false>(
            b[h][j],
            parts + h * T::PART + T::PART_B +
                lo_triple_place(col0 + 16 * j + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
  }
  __device__ __forceinline__ void multiply(unsigned parts, const char *next, char *next_parts) {
    clear(step);
#pragma unroll
    for (int k = 0; k < 2; k++) {
      unsigned b[LO_TRIPLE_PARTS][NB / 2][4];
      read_b(b, parts, k);
#pragma unroll
      for (int i0 = 0; i0 < MA; i0 += GROUP) {
        unsigned a[GROUP][LO_TRIPLE_PARTS][4];
#pragma unroll
        for (int i = 0; i < GROUP; i++) read_a(a[i], parts, i0 + i, k);
#pragma unroll
        for (int o = 0; o < LO_TRIPLE_PRODUCTS; o++)
#pragma unroll
          for (int i = 0; i < GROUP; i++)
#pragma unroll
            for (int j = 0; j < NB; j++)
              lo_triple_mma(step[i0 + i][j], a[i][lo_triple_a(o)],
                            b[lo_triple_b(o)][j / 2][j % 2 * 2],
                            b[lo_triple_b(o)][j / 2][j % 2 * 2 + 1]);
#pragma unroll
        for (int item = 0; item < ITEMS; item++)
          if (item * TURNS / ITEMS == (k * MA + i0) / GROUP)
            T::template split<THREADS>(next, next_parts, item, sums[0]);
      }
    }
#pragma unroll
    for (int i = 0; i < MA; i++)
#pragma unroll
      for (int j = 0; j < NB; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) acc[i][j][e] = __fadd_rn(acc[i][j][e], step[i][j][e]);
  }

  /* Two stages and two sets of parts; what lies behind the last step is zeros. */
  __device__ __forceinline__ void run(const lo_cu_gemm &p, char *shared, lo_i64 batch, lo_i64 row,
                                      lo_i64 col, lo_i64 k0, int k_count) {
    lo_triple_loader<!TRANS_A, BM, THREADS> a(p.a, batch, row, k0, k_count);
    lo_triple_loader<TRANS_B, BN, THREADS> b(p.b, batch, col, k0, k_count);
    int steps = (k_count + LO_TRIPLE_BK - 1) / LO_TRIPLE_BK;
    char *parts = shared + 2 * T::STAGE;
    unsigned base = (unsigned)__cvta_generic_to_shared(shared);
    for (int s = 0; s < 2; s++) fill(p, base + s * T::STAGE, a, b);
    lo_copy_wait<1>();
    __syncthreads();
#pragma unroll 1
    for (int item = 0; item < ITEMS; item++)
      T::template split<THREADS>(shared, parts, item, sums[0]);
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
      int now = s & 1, next = 1 - now;
      lo_copy_wait<0>();
      __syncthreads();
      fill(p, base + now * T::STAGE, a, b);
      multiply(base + 2 * T::STAGE + now * T::PARTS, shared + next * T::STAGE,
               parts + next * T::PARTS);
    }
    lo_copy_wait<0>();
    __syncthreads();
  }
  template <class A, class B>
  static __device__ __forceinline__ void fill(const lo_cu_gemm &p, unsigned stage, A &a, B &b) {
    a.fill(p.a, stage);
    b.fill(p.b, stage + T::OFFSET_B);
    lo_copy_commit();
  }

  /* each(row, column, sums) of 16 rows of a warp at a time. */
  template <class Each> __device__ __forceinline__ void drain(char *shared, Each each) {
    float *mine = (float *)(shared + threadIdx.x / 32 * lines_t::BYTES);
#pragma unroll 1
    for (int pass = 0; pass < MA; pass++) {
      __syncwarp();
#pragma unroll
      for (int i = 0; i < MA; i++)
        if (i == pass)
#pragma unroll
          for (int j = 0; j < NB; j++)
            lines_t::put(mine, j, acc[i][j][0], acc[i][j][1], acc[i][j][2], acc[i][j][3]);
      __syncwarp();
      each(row0 + 16 * pass, col0, mine);
    }
  }
};

#endif

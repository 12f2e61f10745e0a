/* f32 products by wgmma: Hopper. A group of warps copies and splits; the others' tensor cores read
 * the parts from shared memory, and each group works at its own pace: while one adds its sums, the
 * other multiplies. */
#ifndef LO_CUDA_GEMM_TRIPLE_WGMMA_CUH
#define LO_CUDA_GEMM_TRIPLE_WGMMA_CUH

#include "backends/cuda/tma.cuh"
#include "backends/cuda/triple.cuh"
#include "backends/cuda/wgmma.cuh"

/* Rows of 64 bytes, swizzled as lo_triple_place says; eight of them are 512 bytes. */
LO_FN lo_u64 lo_wgmma_rows(unsigned address) {
  return (lo_u64)(address >> 4 & 0x3fff) | (lo_u64)1 << 16 | (lo_u64)(512 >> 4) << 32 |
         (lo_u64)2 << 62;
}

/* Named barriers, for `threads` of a block. */
LO_FN void lo_barrier_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
LO_FN void lo_barrier_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* A group of four warps has 64 x BN outputs. */
template <int BM_, int BN_, int STAGES_, bool TRANS_A, bool TRANS_B> struct lo_triple_wgmma_core {
  typedef lo_triple_tile<BM_, BN_, TRANS_A, TRANS_B> T;
  typedef float4 sum4;
  static constexpr int BM = BM_, BN = BN_, PRODUCERS = 128, THREADS = PRODUCERS + 2 * BM;
  static constexpr bool MEETS = true;
  static constexpr int STAGES = STAGES_, SETS = 2; /* of f32, of parts */
  static constexpr int EACH = BN / 2;              /* a thread's outputs */
  static constexpr int BYTES = SETS * T::PARTS + STAGES * T::STAGE, STAGE = T::STAGE / 4;
  static constexpr int WN = BN, PITCH = lo_triple_lines<WN>::PITCH;
  typedef lo_triple_lines<BN> lines_t;
  static_assert(BYTES == LO_CU_TRIPLE_WGMMA_BYTES(BM, BN, STAGES), "what the host is told");
  static_assert(BM / 16 * lines_t::BYTES <= BYTES, "shared memory");
  enum { FULL = 1, EMPTY = FULL + SETS, COPIED = EMPTY + SETS }; /* barriers; 0 is __syncthreads */

  float acc[EACH], step[EACH];
  float sums[1];

  __device__ __forceinline__ lo_triple_wgmma_core() {
    sums[0] = 0.0f;
#pragma unroll
    for (int i = 0; i < EACH; i++) acc[i] = step[i] = 0.0f;
  }
  static __device__ __forceinline__ bool produces() {
    return threadIdx.x < PRODUCERS;
  }

  __device__ __forceinline__ void produce(const lo_cu_gemm &p, char *shared, lo_i64 batch,
                                          lo_i64 row, lo_i64 col, lo_i64 k0, int k_count) {
    lo_triple_loader<!TRANS_A, BM, PRODUCERS> a(p.a, batch, row, k0, k_count);
    lo_triple_loader<TRANS_B, BN, PRODUCERS> b(p.b, batch, col, k0, k_count);
    int steps = (k_count + LO_TRIPLE_BK - 1) / LO_TRIPLE_BK;
    char *stages = shared + SETS * T::PARTS;
    unsigned base = (unsigned)__cvta_generic_to_shared(stages);
    int write = 0, read = 0, set = 0;
    for (; write < STAGES - 1; write++) fill(p, base + write * T::STAGE, a, b);
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
      lo_copy_wait<STAGES - 2>();
      LO_DELAY(COPY);
      lo_barrier_sync(COPIED, PRODUCERS);
      fill(p, base + write * T::STAGE, a, b);
      LO_DELAY(EMPTY);
      if (s >= SETS) lo_barrier_sync(EMPTY + set, THREADS);
#pragma unroll
      for (int item = 0; item < T::template items<PRODUCERS>(); item++)
        T::template split<PRODUCERS>(stages + read * T::STAGE, shared + set * T::PARTS, item,
                                     sums[0]);
#if __CUDA_ARCH_FEAT_SM90_ALL
      lo_wgmma_publish();
#endif
      LO_DELAY(FULL);
      lo_barrier_arrive(FULL + set, THREADS);
      write = write + 1 == STAGES ? 0 : write + 1;
      read = read + 1 == STAGES ? 0 : read + 1;
      set = set + 1 == SETS ? 0 : set + 1;
    }
    lo_copy_wait<0>();
  }
  template <class A, class B>
  static __device__ __forceinline__ void fill(const lo_cu_gemm &p, unsigned stage, A &a, B &b) {
    a.fill(p.a, stage);
    b.fill(p.b, stage + T::OFFSET_B);
    lo_copy_commit();
  }

  __device__ __forceinline__ void multiply(unsigned parts) {
    unsigned rows = parts + (threadIdx.x - PRODUCERS) / 128 * (64 * 64);
#if __CUDA_ARCH_FEAT_SM90_ALL
    lo_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
      for (int o = 0; o < LO_TRIPLE_PRODUCTS; o++)
        lo_wgmma<LO_WGMMA_BF16, BN, false, true>::run(
            step, lo_wgmma_rows(rows + lo_triple_a(o) * T::PART + 32 * k),
            lo_wgmma_rows(parts + T::PART_B + lo_triple_b(o) * T::PART + 32 * k), k + o);
    lo_wgmma_commit();
    lo_wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < EACH; i++) asm volatile("" : "+f"(step[i])::"memory");
#endif
  }
  __device__ __forceinline__ void consume(unsigned parts, int steps) {
    int set = 0;
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
      LO_DELAY(FULL);
      lo_barrier_sync(FULL + set, THREADS);
      multiply(parts + set * T::PARTS);
      LO_DELAY(RELEASE);
      if (s + SETS < steps) lo_barrier_arrive(EMPTY + set, THREADS);
#pragma unroll
      for (int i = 0; i < EACH; i++) acc[i] = __fadd_rn(acc[i], step[i]);
      set = set + 1 == SETS ? 0 : set + 1;
    }
  }

  __device__ __forceinline__ void run(const lo_cu_gemm &p, char *shared, lo_i64 batch, lo_i64 row,
                                      lo_i64 col, lo_i64 k0, int k_count) {
    if (produces())
      produce(p, shared, batch, row, col, k0, k_count);
    else
      consume((unsigned)__cvta_generic_to_shared(shared),
              (k_count + LO_TRIPLE_BK - 1) / LO_TRIPLE_BK);
    __syncthreads();
    __syncthreads(); /* racecheck does not count the first one that follows bar.arrive */
  }

  /* The sums of 16 rows to shared memory, by a warp that multiplied. */
  __device__ __forceinline__ float *lay_down(char *shared, int warp) const {
    float *mine = (float *)(shared + warp * lines_t::BYTES);
#pragma unroll
    for (int j = 0; j < BN / 8; j++)
      lines_t::put(mine, j, acc[4 * j], acc[4 * j + 1], acc[4 * j + 2], acc[4 * j + 3]);
    return mine;
  }
  /* each(row, column, sums) of 16 rows of a warp that multiplied. */
  template <class Each> __device__ __forceinline__ void drain(char *shared, Each each) const {
    if (produces()) return;
    int warp = (threadIdx.x - PRODUCERS) / 32;
    float *mine = lay_down(shared, warp);
    __syncwarp();
    each(16 * warp, 0, mine);
  }
  /* Each block of the cluster adds the parts of every `split`th row, in their order; the first one
   * those of the sums by row. */
  template <class Quad, class Row>
  __device__ __forceinline__ void meet(int split, char *shared, Quad each_quad,
                                       const float *row_sums, Row each_row) const {
#if __CUDA_ARCH_FEAT_SM90_ALL
    constexpr int QUADS = BN / 4;
    const float *rows = (const float *)shared;
    if (!produces()) lay_down(shared, (threadIdx.x - PRODUCERS) / 32);
    LO_DELAY(CLUSTER);
    lo_cluster_sync();
    LO_DELAY(END);
#pragma unroll 1
    for (int v = threadIdx.x; v / QUADS * split + (int)blockIdx.y < BM; v += THREADS) {
      int line = v / QUADS * split + blockIdx.y, quad = v % QUADS * 4;
      unsigned place = (unsigned)__cvta_generic_to_shared(rows + line * PITCH + quad);
      float4 sum = lo_cluster_quad(place, 0);
#pragma unroll 4
      for (int i = 1; i < split; i++) sum = lo_add4(sum, lo_cluster_quad(place, i));
      each_quad(line, quad, sum);
    }
    for (int r = threadIdx.x; r < BM && row_sums && !blockIdx.y; r += THREADS) {
      float sum = 0;
      for (int i = 0; i < split; i++)
        sum += lo_cluster_word((unsigned)__cvta_generic_to_shared(row_sums + r), i);
      each_row(r, sum);
    }
    LO_DELAY(LEAVE);
    lo_cluster_sync();
#endif
  }
};

#endif

/* The main loop on tensor cores, for 16-bit operands: from Turing on. Sums are f32.
 *
 * Operands lie in shared memory as they lie in device memory, lines of 64 bytes or more; ldmatrix
 * turns those that do not run along k. 16 bytes of a line are a chunk; chunks of neighbouring lines
 * are swizzled, so that stores and ldmatrix, eight chunks at a time, find all banks. */
#ifndef LO_CUDA_GEMM_MMA_CUH
#define LO_CUDA_GEMM_MMA_CUH

#include "backends/cuda/main_loop.cuh"

/* The instruction of a main loop: m16n8k8 f16 twice (Turing), m16n8k16 (from Ampere on). */
enum { LO_MMA_K8_F16, LO_MMA_K16_F16, LO_MMA_K16_BF16 };

/* c += a b for 16 x 8 outputs and 16 of k. */
template <int MMA>
LO_FN void lo_mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if (MMA == LO_MMA_K8_F16) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b0));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[2]), "r"(a[3]), "r"(b1));
  }
#if __CUDA_ARCH__ >= 800
  if (MMA == LO_MMA_K16_F16)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  if (MMA == LO_MMA_K16_BF16)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/* Four 8 x 8 matrices; lane l gives the address of line l % 8 of matrix l / 8. */
template <bool TURN> LO_FN void lo_ldmatrix(unsigned (&r)[4], unsigned address) {
  if (TURN)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

/* An operand's stage: lines of LINE elements along `inner`. */
template <bool K_INNER, int EXTENT, int BK> struct lo_half_stage {
  static constexpr int LINE = K_INNER ? BK : EXTENT, LINES = K_INNER ? EXTENT : BK;
  static constexpr int CHUNKS = LINE / 8;
  static_assert(CHUNKS == 4 || CHUNKS % 8 == 0, "the swizzle");
  /* Where a chunk of a line lies, in bytes. */
  static __device__ __forceinline__ unsigned place(int line, int chunk) {
    int swizzle = CHUNKS == 4 ? line / 2 % 4 : line % 8;
    return (unsigned)(line * LINE * 2 + (chunk ^ swizzle) * 16);
  }
};

/* Brings BK x EXTENT elements of an operand to shared memory, a chunk at a time. */
template <bool K_INNER, int EXTENT, int BK, int THREADS> struct lo_half_loader {
  typedef lo_half_stage<K_INNER, EXTENT, BK> stage_t;
  static constexpr int WIDTH = 8;
  static constexpr int CHUNKS = stage_t::CHUNKS, LOADS = stage_t::LINES * CHUNKS / THREADS;
  static constexpr int OUTER_STEP = THREADS / CHUNKS;
  static_assert(stage_t::LINES * CHUNKS % THREADS == 0, "every thread has as many chunks");

  const unsigned short *p;
  int outer_left, inner_left; /* elements from the thread's first chunk to the end */
  uint4 raw[LOADS];

  static __device__ __forceinline__ int outer() { return (int)threadIdx.x / CHUNKS; }
  static __device__ __forceinline__ int inner() { return (int)threadIdx.x % CHUNKS * 8; }

  __device__ __forceinline__ lo_half_loader(const lo_cu_operand &o, lo_i64 batch, lo_i64 first,
                                            lo_i64 k0, int k_count) {
    lo_i64 left = o.extent - first;
    int extent = left < EXTENT ? (int)left : EXTENT;
    outer_left = (K_INNER ? extent : k_count) - outer();
    inner_left = (K_INNER ? k_count : extent) - inner();
    p = (const unsigned short *)o.p + batch * o.batch_stride +
        (K_INNER ? (first + outer()) * o.stride + k0 + inner()
                 : (k0 + outer()) * o.stride + first + inner());
  }

  __device__ __forceinline__ bool whole(const lo_cu_operand &o, lo_i64 first) const {
    return o.vector8 && first + EXTENT <= o.extent;
  }

  static __device__ __forceinline__ unsigned pair(const unsigned short *q, int count) {
    unsigned x = count > 0 ? __ldg(q) : 0u;
    return count > 1 ? x | (unsigned)__ldg(q + 1) << 16 : x;
  }
  /* Eight neighbours from any place, by words: those of an odd place lie across two. */
  static __device__ __forceinline__ uint4 loose(const unsigned short *q) {
    const unsigned *w = (const unsigned *)q;
    if (((lo_u64)q & 2) == 0) return make_uint4(__ldg(w), __ldg(w + 1), __ldg(w + 2), __ldg(w + 3));
    w = (const unsigned *)(q + 1);
    unsigned first = __ldg(q), x = __ldg(w), y = __ldg(w + 1), z = __ldg(w + 2),
             last = __ldg(q + 7);
    return make_uint4(first | x << 16, x >> 16 | y << 16, y >> 16 | z << 16, z >> 16 | last << 16);
  }
  static __device__ __forceinline__ uint4 some(const unsigned short *q, int count) {
    if (count >= 8) return loose(q);
    return make_uint4(pair(q, count), pair(q + 2, count - 2), pair(q + 4, count - 4),
                      pair(q + 6, count - 6));
  }

  template <bool WHOLE> __device__ __forceinline__ void fetch(const lo_cu_operand &o) {
#pragma unroll
    for (int l = 0; l < LOADS; l++) {
      const unsigned short *q = p + l * OUTER_STEP * o.stride;
      bool in = l * OUTER_STEP < outer_left;
      if (WHOLE || (in && o.vector8 && inner_left >= 8))
        raw[l] = __ldg((const uint4 *)q);
      else
        raw[l] = some(q, in ? inner_left : 0);
    }
  }

  __device__ __forceinline__ void advance(const lo_cu_operand &o) {
    if (K_INNER) {
      p += BK;
      inner_left -= BK;
    } else {
      p += BK * o.stride;
      outer_left -= BK;
    }
  }

  __device__ __forceinline__ void store(float *stage, int) const {
#pragma unroll
    for (int l = 0; l < LOADS; l++)
      *(uint4 *)((char *)stage + stage_t::place(outer() + l * OUTER_STEP, inner() / 8)) = raw[l];
  }

  __device__ __forceinline__ void add_to(float (&sums)[8], int bf16) const {
#pragma unroll
    for (int l = 0; l < LOADS; l++) {
      const unsigned words[4] = {raw[l].x, raw[l].y, raw[l].z, raw[l].w};
#pragma unroll
      for (int i = 0; i < 8; i++)
        sums[i] += lo_from_16((unsigned short)(words[i / 2] >> i % 2 * 16), bf16);
    }
  }
};

template <int MMA, int BM_, int BN_, int WM, int WN, bool TRANS_A, bool TRANS_B>
struct lo_mma_core {
  static constexpr int BM = BM_, BN = BN_, BK = 32;
  static constexpr bool INTEGER = false;
  typedef float4 sum4;
  __device__ __forceinline__ void column_sums(int *) const {}
  static constexpr int WARPS_N = BN / WN, WARPS = BM / WM * WARPS_N, THREADS = 32 * WARPS;
  static constexpr int OFFSET_B = BM * BK / 2, STAGE = (BM + BN) * BK / 2; /* words */
  static constexpr int ROWS = BM / WM * 16, PITCH = BN + 8; /* of a pass of drain() */
  static_assert(ROWS * PITCH <= 2 * STAGE, "shared memory");
  template <bool K_INNER> using loader_a = lo_half_loader<K_INNER, BM, BK, THREADS>;
  template <bool K_INNER> using loader_b = lo_half_loader<K_INNER, BN, BK, THREADS>;
  typedef lo_half_stage<!TRANS_A, BM, BK> stage_a;
  typedef lo_half_stage<TRANS_B, BN, BK> stage_b;

  int lane, row0, col0; /* of the warp */
  float acc[WM / 16][WN / 8][4];

  __device__ __forceinline__ lo_mma_core() {
    int warp = threadIdx.x / 32;
    lane = threadIdx.x % 32;
    row0 = warp / WARPS_N * WM;
    col0 = warp % WARPS_N * WN;
#pragma unroll
    for (int i = 0; i < WM / 16; i++)
#pragma unroll
      for (int j = 0; j < WN / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) acc[i][j][e] = 0.0f;
  }

  /* 16 rows by 16 of k: matrices (rows, k), (rows + 8, k), (rows, k + 8), (rows + 8, k + 8). */
  __device__ __forceinline__ void load_a(unsigned (&r)[4], unsigned stage, int row, int k) const {
    int low = lane % 8, m8 = lane / 8 % 2, k8 = lane / 16;
    unsigned place = TRANS_A ? stage_a::place(k + 8 * k8 + low, row / 8 + m8)
                             : stage_a::place(row + 8 * m8 + low, k / 8 + k8);
    lo_ldmatrix<TRANS_A>(r, stage + place);
  }
  /* 16 of k by 16 columns: matrices (k, columns), (k + 8, columns), and of columns + 8. */
  __device__ __forceinline__ void load_b(unsigned (&r)[4], unsigned stage, int col, int k) const {
    int low = lane % 8, k8 = lane / 8 % 2, n8 = lane / 16;
    unsigned place = TRANS_B ? stage_b::place(col + 8 * n8 + low, k / 8 + k8)
                             : stage_b::place(k + 8 * k8 + low, col / 8 + n8);
    lo_ldmatrix<!TRANS_B>(r, stage + place);
  }

  __device__ __forceinline__ void multiply(const float *stage) {
    unsigned sA = (unsigned)__cvta_generic_to_shared(stage), sB = sA + 4 * OFFSET_B;
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      unsigned rA[WM / 16][4], rB[WN / 16][4];
#pragma unroll
      for (int i = 0; i < WM / 16; i++) load_a(rA[i], sA, row0 + 16 * i, k);
#pragma unroll
      for (int j = 0; j < WN / 16; j++) load_b(rB[j], sB, col0 + 16 * j, k);
#pragma unroll
      for (int i = 0; i < WM / 16; i++)
#pragma unroll
        for (int j = 0; j < WN / 8; j++)
          lo_mma<MMA>(acc[i][j], rA[i], rB[j / 2][j % 2 * 2], rB[j / 2][j % 2 * 2 + 1]);
    }
  }

  /* Sixteen rows of each warp at a time, as lo_drain does; lines are 8 words apart beyond BN, so
   * that the eight rows that lanes hold side by side find other banks. */
  template <class Each> __device__ __forceinline__ void drain(float *shared, Each each) {
    constexpr int QUADS = BN / 4;
    int warp_row = row0 / WM * 16;
#pragma unroll 1
    for (int pass = 0; pass < WM / 16; pass++) {
#pragma unroll
      for (int i = 0; i < WM / 16; i++) {
        if (i != pass) continue;
        float *line = shared + (warp_row + lane / 4) * PITCH + col0 + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < WN / 8; j++) {
          *(float2 *)(line + 8 * j) = make_float2(acc[i][j][0], acc[i][j][1]);
          *(float2 *)(line + 8 * PITCH + 8 * j) = make_float2(acc[i][j][2], acc[i][j][3]);
        }
      }
      __syncthreads();
#pragma unroll 1
      for (int v = threadIdx.x; v < ROWS * QUADS; v += THREADS) {
        int line = v / QUADS, quad = v % QUADS;
        each(line / 16 * WM + pass * 16 + line % 16, 4 * quad,
             *(const float4 *)(shared + line * PITCH + 4 * quad));
      }
      __syncthreads();
    }
  }
};

#endif

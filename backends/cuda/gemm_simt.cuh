/* The main loop for any architecture: f32 arithmetic on the ordinary cores; 16-bit operands become
 * f32 on their way to shared memory.
 *
 * Shared memory has no bank conflicts: element (k, i) of a stage lies at k * PITCH + (i ^
 * swizzle(k)). The swizzle moves whole quads of an aligned group of 32 words, so that quads are
 * read and written at once, and the four scalar stores of a quad that ran along k find 32 banks.
 * The lanes of a warp go zigzag over its tile: two neighbours share a row or column, which lets the
 * hardware serve half a warp at a time. */
#ifndef LO_CUDA_GEMM_SIMT_CUH
#define LO_CUDA_GEMM_SIMT_CUH

#include "backends/cuda/main_loop.cuh"

template <int BM_, int BN_, int BK_, int TM_, int TN_, int LX_> struct lo_tile {
  static constexpr int BM = BM_, BN = BN_, BK = BK_, TM = TM_, TN = TN_, LX = LX_, LY = 32 / LX_;
  static constexpr int WM = TM * LY, WN = TN * LX; /* a warp's tile */
  static constexpr int WARPS_M = BM / WM, WARPS_N = BN / WN, THREADS = 32 * WARPS_M * WARPS_N;
  static constexpr int PA = BM < 32 ? 32 : BM, PB = BN < 32 ? 32 : BN;
  static constexpr int STAGE = BK * (PA + PB), WORDS = 2 * STAGE;
  /* The epilogue takes as many of a thread's TM rows at once as the idle stages hold. */
  static constexpr int THREAD_ROWS = WARPS_M * LY;
  static constexpr int FIT = WORDS / (THREAD_ROWS * BN);
  static constexpr int ROWS = FIT >= TM ? TM : FIT >= 4 ? 4 : FIT >= 2 ? 2 : 1;
  static_assert(BM % WM == 0 && BN % WN == 0 && TM % 4 == 0 && TN % 4 == 0, "quads");
  static_assert(FIT >= 1 && BK >= 8 && BK <= 32, "shared memory");
};

/* Where a thread stands in its block's tile. */
template <class T> struct lo_place {
  int ty, tx;   /* which of the block's thread rows and columns */
  int row, col; /* of its first quad */
  __device__ __forceinline__ lo_place() {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int y = (lane & 1) | lane / (2 * T::LX) * 2, x = lane / 2 % T::LX;
    int wm = warp / T::WARPS_N, wn = warp % T::WARPS_N;
    ty = wm * T::LY + y;
    tx = wn * T::LX + x;
    row = wm * T::WM + 4 * y;
    col = wn * T::WN + 4 * x;
  }
};

/* A quad as it comes from memory, f32 or 16 bits wide. */
template <class E> struct lo_raw;
template <> struct lo_raw<float> {
  typedef float4 quad;
  static __device__ __forceinline__ float4 wide(float4 q, int) { return q; }
  static __device__ __forceinline__ float4 load(const float *p) { return lo_load((const float4 *)p); }
  static __device__ __forceinline__ float4 some(const float *p, int count) {
    return make_float4(count > 0 ? lo_load(p) : 0.0f, count > 1 ? lo_load(p + 1) : 0.0f,
                       count > 2 ? lo_load(p + 2) : 0.0f, count > 3 ? lo_load(p + 3) : 0.0f);
  }
};
template <> struct lo_raw<unsigned short> {
  typedef uint2 quad;
  static __device__ __forceinline__ float4 wide(uint2 q, int bf16) { return lo_from_16x4(q, bf16); }
  static __device__ __forceinline__ uint2 load(const unsigned short *p) {
    return lo_load((const uint2 *)p);
  }
  static __device__ __forceinline__ uint2 some(const unsigned short *p, int count) {
    unsigned x = count > 0 ? lo_load(p) : 0u, y = count > 2 ? lo_load(p + 2) : 0u;
    if (count > 1) x |= (unsigned)lo_load(p + 1) << 16;
    if (count > 3) y |= (unsigned)lo_load(p + 3) << 16;
    return make_uint2(x, y);
  }
};

/* Brings BK x EXTENT elements of an operand to shared memory, step by step. A thread's quads lie
 * along `inner`, the dimension that is contiguous in memory: k, or m (n). */
template <class E, bool K_INNER, int EXTENT, int BK, int PITCH, int THREADS> struct lo_loader {
  static constexpr int WIDTH = 4; /* elements of a load */
  static constexpr int QUADS = EXTENT * BK / 4, LOADS = (QUADS + THREADS - 1) / THREADS;
  static constexpr int EACH = K_INNER ? BK / 4 : EXTENT / 4; /* quads of an outer line */
  static constexpr int OUTER_STEP = THREADS / EACH, SWIZZLE = 128 / BK;
  static_assert(QUADS % THREADS == 0, "every thread has as many quads");
  typedef typename lo_raw<E>::quad quad;

  const E *p;
  int outer_left,
      inner_left; /* elements from the thread's first quad to the end of what may be read */
  quad raw[LOADS];

  static __device__ __forceinline__ int outer() { return (int)threadIdx.x / EACH; }
  static __device__ __forceinline__ int inner() { return (int)threadIdx.x % EACH * 4; }

  __device__ __forceinline__ lo_loader(const lo_cu_operand &o, lo_i64 batch, lo_i64 first,
                                       lo_i64 k0, int k_count) {
    lo_i64 left = o.extent - first;
    int extent = left < EXTENT ? (int)left : EXTENT;
    outer_left = (K_INNER ? extent : k_count) - outer();
    inner_left = (K_INNER ? k_count : extent) - inner();
    p = (const E *)o.p + batch * o.batch_stride +
        (K_INNER ? (first + outer()) * o.stride + k0 + inner()
                 : (k0 + outer()) * o.stride + first + inner());
  }

  /* Whether all of a thread's quads lie inside, whole, in each step of BK that k_count has in full.
   */
  __device__ __forceinline__ bool whole(const lo_cu_operand &o, lo_i64 first) const {
    return o.vector && first + EXTENT <= o.extent;
  }

  /* WHOLE: nothing need be asked. */
  template <bool WHOLE> __device__ __forceinline__ void fetch(const lo_cu_operand &o) {
#pragma unroll
    for (int l = 0; l < LOADS; l++) {
      const E *q = p + l * OUTER_STEP * o.stride;
      bool in = l * OUTER_STEP < outer_left;
      if (WHOLE || (in && o.vector && inner_left >= 4))
        raw[l] = lo_raw<E>::load(q);
      else
        raw[l] = lo_raw<E>::some(q, in ? inner_left : 0);
    }
  }

  /* On by BK in k. */
  __device__ __forceinline__ void advance(const lo_cu_operand &o) {
    if (K_INNER) {
      p += BK;
      inner_left -= BK;
    } else {
      p += BK * o.stride;
      outer_left -= BK;
    }
  }

  __device__ __forceinline__ void store(float *stage, int bf16) const {
    if (K_INNER) {
      int swizzle = inner() / 4 * SWIZZLE;
#pragma unroll
      for (int l = 0; l < LOADS; l++) {
        float4 f = lo_raw<E>::wide(raw[l], bf16);
        float *s = stage + inner() * PITCH + ((outer() + l * OUTER_STEP) ^ swizzle);
        s[0] = f.x;
        s[PITCH] = f.y;
        s[2 * PITCH] = f.z;
        s[3 * PITCH] = f.w;
      }
    } else {
#pragma unroll
      for (int l = 0; l < LOADS; l++) {
        int k = outer() + l * OUTER_STEP;
        *(float4 *)(stage + k * PITCH + (inner() ^ k / 4 * SWIZZLE)) =
            lo_raw<E>::wide(raw[l], bf16);
      }
    }
  }

  /* Adds what was fetched to sums over k of four neighbours: where they lie along m in memory. */
  __device__ __forceinline__ void add_to(float (&sums)[4], int bf16) const {
#pragma unroll
    for (int l = 0; l < LOADS; l++) {
      float4 f = lo_raw<E>::wide(raw[l], bf16);
      sums[0] += f.x;
      sums[1] += f.y;
      sums[2] += f.z;
      sums[3] += f.w;
    }
  }
};

/* Fragments of one k: N/4 quads, 4 * LANES apart. */
template <int N, int LANES, int BK, int PITCH>
LO_FN void lo_fragment(float (&r)[N], const float *stage, int k, int first) {
#pragma unroll
  for (int q = 0; q < N / 4; q++) {
    int i = (first + q * 4 * LANES) ^ k / 4 * (128 / BK);
    *(float4 *)(r + 4 * q) = *(const float4 *)(stage + k * PITCH + i);
  }
}

/* Hands the sums to `each(row, col, quad)` row by row, through the stages that are idle now:
 * neighbours of a row to neighbouring threads. Rolled, so that the code of `each` exists once. The
 * quads of odd thread rows are swizzled: stores and loads find all banks. */
template <class T, class Each>
LO_FN void lo_drain(const float (&acc)[T::TM][T::TN], float *shared, const lo_place<T> &at,
                    Each each) {
  constexpr int ROW_QUADS = T::BN / 4, SWIZZLE = ROW_QUADS >= 8 ? 4 : 0;
#pragma unroll 1
  for (int pass = 0; pass < T::TM / T::ROWS; pass++) {
#pragma unroll
    for (int i = 0; i < T::TM; i++) {
      if (i / T::ROWS != pass) continue;
      float *line = shared + (i % T::ROWS * T::THREAD_ROWS + at.ty) * T::BN;
#pragma unroll
      for (int q = 0; q < T::TN / 4; q++) {
        int quad = (at.col + q * 4 * T::LX) / 4 ^ (at.ty & 1) * SWIZZLE;
        *(float4 *)(line + 4 * quad) = *(const float4 *)(&acc[i][4 * q]);
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int v = threadIdx.x; v < T::ROWS * T::THREAD_ROWS * ROW_QUADS; v += T::THREADS) {
      int line = v / ROW_QUADS, quad = v % ROW_QUADS;
      int ty = line % T::THREAD_ROWS, i = pass * T::ROWS + line / T::THREAD_ROWS;
      int row = ty / T::LY * T::WM + i / 4 * 4 * T::LY + ty % T::LY * 4 + i % 4;
      each(row, 4 * quad,
           *(const float4 *)(shared + line * T::BN + 4 * (quad ^ (ty & 1) * SWIZZLE)));
    }
    __syncthreads();
  }
}

/* E: float, or unsigned short for 16-bit operands. */
template <class E, class T> struct lo_simt_core {
  static constexpr int BM = T::BM, BN = T::BN, BK = T::BK, THREADS = T::THREADS;
  static constexpr int STAGE = T::STAGE, OFFSET_B = T::BK * T::PA;
  typedef float4 sum4;
  template <bool K_INNER> using loader_a = lo_loader<E, K_INNER, BM, BK, T::PA, THREADS>;
  template <bool K_INNER> using loader_b = lo_loader<E, K_INNER, BN, BK, T::PB, THREADS>;
  lo_place<T> at;
  float acc[T::TM][T::TN];
  float rA[2][T::TM], rB[2][T::TN]; /* of an even and an odd k */
  static constexpr bool AHEAD = T::TM * T::TN > 64;
  static_assert(BK % 2 == 0, "fragments take turns");

  __device__ __forceinline__ lo_simt_core() {
#pragma unroll
    for (int i = 0; i < T::TM; i++)
#pragma unroll
      for (int j = 0; j < T::TN; j++) acc[i][j] = 0.0f;
  }
  __device__ __forceinline__ void load(const float *stage, int k) { /* (BK,BM), (BK,BN) */
    lo_fragment<T::TM, T::LY, BK, T::PA>(rA[k % 2], stage, k, at.row);
    lo_fragment<T::TN, T::LX, BK, T::PB>(rB[k % 2], stage + OFFSET_B, k, at.col);
  }
  __device__ __forceinline__ void begin(const float *stage) { /* that all have filled */
    __syncthreads();
    if (AHEAD) load(stage, 0);
  }
  /* One k, each sum one chain in their order. To and fro through quads of columns: every
   * multiplication has an operand in common with the one before, which saves reads of registers. */
  __device__ __forceinline__ void multiply(int k) {
#pragma unroll
    for (int q = 0; q < T::TN; q += 4)
#pragma unroll
      for (int i = 0; i < T::TM; i++)
#pragma unroll
        for (int l = 0; l < 4; l++) {
          int j = q + (i % 2 ? 3 - l : l);
          acc[i][j] = fmaf(rA[k % 2][i], rB[k % 2][j], acc[i][j]);
        }
  }
  /* One stage; `store` fills the next one. Where few warps hide each other's waiting, that and the
   * loading of its first k come before this one's last is multiplied. */
  template <class Store>
  __device__ __forceinline__ void multiply(const float *stage, const float *next, Store store) {
    if (!AHEAD) load(stage, 0);
#pragma unroll
    for (int k = 0; k < BK; k++) {
      if (AHEAD && k == BK - 2) store();
      if (k + 1 < BK)
        load(stage, k + 1);
      else if (AHEAD)
        begin(next);
      multiply(k);
    }
    if (AHEAD) return;
    store();
    begin(next);
  }
  template <class Each> __device__ __forceinline__ void drain(float *shared, Each each) {
    lo_drain<T>(acc, shared, at, each);
  }
};

#endif

/* Block-sparse products of 16-bit types on large grids, by cp.async and mma.sync (from Ampere on).
 *
 * A block of threads has ROWS rows of the result by GROUP lines of units, and goes through the
 * columns that any of these lines keeps, so that what it loads of X serves them all: by steps that
 * the host has made (params.h), common to all tiles of a group. The gradient of the weights goes by
 * chunks of units that share slabs of dZ and X. */
#ifndef LO_CUDA_BSR_GROUP_CUH
#define LO_CUDA_BSR_GROUP_CUH

#include "backends/cuda/bsr_mma.cuh"

template <bool BF16_, bool TURN_, int UNIT_, int SLAB_, int BM_, int GROUP_, int SLABS_, int UNITS_,
          int PARTS_M_, int PARTS_N_, int STAGES_>
struct lo_bsr_group {
  static constexpr bool BF16 = BF16_, TURN = TURN_;
  static constexpr int UNIT = UNIT_, SLAB = SLAB_, BM = BM_, GROUP = GROUP_, PARTS_M = PARTS_M_;
  static constexpr int PARTS_N = PARTS_N_, SLABS = SLABS_, UNITS = UNITS_, STAGES = STAGES_;
  static constexpr int WARPS = PARTS_M * PARTS_N, THREADS = 32 * WARPS, BN = GROUP * UNIT;
  static constexpr int WM = BM / PARTS_M, MA = WM / 16, EACH = GROUP / PARTS_N, NB = UNIT / 8;
  static constexpr int KB = UNIT / 16, ROW_X = 2 * SLAB, ROW_W = 2 * UNIT;
  static constexpr int SLAB_BYTES = BM * ROW_X, UNIT_BYTES = UNIT * ROW_W;
  static constexpr int OFFSET_W = SLABS * SLAB_BYTES, STAGE = OFFSET_W + UNITS * UNIT_BYTES;
  static constexpr int AHEAD = STAGES - 1, NAMES = 2 * STAGES;
  typedef lo_bsr_step<SLABS, UNITS> step_t;
  static constexpr int NAME = 4 * step_t::WORDS; /* bytes of a step's */
  static constexpr int PITCH = EACH * UNIT + 8, SUMS = WM * PITCH * 4;
  static constexpr int RING = STAGES * STAGE;
  static constexpr int BYTES = (RING > SUMS * WARPS ? RING : SUMS * WARPS) + NAMES * NAME;
  static constexpr int CHUNKS = SLAB / 8, LINES = THREADS / CHUNKS;
  static_assert(BM % LINES == 0, "whole turns");
  static constexpr int UNIT_CHUNKS = UNIT * UNIT / 8;

  float acc[EACH][MA][NB][4];
  struct fragments {
    unsigned a[KB][MA][4], b[KB][NB / 2][4];
  };

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < EACH; r++)
#pragma unroll
      for (int i = 0; i < MA; i++)
#pragma unroll
        for (int j = 0; j < NB; j++)
#pragma unroll
          for (int e = 0; e < 4; e++) acc[r][i][j][e] = 0;
  }
  /* To lines of PITCH. */
  __device__ __forceinline__ void put(float *sums) const {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < EACH; r++)
#pragma unroll
      for (int i = 0; i < MA; i++)
#pragma unroll
        for (int j = 0; j < NB; j++) {
          float *line = sums + (16 * i + lane / 4) * PITCH + r * UNIT + 8 * j + lane % 4 * 2;
          *(float2 *)line = make_float2(acc[r][i][j][0], acc[r][i][j][1]);
          *(float2 *)(line + 8 * PITCH) = make_float2(acc[r][i][j][2], acc[r][i][j][3]);
        }
  }
  __device__ __forceinline__ void multiply(int line, const fragments &f) {
    lo_one_of<EACH>(line, [&](auto which) {
      constexpr int R = decltype(which)::value;
#pragma unroll
      for (int k = 0; k < KB; k++)
#pragma unroll
        for (int i = 0; i < MA; i++)
#pragma unroll
          for (int j = 0; j < NB; j++)
            lo_mma_16<BF16>(acc[R][i][j], f.a[k][i][0], f.a[k][i][1], f.a[k][i][2], f.a[k][i][3],
                            f.b[k][j / 2][j % 2 * 2], f.b[k][j / 2][j % 2 * 2 + 1]);
    });
  }
  /* at: where the unit's columns begin among the slabs, in 16 bytes; w: its number in the step */
  static __device__ __forceinline__ void read(fragments &f, unsigned stage, int at, int w,
                                              int row_w) {
    constexpr int EACH_LINE = ROW_X / 16;
    int lane = threadIdx.x % 32;
    unsigned a = stage + at / EACH_LINE * ROW_X + (row_w + lane % 16) * ROW_X;
    int chunk = at % EACH_LINE + lane / 16, turn = lo_swizzle<ROW_X>(lane % 16);
#pragma unroll
    for (int k = 0; k < KB; k++)
#pragma unroll
      for (int i = 0; i < MA; i++)
        lo_read_matrices<false>(f.a[k][i], a + 16 * i * ROW_X + (((chunk + 2 * k) ^ turn) << 4));
    unsigned b = stage + OFFSET_W + w * UNIT_BYTES;
    int line = TURN ? lane % 16 : lane / 16 * 8 + lane % 8, half = TURN ? lane / 16 : lane / 8 % 2;
    int turn_w = lo_swizzle<ROW_W>(line);
#pragma unroll
    for (int k = 0; k < KB; k++)
#pragma unroll
      for (int j = 0; j < NB / 2; j++) {
        int l = 16 * (TURN ? k : j), c = 2 * (TURN ? j : k) + half;
        lo_read_matrices<TURN>(f.b[k][j], b + (l + line) * ROW_W + ((c ^ turn_w) << 4));
      }
  }
};

/* A thread's way through X. */
template <class T> struct lo_slab_loader {
  const char *p;
  lo_i64 stride;  /* in bytes, of LINES rows */
  lo_i64 columns; /* of X, from the thread's chunk on */
  int rows;       /* from its first row on */
  bool whole;
  unsigned to;
  __device__ __forceinline__ lo_slab_loader(const lo_cu_bsr16 &p16, lo_i64 row0) {
    int line = threadIdx.x / T::CHUNKS, chunk = threadIdx.x % T::CHUNKS;
    p = (const char *)p16.x + 2 * ((row0 + line) * p16.x_stride + 8 * chunk);
    stride = 2 * T::LINES * p16.x_stride;
    columns = p16.k - 8 * chunk;
    rows = lo_left(p16.m, row0, T::BM) - line;
    whole = row0 + T::BM <= p16.m && p16.k % T::SLAB == 0;
    to = line * T::ROW_X + ((chunk ^ lo_swizzle<T::ROW_X>(line)) << 4);
    static_assert(T::LINES % 8 == 0, "one swizzle");
  }
  __device__ __forceinline__ void copy(unsigned slab, int column) const {
    const char *from = p + 2 * (lo_i64)column;
    unsigned at = slab + to;
    if (whole) {
#pragma unroll
      for (int l = 0; l < T::BM / T::LINES; l++, from += stride)
        lo_copy<16>(at + l * T::LINES * T::ROW_X, from);
      return;
    }
    lo_i64 left = columns - column;
    int bytes = left <= 0 ? 0 : left < 8 ? 2 * (int)left : 16;
#pragma unroll
    for (int l = 0; l < T::BM / T::LINES; l++, from += stride)
      lo_copy_some<16>(at + l * T::LINES * T::ROW_X, from, l * T::LINES < rows ? bytes : 0);
  }
};

template <class T>
LO_FN void lo_fill_step(const lo_cu_bsr16 &p, const lo_slab_loader<T> &x, unsigned stage,
                        const typename T::step_t &step) {
#pragma unroll
  for (int s = 0; s < T::SLABS; s++) {
    int column = step.column[s];
    if (column >= 0) x.copy(stage + s * T::SLAB_BYTES, column);
  }
  constexpr int ALL = T::UNITS * T::UNIT_CHUNKS, TURNS = (ALL + T::THREADS - 1) / T::THREADS;
  int count = step.start[4];
#pragma unroll
  for (int l = 0; l < TURNS; l++) {
    int i = l * T::THREADS + threadIdx.x, u = i / T::UNIT_CHUNKS, in = i % T::UNIT_CHUNKS;
    int line = in / (T::UNIT / 8), chunk = in % (T::UNIT / 8);
    if (u < count)
      lo_copy<16>(stage + T::OFFSET_W + u * T::UNIT_BYTES + line * T::ROW_W +
                      ((chunk ^ lo_swizzle<T::ROW_W>(line)) << 4),
                  (const char *)p.w + 16 * (lo_i64)step.unit[u] +
                      2 * ((line << p.pitch_log2) + 8 * chunk));
  }
}
template <class T>
LO_FN void lo_fetch_name(const lo_cu_bsr16 &p, unsigned names, int step, int last) {
  if (step < last && threadIdx.x < T::NAME / 16)
    lo_copy<16>(names + step % T::NAMES * T::NAME + threadIdx.x * 16,
                (const char *)p.steps + (lo_i64)step * T::NAME + threadIdx.x * 16);
}

/* The units of one set of warps in a step: fragments of the next are read while one is multiplied.
 */
template <class T>
LO_FN void lo_multiply_step(T &core, const typename T::step_t &step, unsigned stage, int part,
                            int row_w) {
  constexpr int BELOW = (1 << LO_CU_BSR_LINE_SHIFT) - 1;
  int e = step.start[part * (4 / T::PARTS_N)], end = step.start[(part + 1) * (4 / T::PARTS_N)];
  typename T::fragments f[2];
  int code[2];
  auto read = [&](int to) {
    code[to] = step.code[e];
    T::read(f[to], stage, code[to] & BELOW, e, row_w);
    e++;
  };
  auto multiply = [&](int of) {
    core.multiply((code[of] >> LO_CU_BSR_LINE_SHIFT) - part * T::EACH, f[of]);
  };
  if (e == end) return;
  read(0);
#pragma unroll 1
  for (;;) {
    bool more = e < end;
    if (more) read(1);
    multiply(0);
    if (!more) return;
    more = e < end;
    if (more) read(0);
    multiply(1);
    if (!more) return;
  }
}

template <class T>
__global__ void __launch_bounds__(T::THREADS, 1)
    bsr_group_kernel(const __grid_constant__ lo_cu_bsr16 p) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(1024) char memory[];
  __shared__ __align__(16) lo_tile_columns<T::BN, false> columns;
  typedef typename T::step_t step_t;
  unsigned tm = blockIdx.x / (unsigned)p.groups;
  int group = p.order[blockIdx.x % (unsigned)p.groups];
  int first = p.first[group], last = p.first[group + 1];
  unsigned ring = (unsigned)__cvta_generic_to_shared(memory);
  char *names = memory + T::BYTES - T::NAMES * T::NAME;
  unsigned names_at = (unsigned)__cvta_generic_to_shared(names);
  lo_follow();
  if (lo_scalar_float(p.e.alpha) == 0.0f) last = first;
  lo_i64 row0 = (lo_i64)tm * T::BM, col0 = (lo_i64)group * T::BN;
  columns.stage(p.e, col0, lo_left(p.n, col0, T::BN), threadIdx.x, T::THREADS);
  for (int s = 0; s < 2 * T::AHEAD; s++) lo_fetch_name<T>(p, names_at, first + s, last);
  lo_copy_commit();
  lo_copy_wait<0>();
  __syncthreads();
  lo_slab_loader<T> x(p, row0);
  auto name = [&](int s) -> const step_t & {
    return *(const step_t *)(names + s % T::NAMES * T::NAME);
  };
#pragma unroll
  for (int s = 0; s < T::AHEAD; s++) {
    if (first + s < last) lo_fill_step<T>(p, x, ring + s * T::STAGE, name(first + s));
    lo_copy_commit();
  }
  T core;
  core.clear();
  int warp = threadIdx.x / 32, part = warp % T::PARTS_N, row_w = warp / T::PARTS_N * T::WM;
  unsigned stage = ring, free = ring + T::AHEAD * T::STAGE;
#pragma unroll 1
  for (int s = first; s < last; s++) {
    lo_copy_wait<T::AHEAD - 1>();
    __syncthreads();
    if (s + T::AHEAD < last) {
      lo_fetch_name<T>(p, names_at, s + 2 * T::AHEAD, last);
      lo_fill_step<T>(p, x, free, name(s + T::AHEAD));
    }
    lo_copy_commit();
    lo_multiply_step(core, name(s), stage, part, row_w);
    free = stage;
    stage = stage + T::STAGE == ring + T::RING ? ring : stage + T::STAGE;
  }
  lo_copy_wait<0>();
  __syncthreads();
  lo_lead();
  float *sums = (float *)(memory + warp * T::SUMS);
  core.put(sums);
  __syncwarp();
  constexpr int WN = T::EACH * T::UNIT;
  if (row0 + row_w < p.m && col0 + part * WN < p.n)
    lo_finish_warp<T::WM, WN, T::PITCH>(lo_ending_of(p.e, 0, false), columns, part * WN, sums,
                                        row0 + row_w, col0 + part * WN, p.m, p.n);
#endif
}

/* ---- The gradient of the weights */
template <class T>
LO_FN void lo_fill_rows(const lo_cu_bsr_wgrad &p, const typename T::chunk_t &chunk, unsigned stage,
                        int step) {
  constexpr int CHUNKS = T::ROW / 16, EACH = T::BK * CHUNKS; /* a slab's */
#pragma unroll 2
  for (int i = threadIdx.x; i < chunk.slabs * EACH; i += T::WORKERS) {
    int slab = i / EACH, line = i % EACH / CHUNKS, c = i % CHUNKS;
    bool is_z = slab < chunk.slabs_z;
    lo_i64 row = (lo_i64)step * T::BK + line, column = chunk.column[slab] + 8 * c;
    int left = row < p.m ? lo_left(is_z ? p.n : p.k, column, 8) : 0;
    const char *from =
        (const char *)(is_z ? p.z : p.x) + 2 * (row * (is_z ? p.z_stride : p.x_stride) + column);
    unsigned to = stage + slab * T::SLAB_BYTES + line * T::ROW;
    lo_copy_some<16>(to + ((c ^ lo_swizzle<T::ROW>(line)) << 4), left > 0 ? from : p.z,
                     left > 0 ? 2 * left : 0);
  }
}

template <class T>
__global__ void __launch_bounds__(T::WORKERS, T::RESIDENT)
    bsr_wgrad_kernel(const __grid_constant__ lo_cu_bsr_wgrad p) {
#if __CUDA_ARCH__ >= 800
  typedef typename T::chunk_t chunk_t;
  constexpr int AHEAD = T::STAGES - 1;
  extern __shared__ __align__(1024) char memory[];
  __shared__ __align__(16) int name[chunk_t::WORDS];
  const chunk_t &chunk = *(const chunk_t *)name;
  for (int i = threadIdx.x; i < chunk_t::WORDS; i += T::WORKERS)
    name[i] = ((const int *)p.chunks)[(lo_i64)blockIdx.x * chunk_t::WORDS + i];
  __syncthreads();
  lo_follow();
  unsigned ring = (unsigned)__cvta_generic_to_shared(memory);
  int steps = (int)((p.m + T::BK - 1) / T::BK);
  if (lo_scalar_float(p.e.alpha) == 0.0f) steps = 0;
#pragma unroll 1
  for (int s = 0; s < AHEAD; s++) {
    if (s < steps) lo_fill_rows<T>(p, chunk, ring + s * T::STAGE, s);
    lo_copy_commit();
  }
  T core;
  core.clear();
  unsigned stage = ring, free = ring + AHEAD * T::STAGE;
#pragma unroll 1
  for (int s = 0; s < steps; s++) {
    lo_copy_wait<AHEAD - 1>();
    __syncthreads();
    if (s + AHEAD < steps) lo_fill_rows<T>(p, chunk, free, s + AHEAD);
    lo_copy_commit();
    core.multiply_all(chunk, stage);
    free = stage;
    stage = stage + T::STAGE == ring + T::RING ? ring : stage + T::STAGE;
  }
  lo_copy_wait<0>();
  __syncthreads();
  lo_lead();
  core.finish(p, chunk, memory);
#endif
}

#endif

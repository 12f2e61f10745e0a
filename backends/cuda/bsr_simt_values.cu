/* The gradients of block-sparse values and gates on ordinary cores: dZ^T X where blocks are kept. A
 * tile is a block row's height by kept blocks side by side, so that they share what they need of
 * dZ. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/bsr_simt.cuh"

/* Which outputs: those of a block row from `row` on, and of its kept blocks, side by side, from
 * `column` on. */
typedef struct tile_place {
  lo_i64 line, column;
  int row, first, count; /* first, count: the line's kept blocks */
} tile_place;

template <class T> LO_FN tile_place place_of(const lo_cu_bsr_values &p, unsigned tile) {
  unsigned upper = tile / p.lines, line = tile - upper * p.lines;
  unsigned group = upper >> p.down_log2, down = upper & ((1u << p.down_log2) - 1);
  int first = p.start[line];
  return {line, (lo_i64)group * T::BN, (int)down * T::BM, first, p.start[line + 1] - first};
}

/* Steps through the samples, BK at a time. */
template <class T, int SLICES> struct sample_steps {
  const lo_cu_bsr_values &p;
  lo_bsr_loader<T::BM, T::BK, T::PA, T::THREADS> z;
  lo_bsr_loader<T::BN, T::BK, T::PB, T::THREADS, true> x;
  lo_i64 sample;
  int steps, whole;

  __device__ __forceinline__ sample_steps(const lo_cu_bsr_values &params, const tile_place &at,
                                          int slice, int thread)
      : p(params),
        z(thread, p.features, p.dz.type, p.dz.stride, p.n - (at.line << p.height_log2) - at.row),
        x(thread, p.features, p.x.type, p.x.stride, T::BN) {
    lo_i64 first = (at.line << p.height_log2) + at.row;
    z.begin((const char *)p.dz.p + (first * (p.features ? p.dz.stride : 1) << z.shift),
            p.dz.stride);
    x.gather(p.x.stride, [&](int i) { return line_of(at, i); });
    lo_share share = lo_share_of<SLICES>((int)((p.m + T::BK - 1) / T::BK), slice);
    sample = (lo_i64)share.first * T::BK;
    steps = share.count;
    whole = is_whole(at, first) ? steps - (sample + (lo_i64)steps * T::BK > p.m) : 0;
  }
  /* The feature of X that an output's column stands for. Behind the last block the last one is
   * read once more. */
  __device__ __forceinline__ lo_i64 feature_of(const tile_place &at, int i) const {
    lo_i64 column = at.column + i, block = column >> p.width_log2;
    int last = at.count - 1, width = 1 << p.width_log2;
    return ((lo_i64)p.column[at.first + (block < last ? block : last)] << p.width_log2) +
           (column & (width - 1));
  }
  __device__ __forceinline__ const char *line_of(const tile_place &at, int i) {
    lo_i64 feature = feature_of(at, i);
    if (!p.features) x.extent_left = lo_left(p.k, feature, T::BN) + x.inner;
    return feature < p.k
               ? (const char *)p.x.p + (feature * (p.features ? p.x.stride : 1) << x.shift)
               : NULL;
  }
  __device__ __forceinline__ bool is_whole(const tile_place &at, lo_i64 first) const {
    return p.dz.vector && p.x.vector && first + T::BM <= p.n &&
           (!(p.k & ((1 << p.width_log2) - 1)) || feature_of(at, T::BN - 1) < p.k);
  }
  template <bool WHOLE> __device__ __forceinline__ void fetch() {
    int left = lo_left(p.m, sample, T::BK);
    z.template fetch<WHOLE>(sample * z.k_stride, left, p.dz.vector);
    x.template fetch<WHOLE>(sample * x.k_stride, left, p.x.vector);
  }
  __device__ __forceinline__ void next() { sample += T::BK; }
  __device__ __forceinline__ void store(float *stage) {
    z.widen();
    z.store(stage);
    x.widen();
    x.store(stage + T::BK * T::PA);
  }
};

/* Four neighbours of dW, at row i of block `block`. What lies outside of W is 0. */
LO_FN void finish_values(const lo_cu_bsr_values &p, float beta, lo_i64 line, lo_i64 block, int i,
                         int j, float4 sum) {
  float gate = p.gate ? p.gate[block] : 1.0f;
  lo_i64 at = ((block << p.height_log2) + i) * p.to.stride + j;
  lo_i64 k_left = p.k - ((lo_i64)p.column[block] << p.width_log2) - j;
  lo_i64 n_left = p.n - (line << p.height_log2) - i;
  float4 z = make_float4(0, 0, 0, 0);
  if (gate != 0.0f) z = make_float4(gate * sum.x, gate * sum.y, gate * sum.z, gate * sum.w);
  if (beta != 0.0f) {
    float4 old = lo_load4(p.to, at, 4);
    z = make_float4(__fmaf_rn(beta, old.x, z.x), __fmaf_rn(beta, old.y, z.y),
                    __fmaf_rn(beta, old.z, z.z), __fmaf_rn(beta, old.w, z.w));
  }
  int left = n_left <= 0 || k_left <= 0 ? 0 : k_left < 4 ? (int)k_left : 4;
  lo_store4(p.to, at, 4,
            make_float4(left > 0 ? z.x : 0.0f, left > 1 ? z.y : 0.0f, left > 2 ? z.z : 0.0f,
                        left > 3 ? z.w : 0.0f));
}
LO_FN float with_values(const lo_cu_bsr_values &p, lo_i64 block, int i, int j, float4 sum) {
  float4 w = lo_load4(p.values, ((block << p.height_log2) + i) * p.values.stride + j, 4);
  return fmaf(sum.w, w.w, fmaf(sum.z, w.z, fmaf(sum.y, w.y, sum.x * w.x)));
}

/* A thread has the same columns in all its rows. Their sums, block by block, in a fixed order. */
template <class T, int THREADS>
LO_FN void finish_gates(const lo_cu_bsr_values &p, const tile_place &at, float *shared, float sum) {
  constexpr int QUADS = T::BN / 4;
  static_assert(THREADS % QUADS == 0, "threads stand below each other");
  int width = 1 << p.width_log2, quads = (width < T::BN ? width : T::BN) / 4;
  int down = at.row / T::BM, across = (int)(at.column & (width - 1)) / T::BN;
  int parts_log2 = p.down_log2 + p.across_log2;
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int b = threadIdx.x; b < QUADS / quads; b += THREADS) {
    lo_i64 block = (at.column >> p.width_log2) + b;
    float total = 0;
    if (block >= at.count) break;
    for (int y = 0; y < THREADS; y += QUADS)
      for (int q = 0; q < quads; q++) total += shared[y + b * quads + q];
    p.parts[((at.first + block) << parts_log2) + (down << p.across_log2) + across] = total;
  }
}

template <class T, int SLICES, int BLOCKS>
__global__ void __launch_bounds__(SLICES *T::THREADS, BLOCKS)
    values_kernel(const __grid_constant__ lo_cu_bsr_values p) {
  lo_follow();
  __shared__ __align__(128) float shared[lo_bsr_words<T, SLICES>];
  tile_place at = place_of<T>(p, blockIdx.x);
  if (at.column >> p.width_log2 >= at.count) return;
  int slice = SLICES > 1 ? threadIdx.x / T::THREADS : 0, thread = threadIdx.x - slice * T::THREADS;
  sample_steps<T, SLICES> it(p, at, slice, thread);
  lo_bsr_core<T> core(slice);
  lo_bsr_loop<T, SLICES>(core, shared, slice, it);
  lo_lead();
  float beta = lo_scalar_float(p.beta), gates = 0;
  lo_collect<T, SLICES>(core.acc, shared, slice, core.at, [&](int r, int c, float4 quad) {
    lo_i64 column = at.column + c, block = column >> p.width_log2;
    int j = (int)(column - (block << p.width_log2)), i = at.row + r;
    if (block >= at.count) return;
    block += at.first;
    if (p.parts) gates += with_values(p, block, i, j, quad);
    if (p.to.p) finish_values(p, beta, at.line, block, i, j, quad);
  });
  if (p.parts) finish_gates<T, SLICES * T::THREADS>(p, at, shared, gates);
}

int lo_cu_run_bsr_values(int tile, const lo_cu_bsr_values *p, lo_cu_grid grid, void *stream) {
  static const struct {
    const void *kernel;
    unsigned threads;
  } kernels[] = {
#define X(NAME, BM, BN, BK, TM, TN, LX, SLICES, BLOCKS)                                            \
  {(const void *)values_kernel<lo_tile<BM, BN, BK, TM, TN, LX>, SLICES, BLOCKS>,                   \
   SLICES * lo_tile<BM, BN, BK, TM, TN, LX>::THREADS},
      LO_CU_BSR_VALUES(X)
#undef X
  };
  grid.threads = kernels[tile].threads;
  return lo_cu_launch(kernels[tile].kernel, grid, p, stream);
}

/* A warp a row. */
__global__ void __launch_bounds__(256) row_sums_kernel(const __grid_constant__ lo_cu_bsr_sums p) {
  lo_follow();
  float beta = lo_scalar_float(p.beta);
  lo_i64 warps = (lo_i64)gridDim.x * (blockDim.x / 32), lane = threadIdx.x % 32;
  for (lo_i64 row = ((lo_i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; row < p.x.rows;
       row += warps) {
    float sum = 0;
    for (lo_i64 i = lane; i < p.x.cols; i += 32) sum += lo_load(p.x, row * p.x.stride + i);
    sum = lo_warp_sum(sum);
    if (lane) continue;
    if (beta != 0.0f) sum = __fmaf_rn(beta, lo_load(p.y, row), sum);
    lo_store(p.y, row, sum);
  }
}

int lo_cu_run_row_sums(const lo_cu_bsr_sums *p, lo_cu_grid grid, void *stream) {
  return lo_cu_launch((const void *)row_sums_kernel, grid, p, stream);
}

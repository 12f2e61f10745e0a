/* Lines of block-sparse weights on ordinary cores: Y = X W^T by block rows, and dX = dZ W by block
 * columns, where dZ is X and the features are those of dX. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/bsr_simt.cuh"

/* A kept block of a line. */
typedef struct kept_block {
  int index, place; /* which columns of X; where its values are */
  float factor;     /* its gate times its scale */
  bool counts;
} kept_block;

LO_FN kept_block block_at(const lo_cu_bsr_simt &p, int at) {
  kept_block b = {p.index[at], p.place ? p.place[at] : at, 1.0f, true};
  if (p.scales) b.factor = p.scales[b.place];
  if (p.gate) {
    float gate = p.gate[b.place];
    b.counts = gate != 0.0f;
    b.factor *= gate;
  }
  return b;
}

/* Steps through the kept blocks of a line, BK of k at a time, of which a slice takes some that are
 * neighbours. The next block is asked for when this one begins. */
template <class T, int SLICES> struct line_steps {
  const lo_cu_bsr_simt &p;
  lo_bsr_loader<T::BM, T::BK, T::PA, T::THREADS> x;
  lo_bsr_loader<T::BN, T::BK, T::PB, T::THREADS> w;
  kept_block now, then;
  int at, end;  /* the block's place in the list, and where the line ends */
  int sub;      /* where in the block's k */
  float factor; /* of what was fetched */
  int steps, whole;

  /* row0: the first sample; part: of the features of the line the first. */
  __device__ __forceinline__ line_steps(const lo_cu_bsr_simt &params, lo_i64 row0, int line,
                                        int part, int slice, int thread)
      : p(params), x(thread, !params.features, params.x.type, params.x.stride, params.m - row0),
        w(thread, !params.turned, params.w_type, 1 << params.width_log2, T::BN), now(), then() {
    int width = 1 << p.width_log2, begin = p.start[line];
    end = p.start[line + 1];
    lo_i64 x_first = row0 * (p.features ? 1 : p.x.stride);
    x.begin((const char *)p.x.p + (x_first << x.shift), p.x.stride);
    w.begin((const char *)p.w + ((lo_i64)part * (p.turned ? 1 : width) << w.shift), width);
    int all = (int)(((lo_i64)(end - begin) << p.k_log2) / T::BK);
    lo_share share = lo_share_of<SLICES>(all, slice);
    int first = share.first * T::BK;
    steps = share.count;
    whole = 0;
    at = begin + (first >> p.k_log2);
    sub = first & ((1 << p.k_log2) - 1);
    if (!steps) return;
    now = block_at(p, at);
    if (at + 1 < end) then = block_at(p, at + 1);
    if (p.x.vector && !p.gate && row0 + T::BM <= p.m)
      whole = all - ragged_steps() - share.first; /* the last block may be of several slices */
  }
  /* Those of the last block, where it stands out of W. */
  __device__ __forceinline__ int ragged_steps() const {
    int side = 1 << p.k_log2;
    if (!(p.k & (side - 1)) || ((lo_i64)(p.index[end - 1] + 1) << p.k_log2) <= p.k) return 0;
    return side / T::BK;
  }
  template <bool WHOLE> __device__ __forceinline__ void fetch() {
    lo_i64 k = ((lo_i64)now.index << p.k_log2) + sub;
    int left = now.counts ? lo_left(p.k, k, T::BK) : 0;
    lo_i64 block = (lo_i64)now.place << (p.n_log2 + p.k_log2 + w.shift);
    factor = now.factor;
    x.template fetch<WHOLE>(k * x.k_stride, left, p.x.vector);
    w.template fetch<WHOLE>(block + sub * w.k_stride, left > 0 ? T::BK : 0, true);
  }
  __device__ __forceinline__ void next() {
    sub += T::BK;
    if (!(sub >> p.k_log2)) return;
    sub = 0;
    now = then;
    at++;
    if (at + 1 < end) then = block_at(p, at + 1);
  }
  __device__ __forceinline__ void store(float *stage) {
    x.widen();
    x.store(stage);
    w.widen();
    if (p.gate || p.scales) w.multiply(factor);
    w.store(stage + T::BK * T::PA);
  }
};

/* Bands of rows of tiles are walked column by column, so that what X has in them stays in the
 * second-level cache. */
LO_FN void tile_at(const lo_cu_bsr_simt &p, unsigned tile, unsigned &tm, unsigned &tn) {
  unsigned band = tile / (p.band * p.tiles_n), rest = tile - band * p.band * p.tiles_n;
  unsigned left = p.tiles_m - band * p.band, height = left < p.band ? left : p.band;
  tn = rest / height;
  tm = band * p.band + rest - tn * height;
}

template <class T, int SLICES, int BLOCKS>
__global__ void __launch_bounds__(SLICES *T::THREADS, BLOCKS)
    line_kernel(const __grid_constant__ lo_cu_bsr_simt p) {
  lo_follow();
  __shared__ __align__(128) float shared[lo_bsr_words<T, SLICES>];
  __shared__ __align__(16) lo_tile_columns<T::BN, false> columns;
  static_assert(SLICES * T::THREADS >= T::BN, "a thread for each column");
  int slice = SLICES > 1 ? threadIdx.x / T::THREADS : 0, thread = threadIdx.x - slice * T::THREADS;
  unsigned tm, tn;
  tile_at(p, blockIdx.x, tm, tn);
  int line = (int)(tn >> p.parts_log2), part = (int)(tn & ((1u << p.parts_log2) - 1)) * T::BN;
  lo_i64 row0 = (lo_i64)tm * T::BM, col0 = ((lo_i64)line << p.n_log2) + part;
  columns.stage(p.e, col0, lo_left(p.n, col0, T::BN));
  line_steps<T, SLICES> it(p, row0, line, part, slice, thread);
  if (lo_scalar_float(p.e.alpha) == 0.0f) it.steps = 0;
  lo_bsr_core<T> core(slice);
  lo_bsr_loop<T, SLICES>(core, shared, slice, it);
  lo_lead();
  lo_ending end = lo_ending_of(p.e, 0, false);
  if (p.features) {
    float acc[T::TN][T::TM];
    lo_flip<T>(acc, core.acc);
    lo_collect<lo_flipped<T>, SLICES>(
        acc, shared, slice, lo_flip<T>(core.at), [&](int c, int r, float4 quad) {
          float bias = columns.template at<1>(c).bias[0];
          lo_columns<4> same = {{bias, bias, bias, bias}};
          lo_i64 row = row0 + r;
          if (row < p.m && col0 + c < p.n)
            lo_finish_quad(end, same, quad, col0 + c, row, lo_quad_count(p.m, row));
        });
  } else {
    lo_collect<T, SLICES>(core.acc, shared, slice, core.at, [&](int r, int c, float4 quad) {
      lo_i64 row = row0 + r, col = col0 + c;
      if (row < p.m && col < p.n)
        lo_finish_quad(end, columns.template at<4>(c), quad, row, col, lo_quad_count(p.n, col));
    });
  }
}

int lo_cu_run_bsr_lines(int tile, const lo_cu_bsr_simt *p, lo_cu_grid grid, void *stream) {
  static const struct {
    const void *kernel;
    unsigned threads;
  } kernels[] = {
#define X(NAME, BM, BN, BK, TM, TN, LX, SLICES, BLOCKS)                                            \
  {(const void *)line_kernel<lo_tile<BM, BN, BK, TM, TN, LX>, SLICES, BLOCKS>,                     \
   SLICES * lo_tile<BM, BN, BK, TM, TN, LX>::THREADS},
      LO_CU_BSR_LINES(X)
#undef X
  };
  grid.threads = kernels[tile].threads;
  return lo_cu_launch(kernels[tile].kernel, grid, p, stream);
}

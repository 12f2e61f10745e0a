/* What every main loop shares: its steps through two stages of shared memory, the dense iterator,
 * and what becomes of the sums.
 *
 *   memory -> registers -> shared memory (two stages) -> fragments in registers -> sums
 *
 * While one stage is multiplied, the next is on its way in registers; one barrier a step. */
#ifndef LO_CUDA_MAIN_LOOP_CUH
#define LO_CUDA_MAIN_LOOP_CUH

#include "backends/cuda/epilogue.cuh"

/* One step: the next one is on its way while this one is multiplied. */
template <class Core, bool WHOLE, class Iterator>
LO_FN void lo_step(Core &core, float *shared, Iterator &it, int s) {
  bool more = WHOLE || s + 1 < it.steps;
  float *stage = shared + s % 2 * Core::STAGE, *next = shared + (s + 1) % 2 * Core::STAGE;
  if (more) {
    it.next();
    it.template fetch<WHOLE>();
  }
  core.multiply(stage, next, [&] {
    if (more) it.store(next);
  });
}

/* The steps of an iterator through both stages. Iterator: steps, and how many of them are whole
 * from the first on; fetch() brings the current step's elements into registers, next() moves on,
 * store() puts them into a stage. */
template <class Core, class Iterator>
LO_FN void lo_main_loop(Core &core, float *shared, Iterator &it) {
  if (it.steps == 0) return;
  it.template fetch<false>();
  it.store(shared);
  core.begin(shared);
  int s = 0;
#pragma unroll 1
  for (; s + 1 < it.whole; s++) lo_step<Core, true>(core, shared, it, s);
#pragma unroll 1
  for (; s < it.steps; s++) lo_step<Core, false>(core, shared, it, s);
  __syncthreads();
}

/* ---- The dense product. A and B are loaders of the core's. */
template <class Core, class A, class B> struct lo_dense_steps {
  const lo_cu_gemm &p;
  A a;
  B b;
  int steps, whole;
  bool sum; /* side sums over k of op(A)'s rows are wanted */
  float sums[A::WIDTH];
  template <bool WHOLE> __device__ __forceinline__ void fetch() {
    a.template fetch<WHOLE>(p.a);
    b.template fetch<WHOLE>(p.b);
  }
  __device__ __forceinline__ void next() {
    a.advance(p.a);
    b.advance(p.b);
  }
  __device__ __forceinline__ void store(float *stage) {
    if (sum) a.add_to(sums, p.bf16);
    a.store(stage, p.bf16);
    b.store(stage + Core::OFFSET_B, p.bf16);
  }
};

/* The sums over k that the threads hold: in shared memory first, then one thread a row, in the
 * order of the threads. op(A) is transposed: a thread's elements lie along m. each(row, sum) */
template <class Core, int WIDTH, class Each>
LO_FN void lo_drain_rows(float *shared, const float (&sums)[WIDTH], Each each) {
  constexpr int EACH = Core::BM / WIDTH, LINES = Core::THREADS / EACH;
  static_assert(LINES * Core::BM <= 2 * Core::STAGE, "shared memory");
  float *line = shared + threadIdx.x / EACH * Core::BM + threadIdx.x % EACH * WIDTH;
#pragma unroll
  for (int i = 0; i < WIDTH; i++) line[i] = sums[i];
  __syncthreads();
  for (int r = threadIdx.x; r < Core::BM; r += Core::THREADS) {
    float sum = 0;
    for (int i = 0; i < LINES; i++) sum += shared[i * Core::BM + r];
    each(r, sum);
  }
  __syncthreads();
}
template <class Core, int WIDTH>
LO_FN void lo_drain_sums(const lo_cu_gemm &p, float *shared, const float (&sums)[WIDTH], float beta,
                         lo_i64 row0) {
  lo_drain_rows<Core>(shared, sums, [&](int r, float sum) {
    if (row0 + r >= p.m) return;
    if (p.split > 1)
      p.partial_sums[blockIdx.y * p.m + row0 + r] = sum;
    else
      lo_finish_row_sum(p.e, beta, row0 + r, sum);
  });
}

/* Which tile: eight rows of tiles are walked column by column, so that blocks that run together
 * share operands in the second-level cache. */
template <class Int> LO_FN void lo_tile_in(Int tile, Int tiles_m, Int tiles_n, Int &tm, Int &tn) {
  Int group = tiles_m <= 8 ? 0 : tile / (8 * tiles_n), rest = tile - group * 8 * tiles_n;
  Int height = tiles_m - 8 * group < 8 ? tiles_m - 8 * group : 8;
  tn = height == 8 ? rest / 8 : rest / height; /* divisions take long */
  tm = 8 * group + rest - tn * height;
}
LO_FN void lo_tile_at(lo_i64 tile, lo_i64 tiles_m, lo_i64 tiles_n, lo_i64 &tm, lo_i64 &tn) {
  const lo_i64 most = 1 << 28;
  if (tile < most && tiles_n < most && tiles_m < most) {
    unsigned m, n;
    lo_tile_in((unsigned)tile, (unsigned)tiles_m, (unsigned)tiles_n, m, n);
    tm = m, tn = n;
  } else {
    lo_tile_in(tile, tiles_m, tiles_n, tm, tn);
  }
}

/* ---- A product in parts of k: each part stores its sums; the block that comes last to a tile adds
 * the parts in their order, so that the bits do not depend on who that is. */
LO_FN float *lo_part_of(const lo_cu_gemm &p, lo_i64 part, lo_i64 batch, lo_i64 row, lo_i64 col) {
  return p.partial + ((part * p.batch + batch) * p.m + row) * p.pitch + col;
}

/* Whether all other parts of a tile are stored. Its counter is left as it was found: 0. */
LO_FN bool lo_meets_all(int *counter, int split) {
  bool last = false;
  __syncthreads();
  if (threadIdx.x == 0) { /* whose fences hold for all that met at the barriers */
    __threadfence();
    last = atomicAdd(counter, 1) == split - 1;
    if (last) *counter = 0;
    __threadfence();
  }
  return __syncthreads_or(last); /* no byte of shared memory: the stages have all of it */
}
LO_FN bool lo_comes_last(const lo_cu_gemm &p, lo_i64 batch) {
  return lo_meets_all(p.counters + batch * p.tiles_m * p.tiles_n + p.tile0 + blockIdx.x, p.split);
}

/* The end of a product, or of its part that this block makes. */
LO_FN lo_ending lo_product_ending(const lo_cu_gemm &p, lo_i64 batch) {
  lo_ending end = lo_ending_of(p.e, batch, true);
  if (p.split > 1) {
    end.to = (char *)lo_part_of(p, blockIdx.y, batch, 0, 0);
    end.stride = p.pitch;
    end.type = LO_TYPE_F32;
    end.ends = LO_END_SUMS;
    end.quads = true;
  }
  return end;
}

/* The parts of k of a quad, in their order. */
template <class Quad>
LO_FN Quad lo_add_stored(const lo_cu_gemm &p, lo_i64 batch, lo_i64 row, lo_i64 col) {
  const Quad *stored = (const Quad *)lo_part_of(p, 0, batch, row, col);
  lo_i64 next = p.batch * p.m * p.pitch / 4;
  Quad acc = __ldcg(stored);
#pragma unroll 4
  for (int s = 1; s < p.split; s++) acc = lo_add4(acc, __ldcg(stored + s * next));
  return acc;
}

template <class Core> LO_FN void lo_add_row_sums(const lo_cu_gemm &p, float beta, lo_i64 row0) {
  for (lo_i64 row = row0 + threadIdx.x; row < p.m && row < row0 + Core::BM; row += Core::THREADS) {
    float total = 0;
    for (int s = 0; s < p.split; s++) total += __ldcg(p.partial_sums + s * p.m + row);
    lo_finish_row_sum(p.e, beta, row, total);
  }
}

/* What all parts are followed by, for the tile of the block that comes last. A thread adds a few
 * quads at a time, whose loads are on their way together. */
template <class Core, class Columns>
LO_FN void lo_add_parts(const lo_cu_gemm &p, const Columns &columns, lo_i64 batch, lo_i64 row0,
                        lo_i64 col0, bool sum) {
  constexpr int WIDTH = Core::BN / 4, QUADS = Core::BM * WIDTH, FEW = 4;
  typedef typename Core::sum4 sum4;
  lo_ending end = lo_ending_of(p.e, batch, false);
  lo_i64 next = p.batch * p.m * p.pitch / 4;
#pragma unroll 1
  for (int first = threadIdx.x; first < QUADS; first += FEW * Core::THREADS) {
    const sum4 *parts[FEW];
    sum4 acc[FEW];
#pragma unroll
    for (int i = 0; i < FEW; i++) {
      int v = first + i * Core::THREADS;
      lo_i64 row = row0 + v / WIDTH, col = col0 + v % WIDTH * 4;
      bool in = v < QUADS && row < p.m && col < p.n; /* else any: it is dropped */
      parts[i] = (const sum4 *)lo_part_of(p, 0, batch, in ? row : row0, in ? col : col0);
      acc[i] = __ldcg(parts[i]);
    }
#pragma unroll 2
    for (int s = 1; s < p.split; s++)
#pragma unroll
      for (int i = 0; i < FEW; i++) acc[i] = lo_add4(acc[i], __ldcg(parts[i] + s * next));
#pragma unroll 1
    for (int v = first; v < QUADS && v < first + FEW * Core::THREADS; v += Core::THREADS) {
      int column = v % WIDTH * 4;
      lo_i64 row = row0 + v / WIDTH, col = col0 + column;
      if (row < p.m && col < p.n)
        lo_finish_quad(end, columns.template at<4>(column), acc[0], row, col,
                       lo_quad_count(p.n, col));
#pragma unroll
      for (int i = 1; i < FEW; i++) acc[i - 1] = acc[i];
    }
  }
  if (sum) lo_add_row_sums<Core>(p, lo_scalar_float(p.e.beta), row0);
}

/* A core is a main loop: BM x BN outputs in steps of BK by THREADS threads, STAGE words of shared
 * memory a stage, B's part OFFSET_B behind A's; multiply() adds a stage to its sums, drain() hands
 * them out in quads. grid: x tiles of a matrix, y parts of k, z matrices of the batch */
template <class Core, bool TRANS_A, bool TRANS_B> LO_FN void lo_gemm(const lo_cu_gemm &p) {
  typedef typename Core::template loader_a<!TRANS_A> A;
  typedef typename Core::template loader_b<TRANS_B> B;
  __shared__ __align__(128) float shared[2 * Core::STAGE];
  __shared__ __align__(16) lo_tile_columns<Core::BN, false> columns;
  lo_i64 tm, tn;
  lo_tile_at(p.tile0 + blockIdx.x, p.tiles_m, p.tiles_n, tm, tn);
  lo_i64 row0 = tm * Core::BM, col0 = tn * Core::BN, k0 = blockIdx.y * p.slice;
  int k_count = (int)(p.k - k0 < p.slice ? p.k - k0 : p.slice);
  bool sum = TRANS_A && p.e.row_sum.p && tn == 0;
  /* alpha = 0 does not read the operands; sums by row come with alpha = 1 */
  if (lo_scalar_float(p.e.alpha) == 0.0f) k_count = 0;
  columns.stage(p.e, col0, lo_left(p.n, col0, Core::BN));
  for (lo_i64 l = blockIdx.z; l < p.batch; l += gridDim.z) {
    A a(p.a, l, row0, k0, k_count);
    B b(p.b, l, col0, k0, k_count);
    bool whole = a.whole(p.a, row0) && b.whole(p.b, col0);
    lo_dense_steps<Core, A, B> it = {
        p, a, b, (k_count + Core::BK - 1) / Core::BK, whole ? k_count / Core::BK : 0, sum, {}};
    Core core;
    lo_main_loop(core, shared, it);
    lo_lead();
    lo_ending end = lo_product_ending(p, l);
    if (sum) lo_drain_sums<Core>(p, shared, it.sums, lo_scalar_float(p.e.beta), row0);
    core.drain(shared, [&](int r, int c, float4 quad) {
      lo_i64 row = row0 + r, col = col0 + c;
      if (row < p.m && col < p.n)
        lo_finish_quad(end, columns.template at<4>(c), quad, row, col, lo_quad_count(p.n, col));
    });
    if (p.split > 1 && lo_comes_last(p, l)) lo_add_parts<Core>(p, columns, l, row0, col0, sum);
  }
}

#endif

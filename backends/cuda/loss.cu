/* Losses and their gradients, one launch each: the block that ends last adds up what all have left,
 * in the order of the blocks. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/rows.cuh"
#include "backends/cuda/launch.h"

/* ---- How blocks of one launch meet */

/* Whether this is the last block to come here. It then sees what thread 0 of each had written. */
LO_FN bool last_block(lo_cu_meeting *m) {
  __shared__ bool last;
  if (gridDim.x == 1) return true;
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(&m->arrived, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
}

template <class T> LO_FN double sum_parts(const T *parts) {
  double sum = 0;
#pragma unroll 4
  for (unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x) sum += (double)__ldcg(parts + b);
  return sum;
}

/* ---- Cross entropy. The gradient of a mean is divided by the number of rows that count, so that
 * must be known first. The first warp of each block takes slices of the labels until none is left;
 * who needs the number waits until all slices are counted. Only warps that run have taken one, and
 * they count before they wait: so none waits for a block that has not begun. A single slice each
 * warp counts itself. */
LO_FN bool counts(const lo_cu_cross_entropy &p, int label) {
  return label != p.ignore && label >= 0 && label < p.n;
}

/* By a warp. */
LO_FN int count_slice(const lo_cu_cross_entropy &p, lo_i64 slice) {
  int count = 0;
  lo_i64 first = slice * p.slice, end = first + p.slice < p.m ? first + p.slice : p.m;
#pragma unroll 8
  for (lo_i64 row = first + threadIdx.x % 32; row < end; row += 32)
    count += counts(p, p.labels[row]);
  return lo_warp_sum(count);
}

/* Slices done stand above the rows that count in them: one word tells of both. */
enum { SLICES_AT = 40 };

LO_FN void count_slices(const lo_cu_cross_entropy &p) {
  for (;;) {
    unsigned slice = 0;
    if (threadIdx.x == 0) slice = atomicAdd(&p.meeting->taken, 1u);
    slice = __shfl_sync(0xffffffffu, slice, 0);
    if (slice >= p.slices) return;
    int count = count_slice(p, slice);
    if (threadIdx.x == 0) atomicAdd(&p.meeting->counted, (lo_u64)count | (lo_u64)1 << SLICES_AT);
  }
}

LO_FN lo_i64 wait_for_count(const lo_cu_cross_entropy &p) {
  lo_u64 word;
  do word = *(volatile lo_u64 *)&p.meeting->counted;
  while (word >> SLICES_AT < p.slices);
  return (lo_i64)(word & (((lo_u64)1 << SLICES_AT) - 1));
}

/* The number of rows that a mean is over; 1 for a sum. */
struct row_count {
  bool known;
  lo_i64 count;
  __device__ __forceinline__ row_count(const lo_cu_cross_entropy &p)
      : known(!p.mean || !p.labels || p.slices < 2), count(p.mean ? p.m : 1) {
    if (!p.mean || !p.labels) return;
    if (known)
      count = count_slice(p, 0);
    else if (threadIdx.x < 32)
      count_slices(p);
  }
  __device__ __forceinline__ lo_i64 get(const lo_cu_cross_entropy &p) {
    if (!known) count = wait_for_count(p);
    known = true;
    return count;
  }
};

template <int THREADS, int QUADS, bool HELD> struct row_work {
  typedef lo_line<THREADS, QUADS> line;
  const lo_cu_cross_entropy &p;
  lo_team<THREADS> &t;
  lo_i64 row;
  int label;
  line l;
  lo_lane_sum lane;
  float mass; /* the sum of the probabilities, or 1 */
  lo_peak logit, truth;

  __device__ __forceinline__ row_work(const lo_cu_cross_entropy &params, lo_team<THREADS> &team,
                                      lo_i64 at)
      : p(params), t(team), row(at), l(p.n, 0, t.lane, p.whole), mass(p.labels ? 1.0f : 0.0f) {
    label = p.labels ? p.labels[row] : 0;
    l.load(p.logits, row, -LO_INFINITY);
    logit = truth = {-LO_INFINITY, p.n};
  }
  /* The lane's part from `begin` on, which is in l where it is the first. */
  __device__ __forceinline__ void turn_to(lo_i64 begin) {
    if (HELD || begin == 0) return;
    l = line(p.n, begin, t.lane, p.whole);
    l.load(p.logits, row, -LO_INFINITY);
  }
  /* The probabilities beside quad i of l: one quad at a time, for want of registers. */
  typedef lo_line<THREADS, 1> piece;
  __device__ __forceinline__ piece truth_of(lo_i64 begin, int i) {
    piece q(p.n, begin + 4 * THREADS * i, t.lane, p.whole);
    q.load(p.probabilities, row, 0.0f); /* which is above no probability */
    return q;
  }
  /* A lane's elements come in the order of their columns: the first of equal ones stays. */
  template <class Part> __device__ __forceinline__ void raise(lo_peak &k, const Part &q) {
    if (q.left <= 0) return;
    float best = q.x[0];
    int at = 0;
#pragma unroll
    for (int j = 1; j < Part::COUNT; j++)
      if (lo_above(q.x[j], best)) {
        best = q.x[j];
        at = j;
      }
    k = lo_higher(k, {best, q.column(at)});
  }
  __device__ __forceinline__ void study() {
    for (lo_i64 begin = 0; begin < (HELD ? 1 : p.n); begin += line::SPAN) {
      turn_to(begin);
      if (p.correct) raise(logit, l);
      for (int i = 0; i < (p.labels ? 0 : QUADS); i++) {
        piece q = truth_of(begin, i);
        if (p.correct) raise(truth, q);
        mass += (q.x[0] + q.x[1]) + (q.x[2] + q.x[3]);
      }
      lane.add(l.x, HELD && p.labels);
    }
    if (!p.labels) mass = t.sum(mass);
  }
  __device__ __forceinline__ bool hit() {
    if (!p.correct) return false;
    logit = t.highest(logit);
    if (!p.labels) truth = t.highest(truth);
    return logit.place < p.n && logit.place == (p.labels ? (lo_i64)label : truth.place);
  }
  /* Gradients are softmax * sum_j p_j - p. With labels, p is 1 at one place, which is put right by
   * the lane that has stored it. */
  __device__ __forceinline__ void label_gradient(const lo_row_sum &r, float scale, float wanted) {
    for (lo_i64 begin = 0; begin < (HELD ? 1 : p.n); begin += line::SPAN) {
      if (!HELD) {
        l = line(p.n, begin, t.lane, p.whole);
        l.load(p.logits, row, -LO_INFINITY);
      }
#pragma unroll
      for (int j = 0; j < line::COUNT; j++)
        l.x[j] = (HELD ? l.x[j] : lo_exp_of(l.x[j] - lane.base())) * (r.scale * scale);
      l.store(p.dlogits, row);
      if (l.owns(label))
        lo_store(p.dlogits, row * p.dlogits.stride + label,
                 scale * (lo_exp_of(wanted - lane.base()) * r.scale - 1.0f));
    }
  }
  /* The gradient where it is wanted, and this lane's part of the loss. */
  __device__ __forceinline__ float probability_gradient(const lo_row_sum &r, float scale) {
    float loss = 0;
    for (lo_i64 begin = 0; begin < (HELD ? 1 : p.n); begin += line::SPAN) {
      if (!HELD) {
        l = line(p.n, begin, t.lane, p.whole);
        l.load(p.logits, row, -LO_INFINITY);
      }
#pragma unroll
      for (int i = 0; i < QUADS; i++) {
        piece q = truth_of(begin, i);
#pragma unroll
        for (int e = 0; e < 4; e++) {
          float &x = l.x[4 * i + e];
          if (q.x[e] != 0.0f) loss -= q.x[e] * (x - r.top - r.shift);
          x = scale * (lo_exp_of(x - lane.base()) * r.scale * mass - q.x[e]);
        }
      }
      if (p.dlogits.p) l.store(p.dlogits, row);
    }
    return loss;
  }
};

/* A row that counts for nothing. */
template <int THREADS> LO_FN void clear_row(const lo_cu_view &v, lo_team<THREADS> &t, lo_i64 row) {
  if (!v.p) return;
  for (lo_i64 col = t.lane; col < v.cols; col += THREADS) lo_store(v, row * v.stride + col, 0.0f);
}

/* One row that counts: its loss. */
template <class Work> LO_FN float take_row(Work &w, float grad_scale, row_count &rows, bool &hit) {
  const lo_cu_cross_entropy &p = w.p;
  float wanted = p.labels ? lo_load(p.logits, w.row * p.logits.stride + w.label) : 0.0f;
  w.study();
  lo_row_sum r(w.t, w.lane);
  hit = w.hit();
  lo_i64 count = p.dlogits.p ? rows.get(p) : 1;
  float scale = count ? grad_scale / (float)count : 0.0f;
  w.t.meet(); /* the gradient may stand in place of the logits */
  if (!p.labels) return w.t.sum(w.probability_gradient(r, scale));
  if (p.dlogits.p) w.label_gradient(r, scale, wanted);
  return -(wanted - r.top - r.shift);
}

template <int THREADS, int QUADS, bool HELD, int BLOCKS>
__global__ void __launch_bounds__(256, BLOCKS)
    cross_entropy_kernel(const __grid_constant__ lo_cu_cross_entropy p) {
  lo_follow();
  LO_TEAM_SHARED
  __shared__ int shared_ints[8];
  __shared__ double shared_doubles[8];
  lo_team<THREADS> t(shared_floats, shared_peaks);
  float grad_scale = lo_scalar_float(p.grad_scale);
  double total = 0;
  int correct = 0;
  row_count rows(p);
  lo_each_row(t, p.m, [&](lo_i64 row) {
    row_work<THREADS, QUADS, HELD> w(p, t, row);
    float loss = 0;
    bool hit = false;
    if (!p.labels || counts(p, w.label)) {
      loss = take_row(w, grad_scale, rows, hit);
    } else {
      if (w.label != p.ignore && t.lane == 0) lo_report(p.fault, row, w.label);
      clear_row(p.dlogits, t, row);
    }
    if (t.lane != 0) return;
    total += loss;
    correct += hit;
    if (p.losses) p.losses[row] = loss;
  });
  if (!p.loss && !p.correct && p.slices < 2) return;
  total = lo_block_sum(total, shared_doubles);
  correct = lo_block_sum(correct, shared_ints);
  if (threadIdx.x == 0) {
    p.loss_parts[blockIdx.x] = (float)total;
    p.correct_parts[blockIdx.x] = correct;
  }
  if (!last_block(p.meeting)) return;
  if (gridDim.x > 1) {
    total = sum_parts(p.loss_parts);
    double right = sum_parts(p.correct_parts);
    total = lo_block_sum(total, shared_doubles);
    correct = (int)lo_block_sum(right, shared_doubles);
  }
  if (threadIdx.x != 0) return;
  lo_i64 count = rows.get(p);
  if (p.loss) *p.loss = count ? (float)(total / (double)count) : 0.0f;
  if (p.correct) *p.correct = correct;
  *p.meeting = lo_cu_meeting();
}

int lo_cu_run_cross_entropy_rows(const lo_cu_cross_entropy *p, int line, lo_cu_grid grid,
                                 void *stream) {
  static const void *const kernels[] = {
#define X(THREADS, QUADS, HELD, BLOCKS)                                                            \
  (const void *)cross_entropy_kernel<THREADS, QUADS, HELD, BLOCKS>,
      LO_CU_LINES(X)
#undef X
  };
  return lo_cu_launch(kernels[line], grid, p, stream);
}

/* ---- Mean squared error. */
LO_FN float mse_element(float y, float t, float scale, float &sum) {
  float d = y - t;
  sum = fmaf(d, d, sum);
  return scale * d;
}

__global__ void __launch_bounds__(256) mse_kernel(const __grid_constant__ lo_cu_mse p) {
  lo_follow();
  __shared__ float shared[8];
  __shared__ double shared_doubles[8];
  float scale = (float)(2 * p.r * lo_scalar_double(p.grad_scale)), sum = 0;
  for (lo_quads q = lo_quads_of(p.y.rows, p.y.cols); q.at < q.total; q.at += q.step) {
    lo_i64 row = lo_quad_row(q), col = (q.at - row * q.per_row) * 4;
    int count = lo_quad_count(p.y.cols, col);
    float4 y = lo_load4(p.y, row * p.y.stride + col, count);
    float4 t = lo_load4(p.target, row * p.target.stride + col, count), d;
    d.x = mse_element(y.x, t.x, scale, sum);
    d.y = mse_element(y.y, t.y, scale, sum);
    d.z = mse_element(y.z, t.z, scale, sum);
    d.w = mse_element(y.w, t.w, scale, sum);
    if (p.dy.p) lo_store4(p.dy, row * p.dy.stride + col, count, d);
  }
  if (!p.loss) return;
  sum = lo_block_sum(sum, shared);
  if (threadIdx.x == 0) p.parts[blockIdx.x] = sum;
  if (!last_block(p.meeting)) return;
  double all = lo_block_sum(sum_parts(p.parts), shared_doubles);
  if (threadIdx.x != 0) return;
  *p.loss = (float)(p.r * all);
  *p.meeting = lo_cu_meeting();
}

int lo_cu_run_mse_all(const lo_cu_mse *p, lo_cu_grid grid, void *stream) {
  return lo_cu_launch((const void *)mse_kernel, grid, p, stream);
}

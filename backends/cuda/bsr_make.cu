/* Block-sparse weights made on the device: index arrays checked and sorted by columns, scores of
 * blocks, blocks from a dense matrix and back. */
#include <config.h>

#include <cuda_runtime_api.h>
#include <float.h>
#include <layerops/base.h>

#include "backends/cuda/bsr_make.h"
#include "backends/cuda/prelude.cuh"

#define LO_EACH_ITEM(count)                                                                        \
  lo_follow();                                                                                     \
  for (lo_i64 item = blockIdx.x * (lo_i64)blockDim.x + threadIdx.x; item < (count);                \
       item += (lo_i64)gridDim.x * blockDim.x)

/* The last row that begins at the block or before, whatever row_start holds. */
LO_FN int lo_row_of(const int *row_start, int block_rows, int block) {
  int low = 0, high = block_rows;
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    if (row_start[middle] <= block)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* ---- Index arrays */

LO_FN bool lo_bad_row(const lo_cu_bsr_index &p, int r) {
  int begin = p.row_start[r], end = p.row_start[r + 1];
  return begin < 0 || begin > end || end > p.count || (r == 0 && begin != 0) ||
         (r == p.block_rows - 1 && end != p.count);
}
/* A column's number of blocks goes to the place behind its own. */
__global__ void __launch_bounds__(256) check_kernel(const __grid_constant__ lo_cu_bsr_index p) {
  LO_EACH_ITEM((lo_i64)p.block_rows + p.count) {
    bool bad;
    if (item < p.block_rows) {
      int r = (int)item;
      bad = lo_bad_row(p, r);
      if (!bad) atomicMax(&p.verdict->longest_row, p.row_start[r + 1] - p.row_start[r]);
    } else {
      int i = (int)(item - p.block_rows), c = p.column[i];
      bool first = p.row_start[lo_row_of(p.row_start, p.block_rows, i)] == i;
      bad = c < 0 || c >= p.block_cols || (!first && i > 0 && c <= p.column[i - 1]);
      if (c >= 0 && c < p.block_cols) atomicAdd(&p.col_start[c + 1], 1);
    }
    if (bad) p.verdict->fault = 1;
  }
}
/* Numbers to sums of all up to them, by one block. */
__global__ void __launch_bounds__(1024) sum_kernel(const __grid_constant__ lo_cu_bsr_index p) {
  __shared__ int sums[1024];
  int carry = 0;
  lo_follow();
  for (int from = 0; from <= p.block_cols; from += 1024) {
    int at = from + threadIdx.x, own = at <= p.block_cols ? p.col_start[at] : 0;
    atomicMax(&p.verdict->longest_col, own);
    sums[threadIdx.x] = own;
    for (int step = 1; step < 1024; step *= 2) {
      __syncthreads();
      int before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
      __syncthreads();
      sums[threadIdx.x] += before;
    }
    __syncthreads();
    if (at <= p.block_cols) p.col_start[at] = carry + sums[threadIdx.x];
    carry += sums[1023];
    __syncthreads();
  }
}
/* To each column its blocks, in any order. */
__global__ void __launch_bounds__(256) deal_kernel(const __grid_constant__ lo_cu_bsr_index p) {
  LO_EACH_ITEM(p.count) {
    int c = p.column[item];
    if (c >= 0 && c < p.block_cols) p.dealt[p.col_start[c] + atomicAdd(&p.next[c], 1)] = (int)item;
  }
}
/* In their order: a block's place is the number of those before it. */
__global__ void __launch_bounds__(256) order_kernel(const __grid_constant__ lo_cu_bsr_index p) {
  LO_EACH_ITEM(p.col_start[p.block_cols]) {
    int block = p.dealt[item], c = p.column[block], to = p.col_start[c];
    for (int i = p.col_start[c]; i < p.col_start[c + 1]; i++) to += p.dealt[i] < block;
    p.place[to] = block;
    p.row[to] = lo_row_of(p.row_start, p.block_rows, block);
  }
}

/* ---- Dense matrices */

LO_FN float lo_at(const lo_cu_view &v, lo_i64 i, lo_i64 j) {
  return lo_load(v, i * v.stride + j);
}

/* In the order and arithmetic of common/bsr_prune.c, so that equal scores are equal everywhere. */
__global__ void __launch_bounds__(256) scores_kernel(const __grid_constant__ lo_cu_bsr_dense p) {
  lo_i64 block_cols = (p.dense.cols + p.width - 1) / p.width;
  lo_i64 block_rows = (p.dense.rows + p.height - 1) / p.height;
  LO_EACH_ITEM(block_rows * block_cols) {
    lo_i64 row = item / block_cols * p.height, col = item % block_cols * p.width;
    double score = 0;
    for (lo_i64 i = row; i < row + p.height && i < p.dense.rows; i++)
      for (lo_i64 j = col; j < col + p.width && j < p.dense.cols; j++) {
        double size = fabs((double)lo_at(p.dense, i, j));
        if (size != size) size = (double)LO_INFINITY;
        if (p.score == LO_CU_BSR_MAX)
          score = size > score ? size : score;
        else
          score = __dadd_rn(score, p.score == LO_CU_BSR_L2 ? __dmul_rn(size, size) : size);
      }
    p.scores[item] = score;
  }
}

/* Where element `at` of block `block` lies in W. */
struct place {
  lo_i64 row, col;
  bool inside;
  __device__ __forceinline__ place(const lo_cu_bsr_dense &p, lo_i64 block, int at) {
    row = lo_row_of(p.row_start, p.block_rows, (int)block) * (lo_i64)p.height + at / p.width;
    col = p.column[block] * (lo_i64)p.width + at % p.width;
    inside = row < p.dense.rows && col < p.dense.cols;
  }
};

__global__ void __launch_bounds__(256) gather_kernel(const __grid_constant__ lo_cu_bsr_dense p) {
  int area = p.height * p.width;
  LO_EACH_ITEM(p.count * area) {
    place from(p, item / area, (int)(item % area));
    lo_store(p.values, item, from.inside ? lo_at(p.dense, from.row, from.col) : 0.0f);
  }
}
/* 8 bits: a thread block a block of W, by common/bsr_values.c's rule. */
__global__ void __launch_bounds__(256) quantise_kernel(const __grid_constant__ lo_cu_bsr_dense p) {
  __shared__ unsigned most; /* bits of a magnitude are in its order, NaN above all */
  int area = p.height * p.width;
  lo_follow();
  for (lo_i64 block = blockIdx.x; block < p.count; block += gridDim.x) {
    __syncthreads();
    if (threadIdx.x == 0) most = 0;
    __syncthreads();
    unsigned own = 0;
    for (int at = threadIdx.x; at < area; at += blockDim.x) {
      place from(p, block, at);
      if (from.inside) own = max(own, __float_as_uint(lo_at(p.dense, from.row, from.col)) << 1);
    }
    atomicMax(&most, own);
    __syncthreads();
    float scale = __fdiv_rn(__uint_as_float(most >> 1), 127.0f);
    if (most == 0) scale = 1.0f;
    if (scale < FLT_MIN) scale = FLT_MIN;
    for (int at = threadIdx.x; at < area; at += blockDim.x) {
      place from(p, block, at);
      float value = from.inside ? lo_at(p.dense, from.row, from.col) : 0.0f;
      lo_store(p.values, block * area + at, __fdiv_rn(value, scale));
    }
    if (threadIdx.x == 0) p.scales[block] = scale;
  }
}
/* W holds zeros already. */
__global__ void __launch_bounds__(256) scatter_kernel(const __grid_constant__ lo_cu_bsr_dense p) {
  int area = p.height * p.width;
  LO_EACH_ITEM(p.count * area) {
    place to(p, item / area, (int)(item % area));
    float value =
        p.scales ? __fmul_rn((float)((const signed char *)p.values.p)[item], p.scales[item / area])
                 : lo_load(p.values, item);
    if (to.inside) lo_store(p.dense, to.row * p.dense.stride + to.col, value);
  }
}

__global__ void __launch_bounds__(256) clear_kernel(const __grid_constant__ lo_cu_bsr_dense p) {
  int area = p.height * p.width;
  LO_EACH_ITEM(p.count * area) {
    place at(p, item / area, (int)(item % area));
    if (!at.inside) lo_store(p.values, item, 0.0f);
  }
}

int lo_cu_run_bsr_index(int which, const lo_cu_bsr_index *p, lo_cu_grid grid, void *stream) {
  static const void *const kernels[] = {(const void *)check_kernel, (const void *)sum_kernel,
                                        (const void *)deal_kernel, (const void *)order_kernel};
  return lo_cu_launch(kernels[which], grid, p, stream);
}

int lo_cu_run_bsr_dense(int which, const lo_cu_bsr_dense *p, lo_cu_grid grid, void *stream) {
  static const void *const kernels[] = {(const void *)scores_kernel, (const void *)gather_kernel,
                                        (const void *)quantise_kernel, (const void *)scatter_kernel,
                                        (const void *)clear_kernel};
  return lo_cu_launch(kernels[which], grid, p, stream);
}

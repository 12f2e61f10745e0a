/* Fill, copy with conversion, gather, transpose. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/prelude.cuh"
#include "backends/cuda/launch.h"

/* A number on its way between types: integers stay integers, so that none loses a digit. */
struct number {
  bool integer;
  int i;
  float f;
};

LO_FN number load_number(const lo_cu_view &v, lo_i64 at) {
  switch (v.type) {
  case LO_TYPE_I32:
    return {true, ((const int *)v.p)[at], 0};
  case LO_TYPE_I8:
    return {true, ((const signed char *)v.p)[at], 0};
  case LO_TYPE_U8:
    return {true, ((const unsigned char *)v.p)[at], 0};
  default:
    return {false, 0, lo_load(v, at)};
  }
}

LO_FN int clamp(int i, int low, int high) {
  return i < low ? low : i > high ? high : i;
}

/* An integer as a float that rounds to any shorter type as the integer does: to f32 with the last
 * bit set where digits were lost (round to odd), else exact. */
LO_FN float odd_float(int i) {
  float f = __int2float_rz(i);
  return (double)f == (double)i ? f : __int_as_float(__float_as_int(f) | 1);
}

LO_FN void store_number(const lo_cu_view &v, lo_i64 at, number n) {
  int i = n.integer ? n.i : __float2int_rn(n.f); /* saturates, NaN is 0 */
  switch (v.type) {
  case LO_TYPE_I32:
    ((int *)v.p)[at] = i;
    break;
  case LO_TYPE_I8:
    ((signed char *)v.p)[at] = (signed char)clamp(i, -128, 127);
    break;
  case LO_TYPE_U8:
    ((unsigned char *)v.p)[at] = (unsigned char)clamp(i, 0, 255);
    break;
  case LO_TYPE_F32:
    ((float *)v.p)[at] = n.integer ? __int2float_rn(n.i) : n.f;
    break;
  default:
    lo_store(v, at, n.integer ? odd_float(n.i) : n.f);
  }
}

LO_FN bool is_float(int type) {
  return type == LO_TYPE_F32 || type == LO_TYPE_F16 || type == LO_TYPE_BF16 ||
         type >= LO_TYPE_F8E4M3;
}

/* The row of x for a row of y; -1 where the index is out of range, which is reported once a row. */
LO_FN lo_i64 source_row(const lo_cu_copy &p, lo_i64 row, bool first) {
  if (!p.index) return row;
  int i = p.index[row];
  if (i >= 0 && i < p.x.rows) return i;
  if (first) lo_report(p.fault, row, i);
  return -1;
}

__global__ void __launch_bounds__(256) convert_kernel(const __grid_constant__ lo_cu_copy p) {
  lo_follow();
  bool floats = is_float(p.x.type) && is_float(p.y.type);
  for (lo_quads q = lo_quads_of(p.y.rows, p.y.cols); q.at < q.total; q.at += q.step) {
    lo_i64 row = lo_quad_row(q), col = (q.at - row * q.per_row) * 4;
    lo_i64 from = source_row(p, row, col == 0), at = row * p.y.stride + col;
    int count = lo_quad_count(p.y.cols, col);
    if (floats) {
      float4 f = make_float4(0, 0, 0, 0);
      if (from >= 0) f = lo_load4(p.x, from * p.x.stride + col, count);
      lo_store4(p.y, at, count, f);
      continue;
    }
#pragma unroll 1
    for (int i = 0; i < count; i++) {
      number n = {true, 0, 0};
      if (from >= 0) n = load_number(p.x, from * p.x.stride + col + i);
      store_number(p.y, at + i, n);
    }
  }
}

int lo_cu_run_convert(const lo_cu_copy *p, lo_cu_grid grid, void *stream) {
  return lo_cu_launch((const void *)convert_kernel, grid, p, stream);
}

/* Views are of elements V here: the host has divided columns, strides and places. */
template <class V>
__global__ void __launch_bounds__(256) move_kernel(const __grid_constant__ lo_cu_copy p) {
  lo_follow();
  lo_i64 total = p.y.rows * p.y.cols, step = (lo_i64)gridDim.x * blockDim.x;
  for (lo_i64 at = (lo_i64)blockIdx.x * blockDim.x + threadIdx.x; at < total; at += step) {
    lo_i64 row = p.y.rows == 1 ? 0 : at / p.y.cols, col = at - row * p.y.cols;
    lo_i64 from = source_row(p, row, col == 0);
    V v = V();
    if (from >= 0) v = ((const V *)p.x.p)[from * p.x.stride + col];
    ((V *)p.y.p)[row * p.y.stride + col] = v;
  }
}

int lo_cu_run_move(const lo_cu_copy *p, int width, lo_cu_grid grid, void *stream) {
  const void *kernel = width == 16  ? (const void *)move_kernel<uint4>
                       : width == 8 ? (const void *)move_kernel<uint2>
                       : width == 4 ? (const void *)move_kernel<unsigned>
                       : width == 2 ? (const void *)move_kernel<unsigned short>
                                    : (const void *)move_kernel<unsigned char>;
  return lo_cu_launch(kernel, grid, p, stream);
}

/* ---- Transpose: tiles of 32 x 32 through shared memory. A row of the tile is one element longer,
 * so that a column finds 32 banks. */
template <class V>
__global__ void __launch_bounds__(256) transpose_kernel(const __grid_constant__ lo_cu_copy p) {
  lo_follow();
  __shared__ V tile[32][33];
  int x = threadIdx.x % 32, y = threadIdx.x / 32;
  lo_i64 across = (p.x.cols + 31) / 32, tiles = across * ((p.x.rows + 31) / 32);
  for (lo_i64 t = blockIdx.x; t < tiles; t += gridDim.x) {
    lo_i64 row0 = t / across * 32, col0 = (t - t / across * across) * 32;
#pragma unroll
    for (int i = y; i < 32; i += 8)
      if (row0 + i < p.x.rows && col0 + x < p.x.cols)
        tile[i][x] = ((const V *)p.x.p)[(row0 + i) * p.x.stride + col0 + x];
    __syncthreads();
#pragma unroll
    for (int i = y; i < 32; i += 8)
      if (col0 + i < p.x.cols && row0 + x < p.x.rows)
        ((V *)p.y.p)[(col0 + i) * p.y.stride + row0 + x] = tile[x][i];
    __syncthreads();
  }
}

int lo_cu_run_transpose_all(const lo_cu_copy *p, int width, lo_i64 tiles, void *stream) {
  lo_cu_grid grid = {tiles < 1 << 30 ? tiles : 1 << 30, 1, 1, 256};
  const void *kernel = width == 4   ? (const void *)transpose_kernel<unsigned>
                       : width == 2 ? (const void *)transpose_kernel<unsigned short>
                                    : (const void *)transpose_kernel<unsigned char>;
  return lo_cu_launch(kernel, grid, p, stream);
}

/* ---- Fill: the value is made once a thread. */
LO_FN number fill_number(const lo_cu_fill &p) {
  double d = lo_scalar_double(p.value);
  if (!is_float(p.y.type)) return {true, d == d ? __double2int_rn(d) : 0, 0};
  if (p.y.type == LO_TYPE_F32 || d != d) return {false, 0, (float)d};
  float f = __double2float_rz(d); /* round to odd, as in odd_float */
  return {false, 0, (double)f == d || !isfinite(d) ? f : __int_as_float(__float_as_int(f) | 1)};
}

__global__ void __launch_bounds__(256) fill_kernel(const __grid_constant__ lo_cu_fill p) {
  lo_follow();
  number n = fill_number(p);
  float4 f = make_float4(n.f, n.f, n.f, n.f);
  for (lo_quads q = lo_quads_of(p.y.rows, p.y.cols); q.at < q.total; q.at += q.step) {
    lo_i64 row = lo_quad_row(q), col = (q.at - row * q.per_row) * 4, at = row * p.y.stride + col;
    int count = lo_quad_count(p.y.cols, col);
    if (!n.integer) {
      lo_store4(p.y, at, count, f);
      continue;
    }
#pragma unroll 1
    for (int i = 0; i < count; i++) store_number(p.y, at + i, n);
  }
}

int lo_cu_run_fill_all(const lo_cu_fill *p, lo_cu_grid grid, void *stream) {
  return lo_cu_launch((const void *)fill_kernel, grid, p, stream);
}

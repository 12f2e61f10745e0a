/* Copies of operands whose rows begin anywhere, with rows on borders of 16 bytes. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/prelude.cuh"
#include "backends/cuda/launch.h"

/* Elements of E (1, 2 or 4 bytes) from `first` to `last` of the four bytes at p, where they lie in a
 * word. */
template <class E> LO_FN unsigned some_of_word(const char *p, int first, int last) {
  unsigned word = 0;
#pragma unroll
  for (int b = 0; b < 4; b += sizeof(E))
    if (b >= first && b < last) word |= (unsigned)__ldg((const E *)(p + b)) << 8 * b;
  return word;
}

/* 16 bytes from anywhere, by whole words but for the first and the last. */
template <class E> LO_FN uint4 loose_chunk(const char *p) {
  int off = (int)((lo_u64)p & 3);
  const unsigned *w = (const unsigned *)(p - off);
  unsigned a = off ? some_of_word<E>((const char *)w, off, 4) : __ldg(w);
  unsigned b = __ldg(w + 1), c = __ldg(w + 2), d = __ldg(w + 3);
  unsigned e = off ? some_of_word<E>((const char *)(w + 4), 0, off) : 0;
  return make_uint4(__funnelshift_r(a, b, 8 * off), __funnelshift_r(b, c, 8 * off),
                    __funnelshift_r(c, d, 8 * off), __funnelshift_r(d, e, 8 * off));
}

template <class E> LO_FN uint4 short_chunk(const char *p, int bytes) {
  unsigned w[4] = {};
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (4 * i < bytes) w[i] = some_of_word<E>(p + 4 * i, 0, bytes - 4 * i);
  return make_uint4(w[0], w[1], w[2], w[3]);
}

/* A row by `lanes` neighbouring threads, each with all its loads of a turn on their way. */
template <class E> LO_FN void align_rows(const lo_cu_rows &o) {
  lo_i64 thread = (lo_i64)blockIdx.x * blockDim.x + threadIdx.x, lanes = o.lanes;
  lo_i64 step = (lo_i64)gridDim.x * blockDim.x / lanes;
  for (lo_i64 row = thread / lanes; row < o.rows * o.batch; row += step) {
    lo_i64 l = o.batch == 1 ? 0 : row / o.rows;
    const char *from = (const char *)o.from + l * o.batch_stride + (row - l * o.rows) * o.stride;
    char *to = (char *)o.to + row * o.pitch;
    for (lo_i64 at = thread % lanes * 16; at < o.bytes; at += 16 * LO_CU_ROW_CHUNKS * lanes) {
      uint4 q[LO_CU_ROW_CHUNKS];
#pragma unroll
      for (int i = 0; i < LO_CU_ROW_CHUNKS; i++) {
        lo_i64 left = o.bytes - at - 16 * i * lanes;
        if (left >= 16)
          q[i] = loose_chunk<E>(from + at + 16 * i * lanes);
        else if (left > 0)
          q[i] = short_chunk<E>(from + at + 16 * i * lanes, (int)left);
      }
#pragma unroll
      for (int i = 0; i < LO_CU_ROW_CHUNKS; i++)
        if (at + 16 * i * lanes < o.bytes) *(uint4 *)(to + at + 16 * i * lanes) = q[i];
    }
  }
}

/* grid: x threads, y operands */
template <class E>
__global__ void __launch_bounds__(256) align_kernel(const __grid_constant__ lo_cu_align p) {
  align_rows<E>(p.operands[blockIdx.y]);
}

int lo_cu_run_align(const lo_cu_align *p, lo_cu_grid grid, void *stream) {
  grid.y = p->count;
  grid.threads = 256;
  return lo_cu_launch(p->element == 1   ? (const void *)align_kernel<unsigned char>
                      : p->element == 2 ? (const void *)align_kernel<unsigned short>
                                        : (const void *)align_kernel<unsigned>,
                      grid, p, stream);
}

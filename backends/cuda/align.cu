/* Copies of operands whose rows begin anywhere, with rows on borders of 16 bytes; and of those of 8
 * bits, with elements of 16. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/launch.h"
#include "backends/cuda/widen.cuh"

/* Elements of E (1, 2 or 4 bytes) from byte `first` to `last` of the word at p. */
template <class E> LO_FN unsigned some_of_word(const char *p, lo_i64 first, lo_i64 last) {
  unsigned word = 0;
#pragma unroll
  for (int b = 0; b < 4; b += sizeof(E))
    if (b >= first && b < last) word |= (unsigned)lo_load((const E *)(p + b)) << 8 * b;
  return word;
}

/* A row from anywhere, as words: those on their borders that it lies in, of which the first and the
 * last may be its own in part. What is beyond it is 0. */
template <class E> struct loose_row {
  const char *p; /* of the first word */
  int off;       /* bytes of it before the row */
  lo_i64 bytes;
  __device__ __forceinline__ loose_row(const char *from, lo_i64 bytes_)
      : p(from - ((lo_u64)from & 3)), off((int)((lo_u64)from & 3)), bytes(bytes_) {}
  __device__ __forceinline__ unsigned on_border(lo_i64 i) const {
    lo_i64 first = 4 * i - off; /* in the row */
    if (first >= 0 && first + 4 <= bytes) return lo_load((const unsigned *)p + i);
    return some_of_word<E>(p + 4 * i, -first, bytes - first);
  }
};

/* A row's words by `lanes` neighbouring threads, word after word, so that a warp moves what lies
 * together, each with all its loads of a turn on their way. store(to, i, word): word i of the row,
 * up to `words` of them. */
template <class E, class Store>
LO_FN void each_word(const lo_cu_rows &o, lo_i64 words, Store store) {
  int lanes = o.lanes, shift = __ffs(lanes) - 1;
  lo_i64 thread = (lo_i64)blockIdx.x * blockDim.x + threadIdx.x;
  lo_i64 step = (lo_i64)gridDim.x * blockDim.x >> shift;
  for (lo_i64 row = thread >> shift; row < o.rows * o.batch; row += step) {
    lo_i64 l = o.batch == 1 ? 0 : row / o.rows;
    loose_row<E> from((const char *)o.from + l * o.batch_stride + (row - l * o.rows) * o.stride,
                      o.bytes);
    char *to = (char *)o.to + row * o.pitch;
    for (lo_i64 i = thread & (lanes - 1); i < words; i += LO_CU_ROW_WORDS * lanes) {
      unsigned low[LO_CU_ROW_WORDS], high[LO_CU_ROW_WORDS];
#pragma unroll
      for (int w = 0; w < LO_CU_ROW_WORDS; w++) {
        low[w] = from.on_border(i + w * lanes);
        high[w] = from.off ? from.on_border(i + w * lanes + 1) : 0;
      }
#pragma unroll
      for (int w = 0; w < LO_CU_ROW_WORDS; w++)
        if (i + w * lanes < words)
          store(to, i + w * lanes, __funnelshift_r(low[w], high[w], 8 * from.off));
    }
  }
}

/* grid: x threads, y operands */
template <class E>
__global__ void __launch_bounds__(256) align_kernel(const __grid_constant__ lo_cu_align p) {
  lo_follow();
  const lo_cu_rows &o = p.operands[blockIdx.y];
  each_word<E>(o, o.pitch / 4,
               [](char *to, lo_i64 i, unsigned word) { ((unsigned *)to)[i] = word; });
  lo_lead();
}

/* Four elements of 8 bits, all of which a 16-bit float holds exactly. */
LO_FN uint2 widen(unsigned bytes, int type, int bf16) {
  uint2 f16;
  if (type == LO_TYPE_I8)
    lo_widen<LO_TYPE_I8, false>(bytes, f16.x, f16.y);
  else if (type == LO_TYPE_F8E4M3)
    lo_widen<LO_TYPE_F8E4M3, false>(bytes, f16.x, f16.y);
  else
    lo_widen<LO_TYPE_F8E5M2, false>(bytes, f16.x, f16.y);
  return bf16 ? lo_to_16x4(lo_from_16x4(f16, 0), 1) : f16;
}
__global__ void __launch_bounds__(256) widen_kernel(const __grid_constant__ lo_cu_align p) {
  lo_follow();
  const lo_cu_rows &o = p.operands[blockIdx.y];
  each_word<unsigned char>(o, o.pitch / 8, [&](char *to, lo_i64 i, unsigned word) {
    ((uint2 *)to)[i] = widen(word, o.type, o.to_type == LO_TYPE_BF16);
  });
  lo_lead();
}

int lo_cu_run_align(const lo_cu_align *p, lo_cu_grid grid, void *stream) {
  grid.y = p->count;
  grid.threads = 256;
  return lo_cu_launch(p->element == 1   ? (const void *)align_kernel<unsigned char>
                      : p->element == 2 ? (const void *)align_kernel<unsigned short>
                                        : (const void *)align_kernel<unsigned>,
                      grid, p, stream);
}

int lo_cu_run_widen(const lo_cu_align *p, lo_cu_grid grid, void *stream) {
  grid.y = p->count;
  grid.threads = 256;
  return lo_cu_launch((const void *)widen_kernel, grid, p, stream);
}

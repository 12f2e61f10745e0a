/* Copies of operands whose rows begin anywhere, with rows on borders of 16 bytes; and of those of 8
 * bits, with elements of 16. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/launch.h"
#include "backends/cuda/widen.cuh"

/* Elements of E (1, 2 or 4 bytes) from byte `first` to `last` of the word at p. */
template <class E> LO_FN unsigned some_of_word(const char *p, int first, int last) {
  unsigned word = 0;
#pragma unroll
  for (int b = 0; b < 4; b += sizeof(E))
    if (b >= first && b < last) word |= (unsigned)__ldg((const E *)(p + b)) << 8 * b;
  return word;
}

/* 16 bytes of a row from anywhere, of which `left` are there, then zeros: by the five words, on
 * their borders, that they lie in. */
template <class E> struct loose_chunk {
  const char *p; /* of the first word */
  int off, left; /* bytes of it before the chunk; at most 32 */
  bool begins;   /* with the row */
  unsigned word[5];

  __device__ __forceinline__ void load(const char *from, lo_i64 at, lo_i64 bytes) {
    off = (int)((lo_u64)from & 3);
    p = from - off + at;
    left = bytes - at < 32 ? (int)(bytes - at) : 32;
    begins = at == 0;
#pragma unroll
    for (int i = 0; i < 5; i++) word[i] = is_whole(i) ? __ldg((const unsigned *)p + i) : 0;
  }
  __device__ __forceinline__ bool is_whole(int i) const {
    return 4 * i - off + 4 <= left && (4 * i >= off || !begins);
  }
  /* Words that reach beyond an end of the row. */
  __device__ __forceinline__ void load_ends() {
    if (left <= 0 || (left >= 20 && !begins)) return;
#pragma unroll
    for (int i = 0; i < 5; i++)
      if (!is_whole(i))
        word[i] = some_of_word<E>(p + 4 * i, begins ? off - 4 * i : 0, left + off - 4 * i);
  }
  __device__ __forceinline__ uint4 bytes() const {
    int bits = 8 * off;
    return make_uint4(
        __funnelshift_r(word[0], word[1], bits), __funnelshift_r(word[1], word[2], bits),
        __funnelshift_r(word[2], word[3], bits), __funnelshift_r(word[3], word[4], bits));
  }
};

/* A row by `lanes` neighbouring threads, each with all its loads of a turn on their way. store(to,
 * at, bytes): what lies at byte `at` of the row. */
template <class E, class Store> LO_FN void each_chunk(const lo_cu_rows &o, Store store) {
  int lanes = o.lanes, shift = __ffs(lanes) - 1;
  lo_i64 thread = (lo_i64)blockIdx.x * blockDim.x + threadIdx.x;
  lo_i64 step = (lo_i64)gridDim.x * blockDim.x >> shift;
  for (lo_i64 row = thread >> shift; row < o.rows * o.batch; row += step) {
    lo_i64 l = o.batch == 1 ? 0 : row / o.rows;
    const char *from = (const char *)o.from + l * o.batch_stride + (row - l * o.rows) * o.stride;
    char *to = (char *)o.to + row * o.pitch;
    for (lo_i64 at = (thread & (lanes - 1)) * 16; at < o.bytes;
         at += 16 * LO_CU_ROW_CHUNKS * lanes) {
      loose_chunk<E> chunk[LO_CU_ROW_CHUNKS];
#pragma unroll
      for (int i = 0; i < LO_CU_ROW_CHUNKS; i++) chunk[i].load(from, at + 16 * i * lanes, o.bytes);
#pragma unroll
      for (int i = 0; i < LO_CU_ROW_CHUNKS; i++) chunk[i].load_ends();
#pragma unroll
      for (int i = 0; i < LO_CU_ROW_CHUNKS; i++)
        if (chunk[i].left > 0) store(to, at + 16 * i * lanes, chunk[i].bytes());
    }
  }
}

/* grid: x threads, y operands */
template <class E>
__global__ void __launch_bounds__(256) align_kernel(const __grid_constant__ lo_cu_align p) {
  lo_follow();
  each_chunk<E>(p.operands[blockIdx.y],
                [](char *to, lo_i64 at, uint4 bytes) { *(uint4 *)(to + at) = bytes; });
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
  each_chunk<unsigned char>(o, [&](char *to, lo_i64 at, uint4 bytes) {
    int bf16 = o.to_type == LO_TYPE_BF16;
    uint2 a = widen(bytes.x, o.type, bf16), b = widen(bytes.y, o.type, bf16);
    uint2 c = widen(bytes.z, o.type, bf16), d = widen(bytes.w, o.type, bf16);
    uint4 *q = (uint4 *)(to + 2 * at);
    q[0] = make_uint4(a.x, a.y, b.x, b.y);
    if (2 * at + 16 < o.pitch) q[1] = make_uint4(c.x, c.y, d.x, d.y);
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

/* Operands on their way from device memory to a ring of stages in shared memory, without passing
 * through registers (cp.async: from Ampere on).
 *
 * A stage holds a step of both operands, 128 bytes of k, in lines of 128 bytes: an operand that
 * runs along k in memory has a line for each row; any other one has panels of 128 bytes of m (n),
 * each with a line for each k. (Half a line at a time would cost the copies as much of shared
 * memory's time as a whole one.) 16 bytes of a line are a chunk; chunks of neighbouring lines are
 * swizzled, so that copies and ldmatrix, eight chunks at a time, find all banks. */
#ifndef LO_CUDA_ASYNC_COPY_CUH
#define LO_CUDA_ASYNC_COPY_CUH

#include "backends/cuda/main_loop.cuh"

/* Copies UNIT bytes, 16 or 4. */
template <int UNIT> LO_FN void lo_copy(unsigned to, const void *from) {
#if __CUDA_ARCH__ >= 800
  if (UNIT == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
#endif
}
/* Copies `bytes` of them, and zeros for the rest. */
template <int UNIT> LO_FN void lo_copy_some(unsigned to, const void *from, int bytes) {
#if __CUDA_ARCH__ >= 800
  if (UNIT == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
                 "r"(bytes)
                 : "memory");
#endif
}
/* What was copied since the last call is a group. */
LO_FN void lo_copy_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/* Until at most that many of this thread's groups are on their way. */
template <int GROUPS> LO_FN void lo_copy_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
#endif
}

/* Four 8 x 8 matrices of 16 bits; lane l gives the address of line l % 8 of matrix l / 8. */
template <bool TURN> LO_FN void lo_read_matrices(unsigned (&r)[4], unsigned address) {
  if (TURN)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

/* Where an operand's elements lie in a stage: EXTENT lines, in panels of BK if not K_INNER. */
template <int ELEMENT_, bool K_INNER_, int EXTENT_> struct lo_async_stage {
  static constexpr int ELEMENT = ELEMENT_, EXTENT = EXTENT_, LINE = LO_CU_ASYNC_STEP;
  static constexpr bool K_INNER = K_INNER_;
  static constexpr int BK = LINE / ELEMENT, CHUNKS = LINE / 16, BYTES = EXTENT * LINE;
  static_assert(K_INNER || EXTENT % BK == 0, "whole panels");

  static __device__ __forceinline__ unsigned place(int line, int chunk) {
    /* f32 that does not run along k is read by words, four lines at a time */
    int swizzle = K_INNER || ELEMENT < 4 ? line % 8 : line % 4 * 2;
    return (unsigned)(line * LINE + (chunk ^ swizzle) * 16);
  }
  /* Of element (k, i) where i is contiguous; i is a multiple of a chunk's worth. */
  static __device__ __forceinline__ unsigned turned(int k, int i) {
    return place(i / BK * BK + k, i % BK * ELEMENT / 16);
  }
};

/* A thread's share of an operand, UNIT bytes at a time: rows and matrices begin on such borders. A
 * stage is filled in PARTS. */
template <class S, int THREADS, int UNIT, int PARTS> struct lo_async_loader {
  static constexpr bool K_INNER = S::K_INNER;
  static constexpr int ELEMENT = S::ELEMENT, BK = S::BK, EACH = S::LINE / UNIT;
  static constexpr int APART = THREADS / EACH; /* lines between a thread's units */
  static constexpr int LOADS = S::EXTENT / APART / PARTS;
  /* From one part to the next: lines in memory, bytes along one. */
  static constexpr int ON = LOADS * APART, OUTER = K_INNER || ON < BK ? ON : 0;
  static constexpr int INNER = K_INNER ? 0 : ON / BK * 128;
  static_assert(LOADS * APART * PARTS == S::EXTENT, "every thread has as many units");
  static_assert(K_INNER || APART % BK == 0 || BK % APART == 0, "panels");
  static_assert(K_INNER || ON % BK == 0 || BK % ON == 0, "panels");

  const char *p;              /* of the thread's first unit in the step that is filled */
  lo_i64 stride;              /* in bytes */
  int outer_left, inner_left; /* lines, and bytes of a line, from there to the end */

  static __device__ __forceinline__ int line() { return (int)threadIdx.x / EACH; }
  static __device__ __forceinline__ int byte() { return (int)threadIdx.x % EACH * UNIT; }
  /* Of unit l from the first one: lines in memory, bytes along one. */
  static constexpr __device__ int outer(int l) { return K_INNER ? l * APART : l * APART % BK; }
  static constexpr __device__ int inner(int l) { return K_INNER ? 0 : l * APART / BK * 128; }

  __device__ __forceinline__ lo_async_loader(const lo_cu_operand &o, lo_i64 batch, lo_i64 first,
                                             lo_i64 k0, int k_count) {
    lo_i64 left = o.extent - first;
    int extent = left < S::EXTENT ? (int)left : S::EXTENT;
    int row = K_INNER ? line() : line() % BK;
    int along = byte() + (K_INNER ? 0 : line() / BK * 128);
    stride = o.stride * ELEMENT;
    outer_left = (K_INNER ? extent : k_count) - row;
    inner_left = (K_INNER ? k_count : extent) * ELEMENT - along;
    p = (const char *)o.p + batch * o.batch_stride * ELEMENT + along +
        (K_INNER ? (first + row) * stride + k0 * ELEMENT : (k0 + row) * stride + first * ELEMENT);
  }
  static __device__ __forceinline__ unsigned place(unsigned stage, int part, int l) {
    return stage + part * (ON * S::LINE) + S::place(line() + l * APART, byte() / 16) + byte() % 16;
  }
  /* A part of a step all of which is there. One pointer goes from unit to unit, as registers are
   * short: the compiler is kept from making one for each. */
  __device__ __forceinline__ void copy_whole(unsigned stage, int part) const {
    const char *q = p + part * (OUTER * stride + INNER);
#pragma unroll
    for (int l = 0; l < LOADS; l++) {
      asm volatile("" : "+l"(q));
      lo_copy<UNIT>(place(stage, part, l), q);
      q += (outer(l + 1) - outer(l)) * stride + inner(l + 1) - inner(l);
    }
  }
  /* A part of step number `step`, with zeros for what is beyond the end. */
  __device__ __forceinline__ void copy_some(unsigned stage, int part, int step) const {
    int lines = outer_left - part * OUTER - (K_INNER ? 0 : step * BK);
    int bytes = inner_left - part * INNER - (K_INNER ? step * S::LINE : 0);
#pragma unroll 1
    for (int l = 0; l < LOADS; l++) {
      int left = outer(l) < lines ? bytes - inner(l) : 0;
      lo_copy_some<UNIT>(place(stage, part, l),
                         p + (part * OUTER + outer(l)) * stride + part * INNER + inner(l),
                         left < 0      ? 0
                         : left < UNIT ? left
                                       : UNIT);
    }
  }
  __device__ __forceinline__ void next_step() {
    p += K_INNER ? S::LINE : BK * stride;
  }
};

#endif

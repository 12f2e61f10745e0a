/* Transposition of f32 (or any 4-byte elements, which are only moved): blocks that fit in
 * registers. */
#include <config.h>

#include "backends/cpu/isa/part.h"

#if defined __AVX512F__
#include <immintrin.h>
#define BLOCK 16

/* Loads bring rows 4 l + i into lane l of 128 bits, which is cheaper than shuffles between lanes;
 * then two rounds within them. Each row is loaded from four times. */
static inline void whole_block(const float *from, int64_t from_row, float *to, int64_t to_row) {
#pragma GCC unroll 4
  for (int q = 0; q < 16; q += 4) {
    __m512 a[4], b[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      const float *row = from + i * from_row + q;
      a[i] = _mm512_castps128_ps512(_mm_loadu_ps(row));
      a[i] = _mm512_mask_broadcast_f32x4(a[i], 0x00f0, _mm_loadu_ps(row + 4 * from_row));
      a[i] = _mm512_mask_broadcast_f32x4(a[i], 0x0f00, _mm_loadu_ps(row + 8 * from_row));
      a[i] = _mm512_mask_broadcast_f32x4(a[i], 0xf000, _mm_loadu_ps(row + 12 * from_row));
    }
#pragma GCC unroll 2
    for (int i = 0; i < 4; i += 2) {
      b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
      b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
      const __m512d low = _mm512_castps_pd(b[i]), high = _mm512_castps_pd(b[2 + i]);
      _mm512_storeu_ps(to + (q + 2 * i) * to_row, _mm512_castpd_ps(_mm512_unpacklo_pd(low, high)));
      _mm512_storeu_ps(to + (q + 2 * i + 1) * to_row,
                       _mm512_castpd_ps(_mm512_unpackhi_pd(low, high)));
    }
  }
}

/* Four rounds of shuffles within and between the 128-bit lanes. */
static inline void part_block(const float *from, int64_t from_row, float *to, int64_t to_row,
                              int rows, int cols) {
  __m512 a[16], b[16];
  const __mmask16 in = (__mmask16)((1u << cols) - 1), out = (__mmask16)((1u << rows) - 1);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++)
    a[i] = _mm512_maskz_loadu_ps(i < rows ? in : 0, i < rows ? from + i * from_row : from);
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
#define PAIR(x, y, high)                                                                           \
  _mm512_castpd_ps((high) ? _mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y))           \
                          : _mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)))
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    a[i] = PAIR(b[i], b[i + 2], 0);
    a[i + 1] = PAIR(b[i], b[i + 2], 1);
    a[i + 2] = PAIR(b[i + 1], b[i + 3], 0);
    a[i + 3] = PAIR(b[i + 1], b[i + 3], 1);
  }
#undef PAIR
  /* a[4 q + c] holds, in lane l, column 4 l + c of rows 4 q .. 4 q + 3. */
#pragma GCC unroll 4
  for (int c = 0; c < 4; c++) {
    __m512 low = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x88);
    __m512 low_odd = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xdd);
    __m512 high = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x88);
    __m512 high_odd = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xdd);
    b[c] = _mm512_shuffle_f32x4(low, high, 0x88);
    b[8 + c] = _mm512_shuffle_f32x4(low, high, 0xdd);
    b[4 + c] = _mm512_shuffle_f32x4(low_odd, high_odd, 0x88);
    b[12 + c] = _mm512_shuffle_f32x4(low_odd, high_odd, 0xdd);
  }
  /* A load soon after a masked store of the same place would wait for it. */
  if (rows == 16) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
      if (i < cols) _mm512_storeu_ps(to + i * to_row, b[i]);
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
      if (i < cols) _mm512_mask_storeu_ps(to + i * to_row, out, b[i]);
  }
}

static inline void block(const float *from, int64_t from_row, float *to, int64_t to_row, int rows,
                         int cols) {
  const bool pages = from_row % 1024 == 0; /* the rows would evict each other from L1 meanwhile */
  if (rows == 16 && cols == 16 && !pages)
    whole_block(from, from_row, to, to_row);
  else
    part_block(from, from_row, to, to_row, rows, cols);
}

#elif defined __AVX2__
#include <immintrin.h>
#define BLOCK 8

static inline void whole_block(const float *from, int64_t from_row, float *to, int64_t to_row) {
  __m256 a[8], b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(from + i * from_row);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
    a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
    a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
    a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps(to + i * to_row, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_row, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
  }
}

static inline void block(const float *from, int64_t from_row, float *to, int64_t to_row, int rows,
                         int cols) {
  if (rows == BLOCK && cols == BLOCK) {
    whole_block(from, from_row, to, to_row);
    return;
  }
  for (int c = 0; c < cols; c++)
    for (int r = 0; r < rows; r++) to[c * to_row + r] = from[r * from_row + c];
}

#else
#define BLOCK 8

static inline void block(const float *from, int64_t from_row, float *to, int64_t to_row, int rows,
                         int cols) {
  for (int c = 0; c < cols; c++)
    for (int r = 0; r < rows; r++) to[c * to_row + r] = from[r * from_row + c];
}
#endif

static inline int upto(int64_t left) {
  return left < BLOCK ? (int)left : BLOCK;
}

/* The side whose rows lie further apart is walked along them. */
void LO_ISA_NAME(lo_transpose)(const float *from, int64_t from_row, float *to, int64_t to_row,
                               int64_t rows, int64_t cols) {
  const bool across = from_row >= to_row;
  const int64_t outer = across ? rows : cols, inner = across ? cols : rows;
  for (int64_t i = 0; i < outer; i += BLOCK)
    for (int64_t j = 0; j < inner; j += BLOCK) {
      const int64_t r = across ? i : j, c = across ? j : i;
      block(from + r * from_row + c, from_row, to + c * to_row + r, to_row, upto(rows - r),
            upto(cols - c));
    }
}

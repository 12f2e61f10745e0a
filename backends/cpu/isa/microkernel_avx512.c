/* 6 x 64: 24 sums, 4 vectors of W, 1 broadcast: 29 of the 32 registers. Narrower tiles, for what is
 * left of n, are higher; 28 sums at most. */
#include <config.h>

#include <immintrin.h>

typedef __m512 vec;
#define LANES            16
#define vec_zero()       _mm512_setzero_ps()
#define vec_load(p)      _mm512_loadu_ps(p)
#define vec_store(p, v)  _mm512_storeu_ps(p, v)
#define vec_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define vec_add(a, b)    _mm512_add_ps(a, b)
#define vec_mul(a, b)    _mm512_mul_ps(a, b)
#define vec_max(a, b)    _mm512_max_ps(a, b)

/* Into a register: folded into each multiply-add the load would be repeated. */
static inline vec vec_broadcast(const float *p) {
  vec v = _mm512_set1_ps(*p);
  __asm__("" : "+v"(v));
  return v;
}
static inline vec vec_load_part(const float *p, int n) {
  return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
static inline void vec_store_part(float *p, vec v, int n) {
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
}
static inline void vec_store_sums(float *p, vec a, vec b, vec c, vec d) {
  vec ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  vec cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  vec abcd = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
  __m256 half = _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps(abcd, 1));
  _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}

static inline vec vec_join(const float *const *x, int parts) {
  if (parts == 1) return _mm512_loadu_ps(x[0]);
  if (parts == 2)
    return _mm512_mask_broadcast_f32x8(_mm512_castps256_ps512(_mm256_loadu_ps(x[0])), 0xff00,
                                       _mm256_loadu_ps(x[1]));
  vec v = _mm512_castps128_ps512(_mm_loadu_ps(x[0]));
  v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_loadu_ps(x[1]));
  v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_loadu_ps(x[2]));
  return _mm512_mask_broadcast_f32x4(v, 0xf000, _mm_loadu_ps(x[3]));
}

#define RESIDENT  13
#define MOST_ROWS 14
#define VECTORS   4
#define TILES(X)  UPTO_14(X, 1) UPTO_14(X, 2) UPTO_8(X, 3) UPTO_6(X, 4)
#define TILE_ROWS                                                                                  \
  { 14, 14, 8, 6 }
#define DOT_COLUMNS 5
#define DOTS(X)     UPTO_8(X, 1) UPTO_8(X, 2) UPTO_8(X, 3) UPTO_6(X, 4) UPTO_5(X, 5)
#define DOT_ROWS                                                                                   \
  { 8, 8, 8, 6, 5 }
#define SLICE_ROWS                8
#define SLICE_VECTORS             3
#define SLICES_OF(X, rows, parts) X(rows, 1, parts) X(rows, 2, parts) X(rows, 3, parts)
#define SLICES(X)                                                                                  \
  SLICES_OF(X, 8, 1)                                                                               \
  SLICES_OF(X, 8, 2) SLICES_OF(X, 8, 4) SLICES_OF(X, 4, 1) SLICES_OF(X, 4, 2) SLICES_OF(X, 4, 4)
#define SHAPE        "6x64"
#define FLOPS_PER_NS 150
#include "backends/cpu/isa/microkernel.h"

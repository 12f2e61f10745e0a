/* 6 x 16: 12 sums, 2 vectors of W, 1 broadcast: 15 of the 16 registers. */
#include <config.h>

#include <immintrin.h>

typedef __m256 vec;
#define LANES            8
#define vec_zero()       _mm256_setzero_ps()
#define vec_load(p)      _mm256_loadu_ps(p)
#define vec_store(p, v)  _mm256_storeu_ps(p, v)
#define vec_broadcast(p) _mm256_broadcast_ss(p)
#define vec_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define vec_add(a, b)    _mm256_add_ps(a, b)
#define vec_mul(a, b)    _mm256_mul_ps(a, b)
#define vec_max(a, b)    _mm256_max_ps(a, b)

/* Ones in the first n lanes. */
static inline __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vec vec_load_part(const float *p, int n) {
  return _mm256_maskload_ps(p, first_lanes(n));
}
static inline void vec_store_part(float *p, vec v, int n) {
  _mm256_maskstore_ps(p, first_lanes(n), v);
}
static inline void vec_store_sums(float *p, vec a, vec b, vec c, vec d) {
  vec ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
  vec cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
  vec abcd = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
}

static inline vec vec_join(const float *const *x, int parts) {
  return parts == 1 ? _mm256_loadu_ps(x[0])
                    : _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x[0])),
                                           _mm_loadu_ps(x[1]), 1);
}

#define RESIDENT  0
#define MOST_ROWS 6
#define VECTORS   2
#define TILES(X)  UPTO_6(X, 1) UPTO_6(X, 2)
#define TILE_ROWS                                                                                  \
  { 6, 6 }
#define DOT_COLUMNS 3
#define DOTS(X)     UPTO_6(X, 1) UPTO_4(X, 2) UPTO_4(X, 3)
#define DOT_ROWS                                                                                   \
  { 6, 4, 4 }
#define SLICE_ROWS    4
#define SLICE_VECTORS 2
#define SLICES(X)     X(4, 1, 1) X(4, 2, 1) X(4, 1, 2) X(4, 2, 2)
#define SHAPE         "6x16"
#define FLOPS_PER_NS  70
#include "backends/cpu/isa/microkernel.h"

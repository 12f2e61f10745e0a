/* 14 x 32 by vpmaddwd. */
#include <config.h>

#include <immintrin.h>

typedef __m512i vec;
#define LANES               16
#define MAX_ROWS            14
#define vec_zero()          _mm512_setzero_si512()
#define vec_load(p)         _mm512_loadu_si512(p)
#define vec_store(p, v)     _mm512_storeu_si512(p, v)
#define vec_word(x)         _mm512_set1_epi32((int)(x))
#define vec_dot(x, w, sums) _mm512_add_epi32(sums, _mm512_madd_epi16(x, w))
#define ROWS(X)             X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define FLOPS_PER_NS        150
#include "backends/cpu/isa/grouped_integers.h"

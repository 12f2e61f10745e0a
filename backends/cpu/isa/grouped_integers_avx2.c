/* 6 x 16 by vpmaddwd. */
#include <config.h>

#include <immintrin.h>

typedef __m256i vec;
#define LANES               8
#define MAX_ROWS            6
#define vec_zero()          _mm256_setzero_si256()
#define vec_load(p)         _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define vec_store(p, v)     _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define vec_word(x)         _mm256_set1_epi32((int)(x))
#define vec_dot(x, w, sums) _mm256_add_epi32(sums, _mm256_madd_epi16(x, w))
#define ROWS(X)             X(1) X(2) X(3) X(4) X(5) X(6)
#define FLOPS_PER_NS        70
#include "backends/cpu/isa/grouped_integers.h"

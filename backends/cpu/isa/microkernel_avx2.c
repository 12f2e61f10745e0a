/* 6 x 16: 12 sums, 2 vectors of W, 1 broadcast: 15 of the 16 registers. */
#include <config.h>

#include <immintrin.h>

typedef __m256 vec;
#define LANES            8
#define MAX_ROWS         6
#define vec_zero()       _mm256_setzero_ps()
#define vec_load(p)      _mm256_loadu_ps(p)
#define vec_store(p, v)  _mm256_storeu_ps(p, v)
#define vec_broadcast(p) _mm256_broadcast_ss(p)
#define vec_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define ROWS(X)          X(1) X(2) X(3) X(4) X(5) X(6)
#define PANEL            "16"
#define FLOPS_PER_NS     70
#include "backends/cpu/isa/microkernel.h"

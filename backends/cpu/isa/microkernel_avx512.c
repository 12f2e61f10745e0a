/* 14 x 32: 28 sums, 2 vectors of W, 1 broadcast: 31 of the 32 registers. */
#include <config.h>

#include <immintrin.h>

typedef __m512 vec;
#define LANES            16
#define MAX_ROWS         14
#define vec_zero()       _mm512_setzero_ps()
#define vec_load(p)      _mm512_loadu_ps(p)
#define vec_store(p, v)  _mm512_storeu_ps(p, v)
#define vec_broadcast(p) _mm512_set1_ps(*(p))
#define vec_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ROWS(X)          X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define PANEL            "32"
#define FLOPS_PER_NS     150
#include "backends/cpu/isa/microkernel.h"

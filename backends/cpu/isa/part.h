/* What the files of one instruction set share. */
#ifndef LO_ISA_PART_H
#define LO_ISA_PART_H

#include <string.h>

#include "backends/cpu/isa/isa.h"

/* Fused where the hardware fuses. The compiler must not on its own (-ffp-contract=off): bits would
 * then depend on whether a loop's body or its tail computed an element. */
#if defined __FMA__ || defined __ARM_FEATURE_FMA
#define LO_FUSED 1
static inline float fma32(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
#else
#define LO_FUSED 0
static inline float fma32(float a, float b, float c) {
  return a * b + c;
}
#endif

static inline uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
static inline float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* Floats of a vector, as the microkernels have them. */
#if defined __AVX2__
#include <immintrin.h>
#endif
#if defined __AVX512F__
#define VECTOR 16
#elif defined __AVX2__
#define VECTOR 8
#else
#define VECTOR 4
#endif

/* A few floats: a call of memcpy would cost more. */
static inline void copy_floats(const float *from, float *to, int64_t n) {
  int64_t j = 0;
  for (; j + VECTOR <= n; j += VECTOR) memcpy(to + j, from + j, VECTOR * sizeof *to);
#if defined __AVX512F__
  if (j < n) {
    const __mmask16 m = (__mmask16)((1u << (n - j)) - 1);
    _mm512_mask_storeu_ps(to + j, m, _mm512_maskz_loadu_ps(m, from + j));
  }
#else
  for (; j < n; j++) to[j] = from[j];
#endif
}

/* Before a loop whose element j depends on elements j alone, so that in place is no hazard. */
#if defined __clang__
#define LO_EACH _Pragma("clang loop vectorize(assume_safety)")
#else
#define LO_EACH _Pragma("GCC ivdep")
#endif

#define DECLARE(result, name, ...) result LO_ISA_NAME(name)(__VA_ARGS__)
DECLARE(void, lo_load, layerops_type type, const void *from, float *to, int64_t n);
DECLARE(void, lo_load_odd, const int32_t *from, float *to, int64_t n);
DECLARE(void, lo_store, layerops_type type, const float *from, void *to, int64_t n);
DECLARE(void, lo_load_rows, layerops_type type, const void *from, int64_t from_row, float *to,
        int64_t to_row, int64_t rows, int64_t n);
DECLARE(void, lo_transpose, const float *from, int64_t from_row, float *to, int64_t to_row,
        int64_t rows, int64_t cols);
DECLARE(void, lo_finish_tile, const lo_finish *f, float *tile, int64_t tile_row, int64_t i,
        int64_t j, int64_t rows, int64_t cols);
DECLARE(void, lo_grouped_rows, const lo_grouped_words *x, int64_t rows, int64_t k, int64_t words,
        uint32_t *to, int64_t to_row);
DECLARE(void, lo_grouped_panel, const lo_grouped_words *w, int64_t columns, int64_t k,
        int64_t words, int64_t panel, uint32_t *to);
DECLARE(void, lo_grouped_sums, int size, const uint32_t *panel, int64_t words, int64_t width,
        int32_t *sums);
DECLARE(void, lo_integers, const lo_integer_tile *t);
DECLARE(void, lo_activate, layerops_activation kind, float slope, const float *x, float *y,
        int64_t n);
DECLARE(void, lo_derive, layerops_activation kind, float slope, const float *dy, const float *saved,
        float *dx, int64_t n);
DECLARE(void, lo_add, const float *x, float *sum, int64_t n);
DECLARE(void, lo_sum_rows, const float *x, int64_t row, int64_t rows, float *sum, int64_t n);
DECLARE(float, lo_maximum, const float *x, int64_t n);
DECLARE(bool, lo_any_nan, const float *x, int64_t n);
DECLARE(void, lo_exp_sum, const float *x, float shift, float *y, float *lanes, int64_t n);
DECLARE(float, lo_log, float x);
DECLARE(void, lo_narrow_look, float *x, int64_t n, lo_narrow *rows);
DECLARE(void, lo_narrow_scale, float *x, int64_t n, const lo_narrow *rows, float scale);
DECLARE(void, lo_scale, const float *x, float factor, float *y, int64_t n);
DECLARE(void, lo_shift, const float *x, float a, float b, float *y, int64_t n);
DECLARE(void, lo_cross, const float *x, const float *p, float a, float b, float *lanes, float *mass,
        int64_t n);
DECLARE(void, lo_blend, const float *y, float a, const float *p, float b, float *d, int64_t n);
DECLARE(void, lo_squares, const float *y, const float *t, float scale, float *d, float *lanes,
        int64_t n);
DECLARE(void, lo_softmax_loss_of, lo_softmax_loss *s);
DECLARE(void, lo_sgd, const lo_sgd_step *s, float *w, const float *g, float *v, int64_t n);
DECLARE(void, lo_adam, const lo_adam_step *s, float *w, const float *g, float *m, float *v,
        int64_t n);
#undef DECLARE

#endif

/* Rows of softmax, losses and sums. A sum over a row runs in LO_LANES lanes by position, so that
 * its bits depend on the row's values alone. */
#include <config.h>

#include <math.h>

#include "backends/cpu/isa/mathematics.h"

enum { PARTS = LO_LANES / VECTOR };

/* For the PARTS vectors of each LO_LANES floats: part p at j, `left` floats from there on. */
#define EACH_PART(n, j, p, left)                                                                   \
  for (int64_t j_ = 0; j_ < (n); j_ += LO_LANES)                                                   \
  _Pragma("GCC unroll 4") for (int64_t p = 0, j, left;                                             \
                               j = j_ + p * VECTOR, left = (n)-j, p < PARTS; p++) if (left > 0)

typedef struct sums {
  vf part[PARTS];
} sums;

LO_FN sums take(const float *lanes) {
  sums s;
#pragma GCC unroll 4
  for (int p = 0; p < PARTS; p++) s.part[p] = v_load(lanes + p * VECTOR);
  return s;
}
LO_FN void put(const sums *s, float *lanes) {
#pragma GCC unroll 4
  for (int p = 0; p < PARTS; p++) v_store(lanes + p * VECTOR, s->part[p]);
}

void LO_ISA_NAME(lo_add)(const float *restrict x, float *restrict sum, int64_t n) {
  LO_EACH
  for (int64_t j = 0; j < n; j++) sum[j] += x[j];
}

/* `count` vectors of columns, the last of them `left` wide. */
LO_FN void sum_columns(const float *x, int64_t row, int64_t rows, float *sum, int count,
                       int64_t left) {
  vf s[4];
#pragma GCC unroll 4
  for (int q = 0; q < count; q++)
    s[q] = v_load_upto(x + q * VECTOR, q + 1 < count ? VECTOR : left, v_all(0));
  for (int64_t r = 1; r < rows; r++) {
    x += row;
#pragma GCC unroll 4
    for (int q = 0; q < count; q++)
      s[q] += v_load_upto(x + q * VECTOR, q + 1 < count ? VECTOR : left, v_all(0));
  }
#pragma GCC unroll 4
  for (int q = 0; q < count; q++)
    v_store_upto(sum + q * VECTOR, s[q], q + 1 < count ? VECTOR : left);
}

void LO_ISA_NAME(lo_sum_rows)(const float *x, int64_t row, int64_t rows, float *sum, int64_t n) {
  int64_t j = 0;
  for (; j + 4 * VECTOR <= n; j += 4 * VECTOR) sum_columns(x + j, row, rows, sum + j, 4, VECTOR);
  for (; j + VECTOR <= n; j += VECTOR) sum_columns(x + j, row, rows, sum + j, 1, VECTOR);
  if (j < n) sum_columns(x + j, row, rows, sum + j, 1, n - j);
}

/* Four vectors in turn, or each would wait for the last. */
float LO_ISA_NAME(lo_maximum)(const float *x, int64_t n) {
  const vf least = v_all(-INFINITY);
  vf most[4] = {least, least, least, least};
  int64_t j = 0;
  for (; j + 4 * VECTOR <= n; j += 4 * VECTOR) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) most[q] = v_max(v_load(x + j + q * VECTOR), most[q]);
  }
  for (; j < n; j += VECTOR) most[0] = v_max(v_load_upto(x + j, n - j, least), most[0]);
  float lanes[VECTOR], one = -INFINITY;
  v_store(lanes, v_max(v_max(most[0], most[1]), v_max(most[2], most[3])));
  for (int l = 0; l < VECTOR; l++) one = lanes[l] > one ? lanes[l] : one;
  return one;
}

bool LO_ISA_NAME(lo_any_nan)(const float *x, int64_t n) {
  int found = 0;
  for (int64_t j = 0; j < n; j++) found |= x[j] != x[j];
  return found;
}

/* What is behind the row is -infinity, whose exponential adds nothing. */
void LO_ISA_NAME(lo_exp_sum)(const float *x, float shift, float *y, float *lanes, int64_t n) {
  sums s = take(lanes);
  EACH_PART(n, j, p, left) {
    vf e = v_exp(v_load_upto(x + j, left, v_all(-INFINITY)) - shift);
    v_store_upto(y + j, e, left);
    s.part[p] += e;
  }
  put(&s, lanes);
}

float LO_ISA_NAME(lo_log)(float x) {
  return v_log(v_all(x))[0];
}

void LO_ISA_NAME(lo_scale)(const float *x, float factor, float *y, int64_t n) {
  const vf by = v_all(factor);
  V_EACH(n, j, left, v_store_upto(y + j, v_load_upto(x + j, left, v_all(0)) * by, left););
}

void LO_ISA_NAME(lo_shift)(const float *x, float a, float b, float *y, int64_t n) {
  V_EACH(n, j, left, v_store_upto(y + j, (v_load_upto(x + j, left, v_all(0)) - a) - b, left););
}

void LO_ISA_NAME(lo_cross)(const float *x, const float *p, float a, float b, float *lanes,
                           float *mass, int64_t n) {
  sums loss = take(lanes), masses = take(mass);
  EACH_PART(n, j, q, left) {
    vf weight = v_load_upto(p + j, left, v_all(0));
    vf each = weight * (b - (v_load_upto(x + j, left, v_all(0)) - a));
    loss.part[q] += (vf)((vi)each & (vi)(weight != 0.0f)); /* NaN counts */
    masses.part[q] += weight;
  }
  put(&loss, lanes);
  put(&masses, mass);
}

void LO_ISA_NAME(lo_blend)(const float *y, float a, const float *p, float b, float *d, int64_t n) {
  V_EACH(n, j, left, {
    vf v = a * v_load_upto(y + j, left, v_all(0)) - b * v_load_upto(p + j, left, v_all(0));
    v_store_upto(d + j, v, left);
  });
}

void LO_ISA_NAME(lo_squares)(const float *y, const float *t, float scale, float *d, float *lanes,
                             int64_t n) {
  sums s = take(lanes);
  EACH_PART(n, j, p, left) {
    vf v = v_load_upto(y + j, left, v_all(0)) - v_load_upto(t + j, left, v_all(0));
    s.part[p] += v * v;
    if (d) v_store_upto(d + j, scale * v, left);
  }
  put(&s, lanes);
}

/* ---- LO_LANES narrow rows at once, a row a lane: x[j][row] ---- */

void LO_ISA_NAME(lo_narrow_look)(float *x, int64_t n, lo_narrow *rows) {
#pragma GCC unroll 4
  for (int p = 0; p < PARTS; p++) {
    float *column = x + p * VECTOR;
    vf most = v_all(-INFINITY), sum = v_all(0);
    for (int64_t j = 0; j < n; j++) most = v_max(v_load(column + j * LO_LANES), most);
    for (int64_t j = 0; j < n; j++) {
      vf e = v_exp(v_load(column + j * LO_LANES) - most);
      v_store(column + j * LO_LANES, e);
      sum += e;
    }
    v_store(rows->largest + p * VECTOR, most);
    v_store(rows->sum + p * VECTOR, sum);
    v_store(rows->log_sum + p * VECTOR, v_log(sum));
    v_store(rows->inverse + p * VECTOR, 1.0f / sum);
  }
}

void LO_ISA_NAME(lo_narrow_scale)(float *x, int64_t n, const lo_narrow *rows, float scale) {
#pragma GCC unroll 4
  for (int p = 0; p < PARTS; p++) {
    const vf factor = scale * v_load(rows->inverse + p * VECTOR);
    for (float *at = x + p * VECTOR, *end = at + n * LO_LANES; at < end; at += LO_LANES)
      v_store(at, v_load(at) * factor);
  }
}

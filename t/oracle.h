/* A context on the reference, and views of arrays for its tests. */
#ifndef LO_TEST_ORACLE_H
#define LO_TEST_ORACLE_H

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include <layerops/layerops.h>

#include "t/tap.h"

static layerops_context *oracle;

static inline void oracle_open(void) {
  if (layerops_open("reference", &oracle)) {
    ok(0, "the reference opens: %s", layerops_last_error());
    exit(done());
  }
}

static inline layerops_matrix mat(const float *data, int64_t rows, int64_t cols) {
  return layerops_host_matrix(data, LAYEROPS_F32, rows, cols);
}
static inline layerops_matrix vec(const float *data, int64_t n) {
  return mat(data, 1, n);
}
static inline layerops_matrix ints(const int32_t *data, int64_t n) {
  return layerops_host_matrix(data, LAYEROPS_I32, 1, n);
}

/* A call that has to work. */
static inline int works(layerops_status status, const char *what) {
  return status ? ok(0, "%s: %s", what, layerops_last_error()) : 1;
}

/* Compares with values known to more digits than f32 has: within one rounding, and `slack` of their
 * size and of 1 more. */
static inline int same(const float *got, const double *want, int64_t count, double slack,
                       const char *what) {
  for (int64_t i = 0; i < count; i++) {
    double allowed = (0x1.01p-24 + slack) * fabs(want[i]) + slack + FLT_MIN;
    if (isnan(want[i]) ? isnan(got[i]) : got[i] == want[i] || fabs(got[i] - want[i]) <= allowed)
      continue;
    ok(0, "%s", what);
    diag("element %lld is %.9g, not %.9g (allowed: %.3g)", (long long)i, (double)got[i], want[i],
         allowed);
    return 0;
  }
  return ok(1, "%s", what);
}

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))

#endif
